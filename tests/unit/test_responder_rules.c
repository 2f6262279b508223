/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder, rule by rule: a script of frames for each, and the reply expected to each frame.
 */
#include "responder_bench.h"

#define STEPS 8

struct row {
	const char *rule;
	struct step steps[STEPS];
	uint64_t messages;
	bool plain; /* no receives are posted */
	bool uc;
	uint8_t credits; /* 0: unlimited */
};

/* Everything about an IPv4 reply but what the step says. */
static void check_reply(const struct bench *bench, uint32_t length, const struct step *step,
			const char *rule, int n)
{
	const uint8_t *reply = bench->reply;
	uint32_t psn = (PSN + (uint32_t)step->reply_psn) & 0xFFFFFF;
	uint32_t icrc = wire_icrc(reply + 14, 44);
	uint32_t sum = 0;

	cr_assert_eq(length, 62, "%s, step %d: a reply of %u bytes", rule, n, length);
	cr_expect_arr_eq(reply, "\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0\x45\0\0\x30\0\0\x40\0\x40",
			 23);
	cr_expect_arr_eq(reply + 26, "\xC0\0\x02\x02\xC0\0\x02\x01", 8, "%s: addresses", rule);
	for (int i = 14; i < 34; i += 2)
		sum += (uint32_t)reply[i] << 8 | reply[i + 1];
	cr_expect_eq((sum & 0xFFFF) + (sum >> 16), 0xFFFF, "%s: IPv4 checksum", rule);
	cr_expect_geq(reply[34], 0xC0, "%s: source port", rule);
	cr_expect_arr_eq(reply + 36, "\x12\xB7\0\x1C\0\0\x11\x40\xFF\xFF\0\0\0\x99\0", 15,
			 "%s, step %d: UDP or BTH", rule, n);
	cr_expect_eq(roce_get24(reply + 51), psn, "%s, step %d: PSN %06x, expected %06x", rule, n,
		     roce_get24(reply + 51), psn);
	cr_expect_eq(reply[54], step->reply, "%s, step %d: syndrome %02x, expected %02x", rule, n,
		     reply[54], step->reply);
	cr_expect_eq(roce_get24(reply + 55), step->msn, "%s, step %d: MSN %u", rule, n,
		     roce_get24(reply + 55));
	cr_expect(!memcmp(reply + 58, &icrc, 4), "%s, step %d: ICRC", rule, n);
}

