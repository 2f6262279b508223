/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole families of frames: cut short, every bit flipped, every port and QPN, and real ones from
 * Linux. */
#include <stdlib.h>
#include <string.h>

#include <linux/bpf.h>

#include <criterion/criterion.h>

#include <xdp2roce/roce.h>

#include "frame.h"
#include "harness.h"

#define START 1000u
#define HIGHEST 1010u

#define GOOD .qpn = HARNESS_QPN, .psn = 1003

static const struct frame_spec kinds[] = {
	{ GOOD, .syndrome = 0x1F, .msn = 7 },
	{ GOOD, .syndrome = 0x1F, .msn = 7, .ipv6 = true },
	{ GOOD, .syndrome = 0x60, .msn = 7, .vlan_type = 0x8100 },
	{ GOOD, .syndrome = 0x2C, .msn = 7, .vlan_type = 0x88A8, .ipv6 = true },
	{ GOOD, .opcode = ROCE_CNP },
	{ GOOD, .opcode = ROCE_CNP, .vlan_type = 0x8100, .ipv6 = true },
};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* True when the program took the frame; nothing is left behind for the next one. */
static bool is_taken(struct harness *harness, const struct frame *frame)
{
	struct ack_line *line = &harness->ack[HARNESS_INDEX];
	uint32_t verdict = harness_run(harness, frame->bytes, frame->length);
	bool taken = line->ack || line->nak || line->rnr || line->cnps || line->acks;

	cr_expect(verdict == XDP_DROP || (verdict == XDP_PASS && !taken), "verdict %u", verdict);
	cr_expect(taken == !!harness->pending[HARNESS_INDEX / 64], "pending %lx",
		  harness->pending[HARNESS_INDEX / 64]);
	memset(line, 0, sizeof(*line));
	memset(harness->pending, 0, HARNESS_QPS / 8);
	cr_expect(harness_untouched(harness, false), "another QP was touched");
	return taken;
}

static void check_cut(struct harness *harness, const struct frame *frame, size_t length)
{
	size_t bth_end = frame->bth + sizeof(struct roce_bth);
	uint32_t verdict;

	harness_open_qp(harness, frame->ipv6, START, HIGHEST);
	verdict = harness_run(harness, frame->bytes, length);
	if (length < bth_end) {
		cr_expect(verdict == XDP_PASS, "cut to %zu: verdict %u", length, verdict);
		cr_expect(harness_untouched(harness, true), "cut to %zu left a trace", length);
		return;
	}
	cr_expect(verdict == XDP_DROP, "cut to %zu: verdict %u", length, verdict);
	cr_expect(harness_counters(harness).bad_length == 1, "cut to %zu: not counted", length);
	cr_expect(harness_untouched(harness, false), "cut to %zu was taken", length);
}

Test(ack_hostile, truncated_at_every_length)
{
	struct harness harness;
	struct frame frame;

	harness_open(&harness);
	for (size_t kind = 0; kind < KINDS; kind++) {
		frame_build(&frame, &kinds[kind]);
		/* The kernel does not run a program on less than an Ethernet header. */
		for (size_t length = 14; length < frame.length; length++)
			check_cut(&harness, &frame, length);
		harness_open_qp(&harness, frame.ipv6, START, HIGHEST);
		cr_expect(is_taken(&harness, &frame), "kind %zu whole", kind);
	}
}

/* EtherType and tag are not covered by the ICRC, but without them the frame is not recognised. */
static bool is_ether_type(const struct frame *frame, size_t byte)
{
	return byte == 12 || byte == 13 || byte == frame->ip - 2 || byte == frame->ip - 1;
}

static void flip_every_bit(struct harness *harness, struct frame *frame)
{
	for (size_t byte = 0; byte < frame->length; byte++)
		for (int bit = 0; bit < 8; bit++) {
			bool want = frame_bit_is_masked(frame, byte, bit) &&
				    !is_ether_type(frame, byte);

			frame->bytes[byte] ^= (uint8_t)(1 << bit);
			cr_expect(is_taken(harness, frame) == want,
				  "bit %d of byte %zu (IP %zu, BTH %zu) should be %s", bit, byte,
				  frame->ip, frame->bth, want ? "taken" : "refused");
			frame->bytes[byte] ^= (uint8_t)(1 << bit);
		}
}

