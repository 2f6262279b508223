/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a perftest server or a pingpong server says, under arbitrary bytes. What is accepted must be
 * in range, and must come out the same after it was formatted and parsed again.
 */
#include <stdlib.h>
#include <string.h>

#include "../../user/connect/perftest_message.h"
#include "../../user/connect/pingpong.h"

static const struct exchange_peer peer = { "perftest server", "10.0.0.2", "10.0.0.2:18515" };

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_version(const char *text)
{
	struct error error;

	if (!perftest_check_version(text, &peer, &error))
		require(text[0] >= '0' && text[0] <= '9' && memchr(text, 0, PERFTEST_VERSION_LEN));
}

static void check_mtu(const char *text)
{
	char again[PERFTEST_MTU_LEN];
	struct error error;
	uint32_t pmtu;

	if (perftest_parse_mtu(text, &peer, &pmtu, &error))
		return;
	require(pmtu >= 256 && pmtu <= 4096 && !(pmtu & (pmtu - 1)));
	perftest_format_mtu(again, pmtu);
	require(!memcmp(again, text, sizeof(again)));
}

static void check_key(const char *text)
{
	struct perftest_key first, second;
	char again[PERFTEST_KEY_LEN];
	struct error error;

	if (perftest_parse_key(text, &peer, &first, &error))
		return;
	require(first.qpn >= 2 && first.qpn < 1u << 24 && first.psn < 1u << 24);
	perftest_format_key(again, &first);
	require(!perftest_parse_key(again, &peer, &second, &error));
	require(perftest_same_key(&first, &second));
}

static void check_pingpong(const char *text)
{
	struct exchange_answer first, second;
	struct exchange_offer offer = { 0 };
	char again[PINGPONG_LEN];
	struct error error;

	if (pingpong_parse(text, &peer, &first, &error))
		return;
	require(first.qpn >= 2 && first.qpn < 1u << 24 && first.psn < 1u << 24);
	offer.qpn = first.qpn;
	offer.psn = first.psn;
	memcpy(offer.ip, first.ip, sizeof(offer.ip));
	pingpong_format(again, &offer);
	require(!pingpong_parse(again, &peer, &second, &error));
	require(second.qpn == first.qpn && second.psn == first.psn &&
		!memcmp(second.ip, first.ip, sizeof(first.ip)));
}

/* Of a good message, with the fuzzer's bytes laid over it by exclusive or: few of them change few.
 */
static const char version[PERFTEST_VERSION_LEN] = "6.24";
static const char mtu[PERFTEST_MTU_LEN] = "5";
static const char key[PERFTEST_KEY_LEN] =
	"0000:0001:000011:c0787d:00000257:00005628103a2000:00:00:00:00:00:00:00:00:00:00:ff:ff:c0:"
	"00:02:02:00000000:";
static const char pingpong[PINGPONG_LEN] = "0000:000011:b08268:00000000000000000000ffffc0000202";

/* A copy of exactly the message's length, so that a read behind it is seen. */
static void with_copy(const uint8_t *data, size_t size, const char *good, size_t length,
		      void (*check)(const char *))
{
	char *copy = malloc(length);

	require(copy != NULL);
	memcpy(copy, good, length);
	for (size_t i = 0; i < length && i < size; i++)
		copy[i] = (char)(copy[i] ^ data[i]);
	check(copy);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	with_copy(data, size, version, sizeof(version), check_version);
	with_copy(data, size, mtu, sizeof(mtu), check_mtu);
	with_copy(data, size, key, sizeof(key), check_key);
	with_copy(data, size, pingpong, sizeof(pingpong), check_pingpong);
	return 0;
}