/* clang-format off */
static const struct row rc_rows[] = {
	{ .rule = "a message of one packet, each kind", .steps = {
		{ .opcode = ONLY, .psn = 0, .length = 5, .dma_length = 5, .reply = ACK, .reply_psn = 0, .msn = 1 },
		{ .opcode = ONLY_IMM, .psn = 1, .length = PMTU, .dma_length = PMTU, .reply = ACK, .reply_psn = 1, .msn = 2 },
		{ .opcode = ONLY, .psn = 2, .reply = ACK, .reply_psn = 2, .msn = 3 },
	}, .messages = 3 },
	{ .rule = "First, Middle, Last: the MSN counts the Last alone", .steps = {
		{ .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = 2 * PMTU + 3, .reply = ACK, .reply_psn = 0, .msn = 0 },
		{ .opcode = MIDDLE, .psn = 1, .length = PMTU, .reply = ACK, .reply_psn = 1, .msn = 0 },
		{ .opcode = LAST, .psn = 2, .length = 3, .reply = ACK, .reply_psn = 2, .msn = 1 },
	}, .messages = 1 },
	{ .rule = "no AckReq, no ACK; the next one covers it", .steps = {
		{ .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = 2 * PMTU, .no_ackreq = true, .reply = SILENCE },
		{ .opcode = LAST_IMM, .psn = 1, .length = PMTU, .reply = ACK, .reply_psn = 1, .msn = 1 },
	}, .messages = 1 },
	{ .rule = "PSN ahead: one NAK for a gap, with the expected PSN; a new gap, a new NAK", .steps = {
		{ .opcode = ONLY, .psn = 1, .length = 4, .dma_length = 4, .reply = 0x60, .reply_psn = 0 },
		{ .opcode = ONLY, .psn = 2, .length = 4, .dma_length = 4, .reply = SILENCE },
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = ACK, .reply_psn = 0, .msn = 1 },
		{ .opcode = ONLY, .psn = 3, .length = 4, .dma_length = 4, .no_ackreq = true, .reply = 0x60, .reply_psn = 1, .msn = 1 },
		{ .opcode = ONLY, .psn = 1, .length = 4, .dma_length = 4, .no_ackreq = true, .reply = SILENCE },
		{ .opcode = ONLY, .psn = 2, .length = 4, .dma_length = 4, .reply = ACK, .reply_psn = 2, .msn = 3 },
	}, .messages = 3 },
	{ .rule = "the window ends at 2^23", .steps = {
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = ACK, .reply_psn = 0, .msn = 1 },
		{ .opcode = ONLY, .psn = 1 + (1 << 23), .length = 4, .dma_length = 4, .reply = ACK, .reply_psn = 0, .msn = 1 },
		{ .opcode = ONLY, .psn = (1 << 23), .length = 4, .dma_length = 4, .reply = 0x60, .reply_psn = 1, .msn = 1 },
	}, .messages = 1 },
	{ .rule = "a duplicate is acknowledged with the newest PSN when it asks, and not judged", .steps = {
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = ACK, .reply_psn = 0, .msn = 1 },
		{ .opcode = ONLY_IMM, .psn = 1, .length = 4, .dma_length = 4, .reply = ACK, .reply_psn = 1, .msn = 2 },
		{ .opcode = ONLY_IMM, .psn = 0, .length = 4, .dma_length = 4, .rkey_error = 1, .reply = ACK, .reply_psn = 1, .msn = 2 },
		{ .opcode = ONLY_IMM, .psn = 1, .length = 4, .dma_length = 4, .no_ackreq = true, .reply = SILENCE },
		{ .opcode = MIDDLE, .psn = 1, .length = 4, .reply = ACK, .reply_psn = 1, .msn = 2 },
	}, .messages = 2 },
	{ .rule = "a duplicate before anything: there is nothing to acknowledge", .steps = {
		{ .opcode = ONLY, .psn = -1, .length = 4, .dma_length = 4, .reply = SILENCE },
	} },
	{ .rule = "duplicates are acknowledged while a gap is open", .steps = {
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = ACK, .reply_psn = 0, .msn = 1 },
		{ .opcode = ONLY, .psn = 2, .length = 4, .dma_length = 4, .reply = 0x60, .reply_psn = 1, .msn = 1 },
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = ACK, .reply_psn = 0, .msn = 1 },
		{ .opcode = ONLY, .psn = 3, .length = 4, .dma_length = 4, .reply = SILENCE },
	}, .messages = 1 },
	{ .rule = "Middle without First", .steps = {
		{ .opcode = MIDDLE, .psn = 0, .length = PMTU, .reply = 0x61 },
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = SILENCE },
	} },
	{ .rule = "Last without First", .steps = { { .opcode = LAST, .psn = 0, .length = 4, .reply = 0x61 } } },
	{ .rule = "Only inside a message", .steps = {
		{ .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = 2 * PMTU, .reply = ACK, .reply_psn = 0 },
		{ .opcode = ONLY, .psn = 1, .length = 4, .dma_length = 4, .reply = 0x61, .reply_psn = 1 },
	} },
	{ .rule = "First inside a message", .steps = {
		{ .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = 2 * PMTU, .reply = ACK, .reply_psn = 0 },
		{ .opcode = FIRST, .psn = 1, .length = PMTU, .dma_length = 2 * PMTU, .reply = 0x61, .reply_psn = 1 },
	} },
	{ .rule = "an error is silence ever after, for duplicates too", .steps = {
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = ACK, .reply_psn = 0, .msn = 1 },
		{ .opcode = LAST, .psn = 1, .length = 4, .reply = 0x61, .reply_psn = 1, .msn = 1 },
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = SILENCE },
		{ .opcode = ONLY, .psn = 3, .length = 4, .dma_length = 4, .reply = SILENCE },
	}, .messages = 1 },
	{ .rule = "Send is not a write", .steps = { { .opcode = 0x04, .psn = 0, .length = 4, .reply = 0x61 } } },
	{ .rule = "Read is not a write", .steps = { { .opcode = 0x0C, .psn = 0, .length = 16, .reply = 0x61 } } },
	{ .rule = "what is not a write still waits for its PSN", .steps = {
		{ .opcode = 0x04, .psn = 1, .length = 4, .reply = 0x60 },
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = ACK, .msn = 1 },
	}, .messages = 1 },
	{ .rule = "responses are for a requester", .steps = {
		{ .opcode = 0x11, .psn = 0, .length = 4, .reply = SILENCE },
		{ .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .reply = ACK, .msn = 1 },
	}, .messages = 1 },
	{ .rule = "short First", .steps = { { .opcode = FIRST, .psn = 0, .length = PMTU - 4, .dma_length = 2 * PMTU, .reply = 0x61 } } },
	{ .rule = "long First", .steps = { { .opcode = FIRST, .psn = 0, .length = PMTU + 4, .dma_length = 2 * PMTU, .reply = 0x61 } } },
	{ .rule = "First of a message that fits one packet", .steps = { { .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = PMTU, .reply = 0x61 } } },
	{ .rule = "short Middle", .steps = {
		{ .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = 3 * PMTU, .reply = ACK },
		{ .opcode = MIDDLE, .psn = 1, .length = PMTU - 1, .reply = 0x61, .reply_psn = 1 },
	} },
	{ .rule = "Middle that leaves nothing for the Last", .steps = {
		{ .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = 2 * PMTU, .reply = ACK },
		{ .opcode = MIDDLE, .psn = 1, .length = PMTU, .reply = 0x61, .reply_psn = 1 },
	} },
	{ .rule = "Last shorter than the rest", .steps = {
		{ .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = 2 * PMTU, .reply = ACK },
		{ .opcode = LAST, .psn = 1, .length = PMTU - 1, .reply = 0x61, .reply_psn = 1 },
	} },
	{ .rule = "Last longer than the rest", .steps = {
		{ .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = PMTU + 8, .reply = ACK },
		{ .opcode = LAST, .psn = 1, .length = 9, .reply = 0x61, .reply_psn = 1 },
	} },
	{ .rule = "Last without payload", .steps = {
		{ .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = PMTU + 8, .reply = ACK },
		{ .opcode = LAST, .psn = 1, .length = 0, .reply = 0x61, .reply_psn = 1 },
	} },
	{ .rule = "Only longer than the PMTU", .steps = { { .opcode = ONLY, .psn = 0, .length = PMTU + 1, .dma_length = PMTU + 1, .reply = 0x61 } } },
	{ .rule = "Only and DMALen differ", .steps = { { .opcode = ONLY, .psn = 0, .length = 8, .dma_length = 12, .reply = 0x61 } } },
	{ .rule = "DMALen 0 with payload", .steps = { { .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 0, .reply = 0x61 } } },
	{ .rule = "DMALen above 2^31", .steps = { { .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = 0x80000004, .reply = 0x61 } } },
	{ .rule = "DMALen 2^31 is legal, but not in range here", .steps = { { .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = 0x80000000, .reply = 0x62 } } },
	{ .rule = "pad count that is not the payload's", .steps = { { .opcode = ONLY, .psn = 0, .length = 5, .dma_length = 5, .bad_pad = 1 + 2, .reply = 0x61 } } },
	{ .rule = "pad on a full packet", .steps = { { .opcode = ONLY, .psn = 0, .length = 8, .dma_length = 8, .bad_pad = 1 + 3, .reply = 0x61 } } },
	{ .rule = "wrong rkey", .steps = { { .opcode = ONLY, .psn = 0, .length = 4, .dma_length = 4, .rkey_error = 0x100, .reply = 0x62 } } },
	{ .rule = "wrong rkey and address with length 0", .steps = { { .opcode = ONLY, .psn = 0, .rkey_error = 0x100, .offset = -5000, .reply = ACK, .msn = 1 } }, .messages = 1 },
	{ .rule = "the first and the last byte of the range", .steps = {
		{ .opcode = ONLY, .psn = 0, .length = 1, .dma_length = 1, .offset = 0, .reply = ACK, .msn = 1 },
		{ .opcode = ONLY, .psn = 1, .length = 1, .dma_length = 1, .offset = SLOT * SLOTS - 1, .reply = ACK, .reply_psn = 1, .msn = 2 },
	}, .messages = 2 },
	{ .rule = "one byte before the range", .steps = { { .opcode = ONLY, .psn = 0, .length = 1, .dma_length = 1, .offset = -1, .reply = 0x62 } } },
	{ .rule = "one byte behind the range", .steps = { { .opcode = ONLY, .psn = 0, .length = 2, .dma_length = 2, .offset = SLOT * SLOTS - 1, .reply = 0x62 } } },
	{ .rule = "the whole message must fit, not its first packet", .steps = { { .opcode = FIRST, .psn = 0, .length = PMTU, .dma_length = PMTU + 1, .offset = SLOT * SLOTS - PMTU, .reply = 0x62 } } },
	{ .rule = "an address that wraps", .steps = { { .opcode = ONLY, .psn = 0, .length = 64, .dma_length = 64, .offset = (int64_t)(0 - ADDRESS - 8), .reply = 0x62 } } },
	{ .rule = "the N-1 rule: three receives for four slots, RNR NAK, silence for what follows, resume", .steps = {
		{ .opcode = ONLY_IMM, .psn = 0, .immediate = 0, .reply = ACK, .reply_psn = 0, .msn = 1 },
		{ .opcode = ONLY_IMM, .psn = 1, .immediate = 1, .reply = ACK, .reply_psn = 1, .msn = 2 },
		{ .opcode = ONLY_IMM, .psn = 2, .immediate = 2, .reply = ACK, .reply_psn = 2, .msn = 3 },
		{ .opcode = ONLY_IMM, .psn = 3, .immediate = 3, .reply = 0x2C, .reply_psn = 3, .msn = 3 },
		{ .opcode = ONLY_IMM, .psn = 4, .immediate = 4, .reply = SILENCE },
		{ .opcode = ONLY_IMM, .psn = 3, .immediate = 3, .reply = 0x2C, .reply_psn = 3, .msn = 3 },
		{ .opcode = ONLY_IMM, .psn = 3, .immediate = 3, .release = 1, .reply = ACK, .reply_psn = 3, .msn = 4 },
		{ .opcode = ONLY_IMM, .psn = 5, .immediate = 5, .reply = 0x60, .reply_psn = 4, .msn = 4 },
	}, .messages = 4 },
	{ .rule = "an RNR NAK comes before length and key are looked at", .steps = {
		{ .opcode = ONLY_IMM, .psn = 0, .reply = ACK, .msn = 1 },
		{ .opcode = ONLY_IMM, .psn = 1, .immediate = 1, .reply = ACK, .reply_psn = 1, .msn = 2 },
		{ .opcode = ONLY_IMM, .psn = 2, .immediate = 2, .reply = ACK, .reply_psn = 2, .msn = 3 },
		{ .opcode = ONLY_IMM, .psn = 3, .length = 4, .dma_length = 4, .rkey_error = 1, .reply = 0x2C, .reply_psn = 3, .msn = 3 },
	}, .messages = 3 },
	{ .rule = "plain writes need no receive", .steps = {
		{ .opcode = ONLY, .psn = 0, .reply = ACK, .msn = 1 },
		{ .opcode = ONLY, .psn = 1, .reply = ACK, .reply_psn = 1, .msn = 2 },
		{ .opcode = ONLY, .psn = 2, .reply = ACK, .reply_psn = 2, .msn = 3 },
		{ .opcode = ONLY, .psn = 3, .reply = ACK, .reply_psn = 3, .msn = 4 },
		{ .opcode = ONLY, .psn = 4, .reply = ACK, .reply_psn = 4, .msn = 5 },
	}, .messages = 5 },
	{ .rule = "a stream of plain writes posts no receive", .steps = {
		{ .opcode = ONLY_IMM, .psn = 0, .reply = 0x2C },
		{ .opcode = ONLY, .psn = 0, .reply = ACK, .msn = 1 },
	}, .messages = 1, .plain = true },
	{ .rule = "Last with Immediate of a message waits for its receive", .steps = {
		{ .opcode = ONLY_IMM, .psn = 0, .reply = ACK, .msn = 1 },
		{ .opcode = ONLY_IMM, .psn = 1, .immediate = 1, .reply = ACK, .reply_psn = 1, .msn = 2 },
		{ .opcode = ONLY_IMM, .psn = 2, .immediate = 2, .reply = ACK, .reply_psn = 2, .msn = 3 },
		{ .opcode = FIRST, .psn = 3, .length = PMTU, .dma_length = PMTU + 4, .no_ackreq = true, .reply = SILENCE },
		{ .opcode = LAST_IMM, .psn = 4, .length = 4, .immediate = 3, .reply = 0x2C, .reply_psn = 4, .msn = 3 },
		{ .opcode = LAST_IMM, .psn = 4, .length = 4, .immediate = 3, .release = 3, .reply = ACK, .reply_psn = 4, .msn = 4 },
	}, .messages = 4 },
	{ .rule = "posted credits count down and up", .steps = {
		{ .opcode = ONLY_IMM, .psn = 0, .reply = 2, .msn = 1 },
		{ .opcode = ONLY_IMM, .psn = 1, .immediate = 1, .reply = 1, .reply_psn = 1, .msn = 2 },
		{ .opcode = ONLY_IMM, .psn = 2, .immediate = 2, .reply = 0, .reply_psn = 2, .msn = 3 },
		{ .opcode = ONLY_IMM, .psn = 2, .immediate = 2, .release = 2, .reply = 2, .reply_psn = 2, .msn = 3 },
	}, .messages = 3, .credits = RESPONDER_CREDITS_POSTED },
	{ .rule = "a fixed credit code", .steps = { { .opcode = ONLY, .psn = 0, .reply = 7, .msn = 1 } }, .messages = 1, .credits = 7 },
};

