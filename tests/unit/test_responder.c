/* SPDX-License-Identifier: BSD-2-Clause */
/* What the responder does with memory, time, several queue pairs and bad or unusual frames. */
#include <errno.h>
#include <stdio.h>

#include "responder_bench.h"

/* Messages of every length around the PMTU, at every PMTU, land byte for byte and nowhere else. */
static void send_message(struct bench *bench, uint32_t length, uint32_t *psn, uint32_t number)
{
	uint32_t sent = 0;

	do {
		bool first = !sent, last = length - sent <= bench->pmtu;
		uint32_t chunk = last ? length - sent : bench->pmtu;
		struct step step = {
			.opcode = first ? (last ? ONLY_IMM : FIRST) : (last ? LAST_IMM : MIDDLE),
			.psn = (int)(*psn)++,
			.length = chunk,
			.dma_length = length,
			.offset = (int64_t)(number % SLOTS) * SLOT + 5,
			.immediate = number,
		};
		struct wire wire = wire_of(bench, &step);

		wire.payload = bench->payload + sent % 4;
		cr_assert_eq(give(bench, &wire), 62, "PMTU %u, length %u", bench->pmtu, length);
		cr_assert_eq(bench->reply[54], ACK);
		cr_assert(!memcmp(bench->memory + step.offset + sent, wire.payload, chunk));
		sent += chunk;
	} while (sent < length);
}

static void check_lengths(uint32_t pmtu)
{
	const uint32_t lengths[] = {
		0,    1,        2,
		3,    4,        pmtu - 1,
		pmtu, pmtu + 1, 2 * pmtu - 3 > SLOT - 8 ? pmtu + 9 : 2 * pmtu - 3
	};
	struct responder_config config;
	struct bench bench = { 0 };
	uint32_t psn = 0;

	bench.memory = calloc(SLOTS, SLOT);
	config = bench_config(&bench);
	config.pmtu = pmtu;
	bench_open(&bench, &config);
	for (uint32_t n = 0; n < sizeof(lengths) / sizeof(lengths[0]); n++) {
		struct receiver_message message;
		uint8_t *slot = bench.memory + n % SLOTS * SLOT;

		memset(bench.memory, 0, SLOT * SLOTS);
		send_message(&bench, lengths[n], &psn, n);
		cr_assert_eq(responder_reader_completed(bench.qp), n + 1);
		message = responder_reader_message(bench.qp, n);
		cr_expect_eq(message.number, n);
		cr_expect_eq(message.slot, n % SLOTS);
		cr_expect_eq(message.length, lengths[n]);
		for (uint32_t i = 0; i < 5; i++)
			cr_expect_eq(slot[i], 0);
		cr_expect_eq(slot[5 + lengths[n]], 0, "a byte behind the message was written");
		responder_reader_release(bench.qp, n + 1);
	}
	bench_end(&bench);
}

Test(responder, lengths_at_every_pmtu)
{
	for (uint32_t pmtu = 256; pmtu <= 4096; pmtu *= 2)
		check_lengths(pmtu);
}

Test(responder, executed_once_and_only_in_order)
{
	struct bench bench;
	struct step good = { .opcode = ONLY, .length = 4, .dma_length = 4 };
	struct step late = { .opcode = ONLY, .psn = 1, .length = 4, .dma_length = 4, .offset = 8 };
	struct wire wire;

	bench_start(&bench);
	wire = wire_of(&bench, &late);
	give(&bench, &wire);
	cr_expect_eq(bench.memory[8], 0, "a frame ahead of its turn was executed");
	wire = wire_of(&bench, &good);
	give(&bench, &wire);
	cr_expect_eq(bench.memory[0], bench.payload[0]);
	bench.memory[0] = 0;
	give(&bench, &wire);
	cr_expect_eq(bench.memory[0], 0, "a duplicate was executed");
	bench_end(&bench);
}

/* First and Middle land before the RNR NAK, an Only does not: nothing of it may be seen. */
Test(responder, rnr_writes_nothing)
{
	struct bench bench;

	bench_start(&bench);
	for (int n = 0; n < 4; n++) {
		struct step step = { .opcode = ONLY_IMM,
				     .psn = n,
				     .length = 4,
				     .dma_length = 4,
				     .offset = n * SLOT,
				     .immediate = (uint32_t)n };
		struct wire wire = wire_of(&bench, &step);

		give(&bench, &wire);
		cr_expect_eq(bench.memory[n * SLOT], n < 3 ? bench.payload[0] : 0);
	}
	cr_expect_eq(responder_counters(bench.qp)->rnr_naks, 1);
	bench_end(&bench);
}