Test(ack_hostile, every_bit_flipped)
{
	struct harness harness;
	struct frame frame;

	harness_open(&harness);
	for (size_t kind = 0; kind < KINDS; kind++) {
		frame_build(&frame, &kinds[kind]);
		harness_open_qp(&harness, frame.ipv6, START, HIGHEST);
		flip_every_bit(&harness, &frame);
	}
}

/* Two to four bytes changed at once; a CRC-32 lets one in four thousand million through. */
Test(ack_hostile, random_damage)
{
	struct harness harness;
	struct frame good, bad;

	harness_open(&harness);
	srandom(4791);
	for (int run = 0; run < 20000; run++) {
		size_t covered, byte;

		frame_build(&good, &kinds[run % (int)KINDS]);
		harness_open_qp(&harness, good.ipv6, START, HIGHEST);
		bad = good;
		covered = good.length - good.ip;
		for (int i = 0; i < 2 + run % 3; i++) {
			byte = good.ip + (size_t)random() % covered;
			if (!frame_bit_is_masked(&good, byte, 0))
				bad.bytes[byte] = (uint8_t)random();
		}
		if (memcmp(&good, &bad, sizeof(good)) != 0)
			cr_expect(!is_taken(&harness, &bad), "run %d was taken", run);
	}
}

Test(ack_hostile, every_destination_port)
{
	struct harness harness;
	struct frame frame;

	harness_open(&harness);
	harness_open_qp(&harness, false, START, HIGHEST);
	frame_build(&frame, &kinds[0]);
	for (uint32_t port = 0; port < 65536; port++) {
		frame.bytes[frame.udp + 2] = (uint8_t)(port >> 8);
		frame.bytes[frame.udp + 3] = (uint8_t)port;
		frame_seal(&frame);
		if (port != ROCE_UDP_PORT)
			cr_expect(harness_run(&harness, frame.bytes, frame.length) == XDP_PASS,
				  "port %u", port);
	}
	cr_expect(harness_untouched(&harness, true), "another port than 4791 left a trace");
	frame_build(&frame, &kinds[0]);
	cr_expect(harness_run(&harness, frame.bytes, frame.length) == XDP_DROP, "port 4791");
	cr_expect(is_taken(&harness, &frame), "port 4791");
}

static void check_qpn(struct harness *harness, uint32_t qpn)
{
	struct frame_spec spec = kinds[0];
	struct frame frame;
	uint32_t verdict;

	spec.qpn = qpn;
	frame_build(&frame, &spec);
	verdict = harness_run(harness, frame.bytes, frame.length);
	cr_expect(verdict == (qpn_index(qpn) == HARNESS_INDEX ? XDP_DROP : XDP_PASS), "QPN %x: %u",
		  qpn, verdict);
}

Test(ack_hostile, every_other_qpn)
{
	struct harness harness;

	harness_open(&harness);
	harness_open_qp(&harness, false, START, HIGHEST);
	for (uint32_t index = 0; index < 65536; index++)
		if (index != HARNESS_INDEX)
			check_qpn(&harness, HARNESS_GENERATION << 16 | index);
	cr_expect(harness_untouched(&harness, true), "the QPN of another left a trace");
	for (uint32_t generation = 0; generation < 256; generation++)
		if (generation != HARNESS_GENERATION)
			check_qpn(&harness, generation << 16 | HARNESS_INDEX);
	cr_expect(harness_untouched(&harness, false), "another generation was taken");
	cr_expect(harness_counters(&harness).stale_generation == 255);
}