static const struct row uc_rows[] = {
	{ .rule = "UC: messages of every kind, and never a reply", .steps = {
		{ .opcode = UC | ONLY, .psn = 0, .length = 4, .dma_length = 4 },
		{ .opcode = UC | ONLY_IMM, .psn = 1, .length = 4, .dma_length = 4 },
		{ .opcode = UC | FIRST, .psn = 2, .length = PMTU, .dma_length = 2 * PMTU + 4 },
		{ .opcode = UC | MIDDLE, .psn = 3, .length = PMTU },
		{ .opcode = UC | LAST, .psn = 4, .length = 4 },
	}, .messages = 3 },
	{ .rule = "UC: a lost Middle drops the rest of the message; a First starts anew", .steps = {
		{ .opcode = UC | FIRST, .psn = 0, .length = PMTU, .dma_length = 3 * PMTU + 4 },
		{ .opcode = UC | MIDDLE, .psn = 2, .length = PMTU },
		{ .opcode = UC | LAST, .psn = 3, .length = 4 },
		{ .opcode = UC | FIRST, .psn = 4, .length = PMTU, .dma_length = PMTU + 4 },
		{ .opcode = UC | LAST, .psn = 5, .length = 4 },
	}, .messages = 1 },
	{ .rule = "UC: a lost Last, then an Only", .steps = {
		{ .opcode = UC | FIRST, .psn = 0, .length = PMTU, .dma_length = PMTU + 4 },
		{ .opcode = UC | ONLY, .psn = 2, .length = 4, .dma_length = 4 },
		{ .opcode = UC | ONLY, .psn = 3, .length = 4, .dma_length = 4 },
	}, .messages = 2 },
	{ .rule = "UC: a lost First drops the message", .steps = {
		{ .opcode = UC | MIDDLE, .psn = 1, .length = PMTU },
		{ .opcode = UC | LAST, .psn = 2, .length = 4 },
		{ .opcode = UC | ONLY, .psn = 3, .length = 4, .dma_length = 4 },
	}, .messages = 1 },
	{ .rule = "UC: First and Only at any PSN, older ones too", .steps = {
		{ .opcode = UC | ONLY, .psn = 100, .length = 4, .dma_length = 4 },
		{ .opcode = UC | ONLY, .psn = 50, .length = 4, .dma_length = 4 },
	}, .messages = 2 },
	{ .rule = "UC: errors drop the message, the queue pair goes on", .steps = {
		{ .opcode = UC | ONLY, .psn = 0, .length = 4, .dma_length = 4, .rkey_error = 1 },
		{ .opcode = UC | ONLY, .psn = 1, .length = 4, .dma_length = 8 },
		{ .opcode = UC | 0x04, .psn = 1, .length = 4 },
		{ .opcode = UC | FIRST, .psn = 3, .length = PMTU, .dma_length = PMTU + 4, .offset = -1 },
		{ .opcode = UC | LAST, .psn = 4, .length = 4 },
		{ .opcode = UC | ONLY, .psn = 5, .length = 4, .dma_length = 4 },
	}, .messages = 1 },
	{ .rule = "UC: no receive, no message", .steps = {
		{ .opcode = UC | ONLY_IMM, .psn = 0, .immediate = 0 },
		{ .opcode = UC | ONLY_IMM, .psn = 1, .immediate = 1 },
		{ .opcode = UC | ONLY_IMM, .psn = 2, .immediate = 2 },
		{ .opcode = UC | ONLY_IMM, .psn = 3, .immediate = 3 },
		{ .opcode = UC | ONLY_IMM, .psn = 4, .immediate = 4, .release = 1 },
	}, .messages = 4 },
};
/* clang-format on */

