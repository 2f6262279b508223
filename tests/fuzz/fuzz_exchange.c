/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The line parsers of the exchange under arbitrary bytes. What is accepted must be in range, and
 * must come out the same after it was formatted and parsed again.
 */
#include <stdlib.h>
#include <string.h>

#include "../../user/connect/exchange_message.h"

static const struct exchange_peer peer = { "receiver", "10.0.0.2", "10.0.0.2:18515" };

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_offer(const char *text, size_t length)
{
	struct exchange_offer first = { 0 }, second = { 0 };
	char line[EXCHANGE_LINE];
	struct error error;
	int size;

	if (exchange_parse_offer(text, length, &peer, &first, &error))
		return;
	require(first.qpn >= 2 && first.qpn < 1u << 24 && first.psn < 1u << 24);
	require(first.pmtu >= 256 && first.pmtu <= 4096 && first.message_size <= 1ull << 31);
	require(first.name[0] && !strchr(first.name, '/') && strlen(first.name) < EXCHANGE_NAME);
	size = exchange_format_offer(line, &first);
	require(size > 0 && line[size - 1] == '\n');
	require(!exchange_parse_offer(line, (size_t)size - 1, &peer, &second, &error));
	require(!memcmp(first.ip, second.ip, 16) && !strcmp(first.name, second.name));
	require(first.qpn == second.qpn && first.psn == second.psn &&
		first.message_size == second.message_size);
	require(first.uc == second.uc && first.immediate == second.immediate &&
		first.packet_mode == second.packet_mode && first.record == second.record);
}

static void check_answer(const char *text, size_t length)
{
	struct exchange_answer first = { 0 }, second = { 0 };
	char line[EXCHANGE_LINE];
	struct error error;
	int size;

	if (exchange_parse_answer(text, length, &peer, &first, &error))
		return;
	require(first.qpn >= 2 && first.qpn < 1u << 24 && first.psn < 1u << 24);
	require(first.slot_size && first.slot_count && first.slot_count <= 65536);
	require((first.slot_size * first.slot_count - 1) / first.slot_count + 1 >= first.slot_size);
	require(first.address + (first.slot_size * first.slot_count - 1) >= first.address);
	size = exchange_format_answer(line, &first);
	require(size > 0);
	require(!exchange_parse_answer(line, (size_t)size - 1, &peer, &second, &error));
	require(!memcmp(first.ip, second.ip, 16) && first.qpn == second.qpn &&
		first.psn == second.psn);
	require(first.pmtu == second.pmtu && first.rkey == second.rkey &&
		first.address == second.address);
	require(first.slot_size == second.slot_size && first.slot_count == second.slot_count);
}

static void check_count(const char *text, size_t length)
{
	struct exchange_count first = { 0 }, second = { 0 };
	char line[EXCHANGE_LINE];
	struct error error;
	int size;

	if (exchange_parse_count(text, length, &peer, "done", &first, &error))
		return;
	size = exchange_format_count(line, "done", &first);
	require(size > 0);
	require(!exchange_parse_count(line, (size_t)size - 1, &peer, "done", &second, &error));
	require(first.messages == second.messages && first.bytes == second.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	check_offer(text, size);
	check_answer(text, size);
	check_count(text, size);
	return 0;
}
