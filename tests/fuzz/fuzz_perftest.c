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

/* A copy of exactly the message's length, so that a read behind it is seen. */
static void with_copy(const uint8_t *data, size_t size, size_t length, void (*check)(const char *))
{
	char *copy = calloc(1, length);

	require(copy != NULL);
	memcpy(copy, data, size < length ? size : length);
	check(copy);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	with_copy(data, size, PERFTEST_VERSION_LEN, check_version);
	with_copy(data, size, PERFTEST_MTU_LEN, check_mtu);
	with_copy(data, size, PERFTEST_KEY_LEN, check_key);
	with_copy(data, size, PINGPONG_LEN, check_pingpong);
	return 0;
}