static void run_row(const struct row *row)
{
	struct responder_config config;
	struct bench bench = { 0 };
	uint64_t released = 0;

	bench.memory = calloc(SLOTS, SLOT);
	config = bench_config(&bench);
	config.uc = row->uc;
	config.immediate = !row->plain;
	config.credits = row->credits ? row->credits : ROCE_CREDITS_UNLIMITED;
	bench_open(&bench, &config);
	for (int n = 0; n < STEPS && row->steps[n].opcode; n++) {
		const struct step *step = &row->steps[n];
		struct wire wire = wire_of(&bench, step);
		uint32_t length;

		released += step->release;
		responder_reader_release(bench.qp, released);
		length = give(&bench, &wire);
		if (row->uc || step->reply == SILENCE)
			cr_expect_eq(length, 0, "%s, step %d: a reply", row->rule, n);
		else
			check_reply(&bench, length, step, row->rule, n);
	}
	cr_expect_eq(responder_counters(bench.qp)->messages, row->messages,
		     "%s: %lu messages, expected %lu", row->rule,
		     responder_counters(bench.qp)->messages, row->messages);
	bench_end(&bench);
}

Test(responder, rc_rules)
{
	for (size_t i = 0; i < sizeof(rc_rows) / sizeof(rc_rows[0]); i++)
		run_row(&rc_rows[i]);
}

Test(responder, uc_rules)
{
	for (size_t i = 0; i < sizeof(uc_rows) / sizeof(uc_rows[0]); i++) {
		struct row row = uc_rows[i];

		row.uc = true;
		run_row(&row);
	}
}