Test(responder, withheld_receives_come_back_with_time)
{
	struct step step = { .opcode = ONLY_IMM, .length = 4, .dma_length = 4 };
	struct bench bench;
	struct wire wire;

	bench_start(&bench);
	wire = wire_of(&bench, &step);
	responder_withhold(bench.qp, 1000);
	bench.now = 999;
	cr_assert_eq(give(&bench, &wire), 62);
	cr_expect_eq(bench.reply[54], 0x2C);
	bench.now = 1000;
	cr_assert_eq(give(&bench, &wire), 62);
	cr_expect_eq(bench.reply[54], ACK);
	bench_end(&bench);
}

/* The immediate is 32 bits of a number that goes on; 3 slots show a wrong extension at once. */
Test(responder, message_number_beyond_32_bits)
{
	static const struct {
		uint32_t immediate;
		uint64_t number;
	} rows[] = {
		{ 0x7FFFFFFF, 0x7FFFFFFF },  { 0xFFFFFFFE, 0xFFFFFFFE },
		{ 0xFFFFFFFF, 0xFFFFFFFF },  { 0x00000000, 0x100000000 },
		{ 0x00000005, 0x100000005 }, { 0x00000004, 0x100000004 },
	};
	struct responder_config config;
	struct bench bench = { 0 };

	bench.memory = calloc(SLOTS, SLOT);
	config = bench_config(&bench);
	config.slot_count = 3;
	bench_open(&bench, &config);
	for (uint32_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		struct step step = { .opcode = ONLY_IMM,
				     .psn = (int)n,
				     .immediate = rows[n].immediate };
		struct wire wire = wire_of(&bench, &step);
		struct receiver_message message;

		give(&bench, &wire);
		message = responder_reader_message(bench.qp, n);
		cr_expect_eq(message.number, rows[n].number, "%lx", message.number);
		cr_expect_eq(message.slot, rows[n].number % 3);
		responder_reader_release(bench.qp, n + 1);
	}
	bench_end(&bench);
}

/* What a strict NIC drops without a word. Each row spoils one thing of a good frame. */
struct spoiling {
	const char *what;
	int at; /* byte of the frame that is changed … */
	uint8_t flip;
	bool mend; /* … and whether the ICRC is made right again */
	int cut;   /* bytes taken from the end of the frame */
};

static const struct spoiling spoilings[] = {
	{ "EtherType", 12, 0x01, false, 0 },
	{ "IP version", 14, 0x10, true, 0 },
	{ "IP options", 14, 0x03, true, 0 },
	{ "IP length", 17, 0x04, true, 0 },
	{ "more fragments", 20, 0x20, true, 0 },
	{ "fragment offset", 21, 0x01, true, 0 },
	{ "protocol", 23, 0x01, true, 0 },
	{ "IPv4 checksum", 24, 0x01, true, 0 },
	{ "source address", 29, 0x04, true, 0 },
	{ "destination address", 33, 0x04, true, 0 },
	{ "UDP port", 37, 0x01, true, 0 },
	{ "UDP length", 39, 0x04, true, 0 },
	{ "class UC for an RC queue pair", 42, 0x20, true, 0 },
	{ "class CNP", 42, 0x80, true, 0 },
	{ "transport version", 43, 0x01, true, 0 },
	{ "P_Key", 45, 0x01, true, 0 },
	{ "QPN", 49, 0x01, true, 0 },
	{ "ICRC of the opcode", 42, 0x01, false, 0 },
	{ "ICRC of AckReq", 50, 0x80, false, 0 },
	{ "ICRC of the payload", 70, 0x80, false, 0 },
	{ "the ICRC itself", 75, 0x80, false, 0 },
	{ "frame shorter than the IP packet", 0, 0, false, 1 },
	{ "half a header", 0, 0, false, 60 },
	{ "nothing", 0, 0, false, 78 },
};

static void mend(uint8_t *frame)
{
	uint32_t sum = 0, icrc;

	/* Rows that spoil the checksum itself have flipped it already: only the others are mended.
	 */
	for (int i = 14; i < 34; i += 2)
		sum += i == 24 ? 0 : (uint32_t)frame[i] << 8 | frame[i + 1];
	sum = (sum & 0xFFFF) + (sum >> 16);
	frame[24] = (uint8_t)(~sum >> 8);
	frame[25] = (uint8_t)~sum;
	icrc = wire_icrc(frame + 14, 60);
	memcpy(frame + 74, &icrc, 4);
}