/* ::ffff:192.0.2.2 in an IPv6 header is not the IPv4 peer. */
Test(ack_hostile, mapped_address_in_ipv6)
{
	struct harness harness;
	struct frame frame;

	harness_open(&harness);
	harness_open_qp(&harness, false, START, HIGHEST);
	frame_build(&frame, &kinds[1]);
	memcpy(frame.bytes + frame.ip + 8, frame_remote_ipv4, 16);
	memcpy(frame.bytes + frame.ip + 24, frame_local_ipv4, 16);
	frame_seal(&frame);
	cr_expect(harness_run(&harness, frame.bytes, frame.length) == XDP_PASS);
	cr_expect(harness_untouched(&harness, true));
}

struct real {
	const char *what, *hex;
	bool ipv6;
	uint32_t start;
	struct ack_line after;
};

/*
 * Emitted by Linux rdma_rxe 6.12 (the CNP is built by hand) to QPN 0x99, 192.0.2.2 to 192.0.2.1. As
 * a QPN of ours that is generation 0, which we never give out but which works: an empty line then
 * reads as "PSN 0 is acknowledged".
 */
static const struct real reals[] = {
	{ "ACK",
	  "020000000001020000000002080045000030f06b40004011c64dc0000202c0000201ca2912b7001c0000"
	  "1100ffff00000099000001001f00000188f8efbe",
	  .start = 0x100, .after = { .ack = 0x100ull << 40 | 0x1F000001, .acks = 1 } },
	{ "NAK, PSN sequence error",
	  "020000000001020000000002080045000030f18c40004011c52cc0000202c0000201ca2912b7001c0000"
	  "1100ffff0000009900000103600000036269e456",
	  .start = 0x100, .after = { .nak = 0x103ull << 40 | 0x60000001, .acks = 1 } },
	{ "RNR NAK",
	  "020000000001020000000002080045000030f4da40004011c1dec0000202c0000201ca2912b7001c0000"
	  "1100ffff00000099000001112c00000f4ffb5e6a",
	  .start = 0x100, .after = { .rnr = 0x111ull << 40 | 0x2C000001, .acks = 1 } },
	{ "NAK, remote access error",
	  "020000000001020000000002080045000030f5aa40004011c10ec0000202c0000201ca2912b7001c0000"
	  "1100ffff00000099000001146200001177b93f16",
	  .start = 0x100, .after = { .nak = 0x114ull << 40 | 0x62000001, .acks = 1 } },
	{ "NAK, invalid request",
	  "020000000001020000000002080045000030f5b340004011c105c0000202c0000201cac212b7001c0000"
	  "1100ffff000000990000010061000000cea959e5",
	  .start = 0x100, .after = { .nak = 0x100ull << 40 | 0x61000001, .acks = 1 } },
	{ "ACK over IPv6",
	  "02000000000102000000000286dd60000000001c1140fd000000000000000000000000000002fd000000"
	  "000000000000000000000001d28712b7001c00001100ffff00000099000001001f0000015fa03d8c",
	  .ipv6 = true, .start = 0x100,
	  .after = { .ack = 0x100ull << 40 | 0x1F000001, .acks = 1 } },
	{ "CNP",
	  "020000000001020000000002080045c0003c000040004011b5edc0000202c0000201c12412b700280000"
	  "8100ffff4000009900000000000000000000000000000000000000004f582a99",
	  .start = 0x100, .after = { .cnps = 1 } },
};

Test(ack_hostile, frames_of_linux)
{
	struct harness harness;
	struct frame frame;

	harness_open(&harness);
	for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++) {
		const struct real *real = &reals[i];

		harness_open_qp(&harness, real->ipv6, real->start, real->start + 0x20);
		harness.qp[0x99] = harness.qp[HARNESS_INDEX];
		harness.qp[0x99].open = QP_OPEN;
		frame_from_hex(&frame, real->hex);
		cr_expect(harness_run(&harness, frame.bytes, frame.length) == XDP_DROP, "%s",
			  real->what);
		cr_expect(memcmp(&harness.ack[0x99], &real->after, sizeof(real->after)) == 0,
			  "%s: %llx %llx %llx", real->what, harness.ack[0x99].ack,
			  harness.ack[0x99].nak, harness.ack[0x99].rnr);
		cr_expect(harness.pending[2] == 1ull << 0x19, "%s: pending", real->what);
	}
}