Test(responder, silent_drops)
{
	struct step step = { .opcode = ONLY, .length = 4, .dma_length = 4 };
	struct responder_qp *completed;
	struct bench bench;
	struct wire wire;
	uint32_t length;

	bench_start(&bench);
	wire = wire_of(&bench, &step);
	for (size_t i = 0; i < sizeof(spoilings) / sizeof(spoilings[0]); i++) {
		const struct spoiling *row = &spoilings[i];
		uint8_t *copy;

		length = wire_build(&wire, bench.frame) - (uint32_t)row->cut;
		bench.frame[row->at] ^= row->flip;
		if (row->mend && row->at != 24)
			mend(bench.frame);
		copy = malloc(length + 1);
		memcpy(copy, bench.frame, length);
		cr_expect_eq(responder_receive(bench.responder, copy, length, 0, bench.reply,
					       &completed),
			     0, "%s: a reply", row->what);
		cr_expect_eq(responder_counters(bench.qp)->frames, 0, "%s: executed", row->what);
		free(copy);
	}
	cr_expect_eq(give(&bench, &wire), 62, "the frame that was spoilt is a good one");
	bench_end(&bench);
}

/* What routers may change, and what is free, is no reason to drop. */
Test(responder, tolerated)
{
	static const struct {
		const char *what;
		int at;
		uint8_t value;
	} rows[] = {
		{ "TOS", 15, 0x6B },  { "TTL", 22, 1 },          { "UDP checksum", 40, 0x12 },
		{ "BECN", 46, 0x40 }, { "source MAC", 7, 0x55 },
	};
	struct bench bench;

	bench_start(&bench);
	for (int i = 0; i < (int)(sizeof(rows) / sizeof(rows[0])); i++) {
		struct step step = { .opcode = ONLY, .psn = i, .length = 4, .dma_length = 4 };
		struct wire wire = wire_of(&bench, &step);
		struct responder_qp *completed;
		uint32_t length = wire_build(&wire, bench.frame), sum = 0;

		bench.frame[rows[i].at] = rows[i].value;
		bench.frame[24] = bench.frame[25] = 0;
		for (int at = 14; at < 34; at += 2)
			sum += (uint32_t)bench.frame[at] << 8 | bench.frame[at + 1];
		sum = ~((sum & 0xFFFF) + (sum >> 16));
		bench.frame[24] = (uint8_t)(sum >> 8);
		bench.frame[25] = (uint8_t)sum;
		cr_expect_eq(responder_receive(bench.responder, bench.frame, length, 0, bench.reply,
					       &completed),
			     62, "%s", rows[i].what);
		cr_expect_eq(completed, bench.qp);
	}
	bench_end(&bench);
}

Test(responder, limited_pkey_member_and_trailing_bytes)
{
	struct step step = { .opcode = ONLY, .length = 4, .dma_length = 4 };
	struct bench bench;
	struct wire wire;

	bench_start(&bench);
	wire = wire_of(&bench, &step);
	wire.pkey = 0x7FFF;
	wire.trailer = 6;
	cr_expect_eq(give(&bench, &wire), 62);
	bench_end(&bench);
}

/* Replies go back over the same IP version, with the same tag. */
Test(responder, ipv6_and_vlan)
{
	struct step step = { .opcode = ONLY, .length = 4, .dma_length = 4 };
	struct responder_config config;
	struct bench bench = { 0 };
	struct wire wire;
	uint32_t icrc;

	bench.memory = calloc(SLOTS, SLOT);
	config = bench_config(&bench);
	memset(config.ip, 0, 16);
	config.ip[0] = 0xFD;
	memcpy(config.peer_ip, config.ip, 16);
	config.ip[15] = 2;
	config.peer_ip[15] = 1;
	bench_open(&bench, &config);
	wire = wire_of(&bench, &step);
	cr_expect_eq(give(&bench, &wire), 0, "an IPv4 frame for an IPv6 queue pair");
	wire.ipv6 = wire.vlan = true;
	cr_assert_eq(give(&bench, &wire), 62 + 20 + 4);
	cr_expect_arr_eq(bench.reply + 12, "\x81\x00\x60\x07\x86\xDD\x60\0\0\0\0\x1C\x11\x40", 14);
	cr_expect_eq(bench.reply[18 + 8], 0xFD);
	cr_expect_eq(bench.reply[18 + 23], 2);
	cr_expect_eq(bench.reply[18 + 39], 1);
	cr_expect_eq(bench.reply[18 + 40 + 20], ACK);
	icrc = wire_icrc(bench.reply + 18, 64);
	cr_expect(!memcmp(bench.reply + 82, &icrc, 4), "ICRC");
	bench_end(&bench);
}

/* Posted credits are rounded down to a code. */
Test(responder, credit_codes)
{
	static const struct {
		uint32_t slots;
		uint8_t code; /* after the first of slots − 1 receives is used */
	} rows[] = {
		{ 2, 0 }, { 3, 1 },  { 6, 4 },  { 7, 4 },  { 8, 5 },
		{ 9, 5 }, { 10, 6 }, { 26, 9 }, { 25, 8 }, { 65536, 30 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct step step = { .opcode = ONLY_IMM };
		struct responder_config config;
		struct bench bench = { 0 };
		struct wire wire;

		bench.memory = calloc(rows[i].slots, 64);
		config = bench_config(&bench);
		config.slot_size = 64;
		config.slot_count = rows[i].slots;
		config.credits = RESPONDER_CREDITS_POSTED;
		bench_open(&bench, &config);
		wire = wire_of(&bench, &step);
		cr_assert_eq(give(&bench, &wire), 62);
		cr_expect_eq(bench.reply[54], rows[i].code, "%u slots: code %u", rows[i].slots,
			     bench.reply[54]);
		bench_end(&bench);
	}
}

Test(responder, queue_pairs_are_separate)
{
	struct step step = { .opcode = ONLY, .length = 4, .dma_length = 4 };
	struct responder_config config;
	struct responder_qp *other, *completed;
	struct error error;
	struct bench bench;
	struct wire wire;
	uint32_t length;

	bench_start(&bench);
	config = bench_config(&bench);
	cr_expect_eq(responder_open(bench.responder, &config, &other, &error), -EEXIST);
	config.qpn = 1;
	cr_expect_eq(responder_open(bench.responder, &config, &other, &error), -EEXIST);
	config.qpn = QPN + 1;
	config.psn = 7;
	cr_assert_eq(responder_open(bench.responder, &config, &other, &error), 0);
	wire = wire_of(&bench, &step);
	wire.qpn = QPN + 1;
	wire.psn = 7;
	length = wire_build(&wire, bench.frame);
	cr_expect_eq(responder_receive(bench.responder, bench.frame, length, 0, bench.reply,
				       &completed),
		     62);
	cr_expect_eq(completed, other);
	cr_expect_eq(responder_counters(bench.qp)->frames, 0);
	responder_close(bench.responder, other);
	cr_expect_eq(responder_receive(bench.responder, bench.frame, length, 0, bench.reply,
				       &completed),
		     0);
	cr_expect_eq(responder_foreign_frames(bench.responder), 1);
	bench_end(&bench);
}

/* Frames of the reference collection, accepted or sent by Linux's own RoCEv2 stack. */
Test(responder, reference_frames)
{
	static const char *const frames[] = {
		("020000000002020000000001080045020044000040004011b6a3c0000201c0000202c12312b700300"
		 "0"
		 "000a40ffff0000001280000abc00007f12345670000000123400000008010203040506070850afa9a"
		 "9"),
		("0200000000020200000000010800456800441234400001114f050a0102030a010204ffff12b700300"
		 "0"
		 "000a70ffff00abcdef80fffffffedcba9876543210deadbeef0000000568656c6c6f000000380c994"
		 "c"),
		("02000000000202000000000186dd6021234500301140fd000000000000000000000000000001fd000"
		 "0"
		 "00000000000000000000000002c12312b700302e820a40ffff0000001280000abc00007f123456700"
		 "0"
		 "00001234000000080102030405060708d3bb54a9"),
		("020000000001020000000002080045000030000040004011b6b9c0000202c0000201c12412b7001c0"
		 "0"
		 "001100ffff0000009900000abc1f00000160deb71a"),
	};

	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		size_t length = strlen(frames[i]) / 2;
		struct responder_frame frame;
		uint8_t bytes[200];
		unsigned int byte;

		for (size_t at = 0; at < length; at++) {
			cr_assert_eq(sscanf(frames[i] + 2 * at, "%2x", &byte), 1);
			bytes[at] = (uint8_t)byte;
		}
		cr_assert(responder_frame_parse(&frame, bytes, length), "frame %zu", i);
		cr_expect(responder_frame_icrc_good(&frame), "ICRC of frame %zu", i);
		bytes[length - 5] ^= 1;
		cr_expect(!responder_frame_icrc_good(&frame));
	}
}
