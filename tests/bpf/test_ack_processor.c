/* SPDX-License-Identifier: BSD-2-Clause */
/* What the XDP program makes of one frame: one row per rule, run by BPF_PROG_TEST_RUN. */
#include <string.h>

#include <linux/bpf.h>

#include <criterion/criterion.h>

#include <xdp2roce/roce.h>

#include "frame.h"
#include "harness.h"

#define START 1000u
#define HIGHEST 1010u
#define UNLIMITED 0x1F

#define OF(generation, psn, syndrome, low)                                                         \
	((uint64_t)(psn) << 40 | (uint64_t)(generation) << 32 | (uint64_t)(syndrome) << 24 | (low))
#define WORD(psn, syndrome, low) OF(HARNESS_GENERATION, psn, syndrome, low)
#define EARLIER_WORD(psn, syndrome, low) OF(HARNESS_GENERATION - 1, psn, syndrome, low)

/* Without a count a frame is passed; with one it is dropped, and only what is taken changes the
 * line. */
struct row {
	const char *what;
	uint32_t start, highest; /* 0: START and HIGHEST */
	struct ack_line before;
	struct frame_spec frame; /* QPN 0: that of the open QP */
	struct ack_line after;   /* when the frame is taken */
	struct xdp_counters count;
};

static bool is_taken(const struct row *row)
{
	return row->count.acks || row->count.naks || row->count.cnps;
}

static bool is_dropped(const struct row *row)
{
	static const struct xdp_counters none;

	return memcmp(&row->count, &none, sizeof(none)) != 0;
}

static void check_line(const struct row *row, const struct ack_line *got)
{
	const struct ack_line *want = is_taken(row) ? &row->after : &row->before;

	cr_expect(got->ack == want->ack, "%s: ack %016llx, not %016llx", row->what, got->ack,
		  want->ack);
	cr_expect(got->nak == want->nak, "%s: nak %016llx, not %016llx", row->what, got->nak,
		  want->nak);
	cr_expect(got->rnr == want->rnr, "%s: rnr %016llx, not %016llx", row->what, got->rnr,
		  want->rnr);
	cr_expect(got->acks == row->count.acks + row->count.naks, "%s: %llu acks", row->what,
		  got->acks);
	cr_expect(got->cnps == row->count.cnps, "%s: %llu cnps", row->what, got->cnps);
}

static void check_counters(const struct row *row, const struct xdp_counters *got)
{
	static const char *const names[] = {
		"acks",     "naks",       "cnps",       "stale_acks", "invalid_psn",
		"bad_icrc", "bad_opcode", "bad_length", "bad_header", "stale_generation",
		"contended"
	};
	const uint64_t *want = (const uint64_t *)&row->count, *have = (const uint64_t *)got;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		cr_expect(have[i] == want[i], "%s: %s is %lu, not %lu", row->what, names[i],
			  have[i], want[i]);
}

static void check_row(struct harness *harness, const struct row *row)
{
	uint64_t pending = is_taken(row) ? 1ull << HARNESS_INDEX % 64 : 0;
	struct frame_spec spec = row->frame;
	struct xdp_counters count;
	struct frame frame;
	uint32_t verdict;

	if (spec.qpn == 0)
		spec.qpn = HARNESS_QPN;
	frame_build(&frame, &spec);
	harness_open_qp(harness, spec.ipv6, row->start ? row->start : START,
			row->highest ? row->highest : HIGHEST);
	harness->ack[HARNESS_INDEX] = row->before;
	verdict = harness_run(harness, frame.bytes, frame.length);
	cr_expect(verdict == (is_dropped(row) ? XDP_DROP : XDP_PASS), "%s: verdict %u", row->what,
		  verdict);
	check_line(row, &harness->ack[HARNESS_INDEX]);
	count = harness_counters(harness);
	check_counters(row, &count);
	cr_expect(harness->pending[0] == 0 && harness->pending[1] == pending, "%s: pending %lx %lx",
		  row->what, harness->pending[0], harness->pending[1]);
}

static void check(const struct row *rows, size_t count)
{
	struct harness harness;

	harness_open(&harness);
	for (size_t i = 0; i < count; i++)
		check_row(&harness, &rows[i]);
}

#define CHECK(rows) check(rows, sizeof(rows) / sizeof(*rows))

#define ACK(p) { .psn = (p), .syndrome = UNLIMITED, .msn = 7 }
#define ACK_TAKEN(p) .after.ack = WORD(p, UNLIMITED, 7), .count.acks = 1

Test(ack_processor, good_frames)
{
	static const struct row rows[] = {
		{ "ACK over IPv4", .frame = ACK(1003), ACK_TAKEN(1003) },
		{ "ACK over IPv6",
		  .frame = { .psn = 1003, .syndrome = UNLIMITED, .msn = 7, .ipv6 = true },
		  ACK_TAKEN(1003) },
		{ "ACK with an 802.1Q tag",
		  .frame = { .psn = 1003, .syndrome = UNLIMITED, .msn = 7, .vlan_type = 0x8100 },
		  ACK_TAKEN(1003) },
		{ "ACK with an 802.1ad tag over IPv6",
		  .frame = { .psn = 1003,
			     .syndrome = UNLIMITED,
			     .msn = 7,
			     .ipv6 = true,
			     .vlan_type = 0x88A8 },
		  ACK_TAKEN(1003) },
		{ "ACK with Ethernet padding",
		  .frame = { .psn = 1003, .syndrome = UNLIMITED, .msn = 7, .padding = 6 },
		  ACK_TAKEN(1003) },
		{ "ACK with credits", .frame = { .psn = 1003, .syndrome = 0x0A, .msn = 0xABCDEF },
		  .after.ack = WORD(1003, 0x0A, 0xABCDEF), .count.acks = 1 },
		{ "NAK, PSN sequence error", .frame = { .psn = 1003, .syndrome = 0x60, .msn = 9 },
		  .after.nak = WORD(1003, 0x60, 1), .count.naks = 1 },
		{ "NAK over IPv6",
		  .frame = { .psn = 1003, .syndrome = 0x60, .msn = 9, .ipv6 = true },
		  .after.nak = WORD(1003, 0x60, 1), .count.naks = 1 },
		{ "NAK, invalid request", .frame = { .psn = 1003, .syndrome = 0x61 },
		  .after.nak = WORD(1003, 0x61, 1), .count.naks = 1 },
		{ "NAK, remote access error", .frame = { .psn = 1003, .syndrome = 0x62 },
		  .after.nak = WORD(1003, 0x62, 1), .count.naks = 1 },
		{ "NAK, remote operational error", .frame = { .psn = 1003, .syndrome = 0x63 },
		  .after.nak = WORD(1003, 0x63, 1), .count.naks = 1 },
		{ "RNR NAK, timer 0", .frame = { .psn = 1003, .syndrome = 0x20 },
		  .after.rnr = WORD(1003, 0x20, 1), .count.naks = 1 },
		{ "RNR NAK, timer 31 with a VLAN tag",
		  .frame = { .psn = 1003, .syndrome = 0x3F, .vlan_type = 0x8100 },
		  .after.rnr = WORD(1003, 0x3F, 1), .count.naks = 1 },
		{ "CNP", .frame = { .opcode = ROCE_CNP }, .after.cnps = 1, .count.cnps = 1 },
		{ "CNP over IPv6 with a VLAN tag",
		  .frame = { .opcode = ROCE_CNP, .ipv6 = true, .vlan_type = 0x8100 },
		  .after.cnps = 1, .count.cnps = 1 },
		{ "limited member of the partition",
		  .frame = { .psn = 1003,
			     .syndrome = UNLIMITED,
			     .msn = 7,
			     .edits = { { LAYER_BTH, 2, 0x7F } } },
		  ACK_TAKEN(1003) },
		{ "SE and MigReq set",
		  .frame = { .psn = 1003,
			     .syndrome = UNLIMITED,
			     .msn = 7,
			     .edits = { { LAYER_BTH, 1, 0xC0 } } },
		  ACK_TAKEN(1003) },
		{ "DF not set, another IP ID",
		  .frame = { .psn = 1003,
			     .syndrome = UNLIMITED,
			     .msn = 7,
			     .edits = { { LAYER_IP, 6, 0 }, { LAYER_IP, 4, 0x77 } } },
		  ACK_TAKEN(1003) },
	};

	CHECK(rows);
}

Test(ack_processor, frames_of_others)
{
	static const struct row rows[] = {
		{ "wrong peer", .frame = { .psn = 1003, .wrong_source = true } },
		{ "wrong local address", .frame = { .psn = 1003, .wrong_destination = true } },
		{ "wrong peer over IPv6",
		  .frame = { .psn = 1003, .wrong_source = true, .ipv6 = true } },
		{ "wrong local address over IPv6",
		  .frame = { .psn = 1003, .wrong_destination = true, .ipv6 = true } },
		{ "wrong peer, wrong generation",
		  .frame = { .psn = 1003, .wrong_source = true, .qpn = HARNESS_QPN ^ 0x10000 } },
		{ "QPN 1", .frame = { .psn = 1003, .qpn = 1 } },
		{ "index 0", .frame = { .psn = 1003, .qpn = HARNESS_GENERATION << 16 } },
		{ "index 1", .frame = { .psn = 1003, .qpn = HARNESS_GENERATION << 16 | 1 } },
		{ "another QP, never opened",
		  .frame = { .psn = 1003, .qpn = HARNESS_GENERATION << 16 | 5 } },
		{ "closed QP",
		  .frame = { .psn = 1003,
			     .qpn = HARNESS_GENERATION << 16 | HARNESS_CLOSED_INDEX } },
		{ "generation without the open bit",
		  .frame = { .psn = 1003,
			     .qpn = HARNESS_GENERATION << 16 | (HARNESS_CLOSED_INDEX + 1) } },
		{ "first index beyond the map",
		  .frame = { .psn = 1003, .qpn = HARNESS_GENERATION << 16 | HARNESS_QPS } },
		{ "last index", .frame = { .psn = 1003, .qpn = 0xFFFFFF } },
		{ "two VLAN tags",
		  .frame = { .psn = 1003, .vlan_type = 0x8100, .second_vlan = true } },
		{ "IP options", .frame = { .psn = 1003, .options = 4 } },
		{ "forty bytes of IP options", .frame = { .psn = 1003, .options = 40 } },
		{ "IPv6 extension header", .frame = { .psn = 1003, .options = 8, .ipv6 = true } },
		{ "first fragment", .frame = { .psn = 1003, .edits = { { LAYER_IP, 6, 0x20 } } } },
		{ "later fragment", .frame = { .psn = 1003, .edits = { { LAYER_IP, 7, 1 } } } },
		{ "last fragment, high offset",
		  .frame = { .psn = 1003, .edits = { { LAYER_IP, 6, 0x10 } } } },
		{ "TCP", .frame = { .psn = 1003, .edits = { { LAYER_IP, 9, 6 } } } },
		{ "TCP over IPv6",
		  .frame = { .psn = 1003, .ipv6 = true, .edits = { { LAYER_IP, 6, 6 } } } },
		{ "IPv6 under the EtherType of IPv4",
		  .frame = { .psn = 1003, .edits = { { LAYER_IP, 0, 0x65 } } } },
		{ "IPv4 under the EtherType of IPv6",
		  .frame = { .psn = 1003, .ipv6 = true, .edits = { { LAYER_IP, 0, 0x45 } } } },
		{ "ARP", .frame = { .psn = 1003, .edits = { { LAYER_ETHERNET, 13, 6 } } } },
		{ "RoCEv1", .frame = { .psn = 1003,
				       .edits = { { LAYER_ETHERNET, 12, 0x89 },
						  { LAYER_ETHERNET, 13, 0x15 } } } },
		{ "ARP in a VLAN", .frame = { .psn = 1003,
					      .vlan_type = 0x8100,
					      .edits = { { LAYER_ETHERNET, 17, 6 } } } },
		{ "port 4790", .frame = { .psn = 1003, .edits = { { LAYER_UDP, 3, 0xB6 } } } },
		{ "port 4791 as the source only",
		  .frame = { .psn = 1003,
			     .edits = { { LAYER_UDP, 0, 0x12 },
					{ LAYER_UDP, 1, 0xB7 },
					{ LAYER_UDP, 2, 0xC1 },
					{ LAYER_UDP, 3, 0x23 } } } },
	};

	CHECK(rows);
}

Test(ack_processor, ours_but_wrong)
{
	static const struct row rows[] = {
		{ "generation before", .frame = { .psn = 1003, .qpn = HARNESS_QPN - 0x10000 },
		  .count.stale_generation = 1 },
		{ "generation after", .frame = { .psn = 1003, .qpn = HARNESS_QPN + 0x10000 },
		  .count.stale_generation = 1 },
		{ "generation 0", .frame = { .psn = 1003, .qpn = HARNESS_INDEX, .ipv6 = true },
		  .count.stale_generation = 1 },
		{ "CNP to an earlier generation",
		  .frame = { .opcode = ROCE_CNP, .qpn = HARNESS_QPN - 0x10000 },
		  .count.stale_generation = 1 },
		{ "transport version 1", .frame = { .psn = 1003, .edits = { { LAYER_BTH, 1, 1 } } },
		  .count.bad_header = 1 },
		{ "transport version 8", .frame = { .psn = 1003, .edits = { { LAYER_BTH, 1, 8 } } },
		  .count.bad_header = 1 },
		{ "pad count 1", .frame = { .psn = 1003, .edits = { { LAYER_BTH, 1, 0x10 } } },
		  .count.bad_header = 1 },
		{ "pad count 2", .frame = { .psn = 1003, .edits = { { LAYER_BTH, 1, 0x20 } } },
		  .count.bad_header = 1 },
		{ "P_Key 0xFFFE", .frame = { .psn = 1003, .edits = { { LAYER_BTH, 3, 0xFE } } },
		  .count.bad_header = 1 },
		{ "P_Key 0xBFFF", .frame = { .psn = 1003, .edits = { { LAYER_BTH, 2, 0xBF } } },
		  .count.bad_header = 1 },
		{ "CNP with P_Key 0",
		  .frame = { .opcode = ROCE_CNP,
			     .edits = { { LAYER_BTH, 2, 0 }, { LAYER_BTH, 3, 0 } } },
		  .count.bad_header = 1 },
		{ "header before opcode",
		  .frame = { .opcode = 0x0A, .edits = { { LAYER_BTH, 1, 1 } } },
		  .count.bad_header = 1 },
		{ "RDMA Write Only", .frame = { .opcode = 0x0A, .psn = 1003 },
		  .count.bad_opcode = 1 },
		{ "RDMA Read Response Only", .frame = { .opcode = 0x10, .psn = 1003 },
		  .count.bad_opcode = 1 },
		{ "Atomic Acknowledge", .frame = { .opcode = 0x12, .psn = 1003 },
		  .count.bad_opcode = 1 },
		{ "UC with the operation of an ACK", .frame = { .opcode = 0x31, .psn = 1003 },
		  .count.bad_opcode = 1 },
		{ "CNP of InfiniBand", .frame = { .opcode = 0x80 }, .count.bad_opcode = 1 },
		{ "UD Send to an open QP", .frame = { .opcode = 0x64, .ipv6 = true },
		  .count.bad_opcode = 1 },
		{ "opcode before length", .frame = { .opcode = 0x0A, .extra = 4 },
		  .count.bad_opcode = 1 },
		{ "ACK without an AETH", .frame = { .psn = 1003, .extra = -4 },
		  .count.bad_length = 1 },
		{ "ACK with one byte too many", .frame = { .psn = 1003, .extra = 1 },
		  .count.bad_length = 1 },
		{ "ACK as long as a CNP", .frame = { .psn = 1003, .extra = 12 },
		  .count.bad_length = 1 },
		{ "ACK with an AtomicAckETH", .frame = { .psn = 1003, .extra = 8, .ipv6 = true },
		  .count.bad_length = 1 },
		{ "CNP as long as an ACK", .frame = { .opcode = ROCE_CNP, .extra = -12 },
		  .count.bad_length = 1 },
		{ "CNP with four bytes too many", .frame = { .opcode = ROCE_CNP, .extra = 4 },
		  .count.bad_length = 1 },
		{ "UDP length one too long",
		  .frame = { .psn = 1003, .edits = { { LAYER_UDP, 5, 29 } } },
		  .count.bad_length = 1 },
		{ "UDP length 0", .frame = { .psn = 1003, .edits = { { LAYER_UDP, 5, 0 } } },
		  .count.bad_length = 1 },
		{ "UDP length in the high byte",
		  .frame = { .psn = 1003, .edits = { { LAYER_UDP, 4, 1 } } },
		  .count.bad_length = 1 },
		{ "IPv4 length one too long",
		  .frame = { .psn = 1003, .edits = { { LAYER_IP, 3, 49 } } },
		  .count.bad_length = 1 },
		{ "IPv4 length below its header",
		  .frame = { .psn = 1003, .edits = { { LAYER_IP, 3, 19 } } },
		  .count.bad_length = 1 },
		{ "IPv6 length one too short",
		  .frame = { .psn = 1003, .ipv6 = true, .edits = { { LAYER_IP, 5, 27 } } },
		  .count.bad_length = 1 },
		{ "length before ICRC", .frame = { .psn = 1003, .extra = 4, .bad_icrc = true },
		  .count.bad_length = 1 },
		{ "ACK with bad ICRC", .frame = { .psn = 1003, .bad_icrc = true },
		  .count.bad_icrc = 1 },
		{ "ACK over IPv6 with bad ICRC",
		  .frame = { .psn = 1003, .bad_icrc = true, .ipv6 = true }, .count.bad_icrc = 1 },
		{ "CNP with bad ICRC", .frame = { .opcode = ROCE_CNP, .bad_icrc = true },
		  .count.bad_icrc = 1 },
		{ "ICRC before PSN", .frame = { .psn = 5000, .bad_icrc = true },
		  .count.bad_icrc = 1 },
		{ "NAK, invalid RD request", .frame = { .psn = 1003, .syndrome = 0x64 },
		  .count.bad_header = 1 },
		{ "last reserved NAK", .frame = { .psn = 1003, .syndrome = 0x7F },
		  .count.bad_header = 1 },
		{ "first reserved kind", .frame = { .psn = 1003, .syndrome = 0x40 },
		  .count.bad_header = 1 },
		{ "last reserved kind", .frame = { .psn = 1003, .syndrome = 0x5F },
		  .count.bad_header = 1 },
		{ "reserved bit of an ACK", .frame = { .psn = 1003, .syndrome = 0x9F },
		  .count.bad_header = 1 },
		{ "reserved bit of a NAK", .frame = { .psn = 1003, .syndrome = 0xE1 },
		  .count.bad_header = 1 },
	};

	CHECK(rows);
}

/* The window is 1000…1010 unless the row says otherwise; the line says what is acknowledged in it.
 */
Test(ack_processor, psn_window)
{
	static const struct row rows[] = {
		{ "ACK before anything was sent", .start = 1000, .highest = 999, .frame = ACK(1000),
		  .count.invalid_psn = 1 },
		{ "ACK before the start", .frame = ACK(998), .count.stale_acks = 1 },
		{ "ACK just before the start gives credit", .frame = ACK(999), ACK_TAKEN(999) },
		{ "ACK of the first PSN", .frame = ACK(1000), ACK_TAKEN(1000) },
		{ "ACK of the highest PSN", .frame = ACK(1010), ACK_TAKEN(1010) },
		{ "ACK beyond the highest PSN", .frame = ACK(1011), .count.invalid_psn = 1 },
		{ "ACK 2^23 - 1 ahead", .frame = ACK(999 + 0x7FFFFF), .count.invalid_psn = 1 },
		{ "ACK 2^23 ahead is behind", .frame = ACK(999 + 0x800000), .count.stale_acks = 1 },
		{ "bogus ACK of PSN 0xFFFFFF", .frame = ACK(0xFFFFFF), .count.stale_acks = 1 },
		{ "ACK older than the known one", .before.ack = WORD(1005, UNLIMITED, 7),
		  .frame = ACK(1004), .count.stale_acks = 1 },
		{ "ACK one after the known one", .before.ack = WORD(1005, UNLIMITED, 7),
		  .frame = ACK(1006), ACK_TAKEN(1006) },
		{ "the known ACK belongs to an earlier generation",
		  .before.ack = EARLIER_WORD(1009, UNLIMITED, 7), .frame = ACK(1001),
		  ACK_TAKEN(1001) },
		{ "nor does its credit count", .before.ack = EARLIER_WORD(1009, UNLIMITED, 7),
		  .frame = { .psn = 999, .syndrome = 2, .msn = 7 }, .after.ack = WORD(999, 2, 7),
		  .count.acks = 1 },
		{ "an ACK leaves nak and rnr alone",
		  .before = { .nak = WORD(1004, 0x60, 3), .rnr = WORD(1002, 0x25, 4) },
		  .frame = ACK(1003),
		  .after = { .ack = WORD(1003, UNLIMITED, 7),
			     .nak = WORD(1004, 0x60, 3),
			     .rnr = WORD(1002, 0x25, 4) },
		  .count.acks = 1 },
		{ "wrap: highest", .start = 0xFFFFF0, .highest = 0x00000F, .frame = ACK(0x00000F),
		  ACK_TAKEN(0x00000F) },
		{ "wrap: 0", .start = 0xFFFFF0, .highest = 0x00000F, .frame = ACK(0),
		  ACK_TAKEN(0) },
		{ "wrap: 0xFFFFFF", .start = 0xFFFFF0, .highest = 0x00000F, .frame = ACK(0xFFFFFF),
		  ACK_TAKEN(0xFFFFFF) },
		{ "wrap: beyond", .start = 0xFFFFF0, .highest = 0x00000F, .frame = ACK(0x000010),
		  .count.invalid_psn = 1 },
		{ "wrap: before", .start = 0xFFFFF0, .highest = 0x00000F, .frame = ACK(0xFFFFEE),
		  .count.stale_acks = 1 },
		{ "wrap: known on the other side", .start = 0xFFFFF0, .highest = 0x00000F,
		  .before.ack = WORD(2, UNLIMITED, 7), .frame = ACK(0xFFFFFF),
		  .count.stale_acks = 1 },
		{ "wrap: known before it", .start = 0xFFFFF0, .highest = 0x00000F,
		  .before.ack = WORD(0xFFFFFE, UNLIMITED, 7), .frame = ACK(1), ACK_TAKEN(1) },
		{ "NAK at the last acknowledged PSN", .before.ack = WORD(1005, UNLIMITED, 7),
		  .frame = { .psn = 1005, .syndrome = 0x60 }, .count.stale_acks = 1 },
		{ "NAK just before the start", .frame = { .psn = 999, .syndrome = 0x60 },
		  .count.stale_acks = 1 },
		{ "NAK of the first PSN", .frame = { .psn = 1000, .syndrome = 0x60 },
		  .after.nak = WORD(1000, 0x60, 1), .count.naks = 1 },
		{ "NAK of the highest PSN", .frame = { .psn = 1010, .syndrome = 0x60 },
		  .after.nak = WORD(1010, 0x60, 1), .count.naks = 1 },
		{ "NAK beyond the highest PSN", .frame = { .psn = 1011, .syndrome = 0x62 },
		  .count.invalid_psn = 1 },
		{ "RNR NAK at the last acknowledged PSN", .before.ack = WORD(1005, UNLIMITED, 7),
		  .frame = { .psn = 1005, .syndrome = 0x2C }, .count.stale_acks = 1 },
		{ "RNR NAK beyond the highest PSN", .frame = { .psn = 1011, .syndrome = 0x2C },
		  .count.invalid_psn = 1 },
		{ "NAK across the wrap", .start = 0xFFFFF0, .highest = 0x00000F,
		  .frame = { .psn = 3, .syndrome = 0x60 }, .after.nak = WORD(3, 0x60, 1),
		  .count.naks = 1 },
		{ "CNP with any PSN", .frame = { .opcode = ROCE_CNP, .psn = 77 }, .after.cnps = 1,
		  .count.cnps = 1 },
	};

	CHECK(rows);
}

#define KNOWN(credit, msn) .before.ack = WORD(1005, credit, msn)
#define AGAIN(credit, number) .frame = { .psn = 1005, .syndrome = (credit), .msn = (number) }
#define AGAIN_TAKEN(credit, msn) .after.ack = WORD(1005, credit, msn), .count.acks = 1

/* An ACK of the PSN that is acknowledged already: codes 0…6 stand for 0 1 2 3 4 6 8 receives. */
Test(ack_processor, credits)
{
	static const struct row rows[] = {
		{ "more credit", KNOWN(2, 50), AGAIN(4, 50), AGAIN_TAKEN(4, 50) },
		{ "the same credit", KNOWN(2, 50), AGAIN(2, 50), AGAIN_TAKEN(2, 50) },
		{ "less credit", KNOWN(4, 50), AGAIN(2, 50), .count.stale_acks = 1 },
		{ "newer MSN makes up for less credit", KNOWN(5, 50), AGAIN(2, 54),
		  AGAIN_TAKEN(2, 54) },
		{ "newer MSN, but older limit", KNOWN(5, 50), AGAIN(2, 53), .count.stale_acks = 1 },
		{ "MSN across the wrap", KNOWN(0, 0xFFFFFF), AGAIN(0, 0), AGAIN_TAKEN(0, 0) },
		{ "limit across the wrap", KNOWN(4, 0xFFFFFF), AGAIN(2, 0xFFFFFF),
		  .count.stale_acks = 1 },
		{ "largest limited code", KNOWN(29, 50), AGAIN(30, 50), AGAIN_TAKEN(30, 50) },
		{ "unlimited beats limited", KNOWN(30, 50), AGAIN(31, 0), AGAIN_TAKEN(31, 0) },
		{ "limited never replaces unlimited", KNOWN(31, 50), AGAIN(30, 60),
		  .count.stale_acks = 1 },
		{ "unlimited again", KNOWN(31, 50), AGAIN(31, 50), AGAIN_TAKEN(31, 50) },
		{ "a later PSN counts whatever its credit", KNOWN(31, 50),
		  .frame = { .psn = 1006, .syndrome = 0, .msn = 3 }, .after.ack = WORD(1006, 0, 3),
		  .count.acks = 1 },
	};

	CHECK(rows);
}

#define NAKED(p, s) .frame = { .psn = (p), .syndrome = (s) }

Test(ack_processor, nak_order)
{
	static const struct row rows[] = {
		{ "the same NAK again", .before.nak = WORD(1004, 0x60, 7), NAKED(1004, 0x60),
		  .after.nak = WORD(1004, 0x60, 8), .count.naks = 1 },
		{ "a later NAK", .before.nak = WORD(1004, 0x60, 7), NAKED(1006, 0x60),
		  .after.nak = WORD(1006, 0x60, 8), .count.naks = 1 },
		{ "an older NAK does not hide it", .before.nak = WORD(1004, 0x60, 7),
		  NAKED(1003, 0x60), .count.stale_acks = 1 },
		{ "an older fatal NAK", .before.nak = WORD(1004, 0x60, 7), NAKED(1003, 0x62),
		  .count.stale_acks = 1 },
		{ "fatal over sequence error", .before.nak = WORD(1004, 0x60, 7), NAKED(1004, 0x62),
		  .after.nak = WORD(1004, 0x62, 8), .count.naks = 1 },
		{ "fatal is kept against a sequence error", .before.nak = WORD(1004, 0x61, 7),
		  NAKED(1006, 0x60), .count.stale_acks = 1 },
		{ "fatal is kept against a fatal one", .before.nak = WORD(1004, 0x63, 7),
		  NAKED(1006, 0x62), .count.stale_acks = 1 },
		{ "fatal of an earlier generation is nothing",
		  .before.nak = EARLIER_WORD(1004, 0x62, 7), NAKED(1001, 0x60),
		  .after.nak = WORD(1001, 0x60, 1), .count.naks = 1 },
		{ "the sequence wraps", .before.nak = WORD(1004, 0x60, 0xFFFFFF), NAKED(1004, 0x60),
		  .after.nak = WORD(1004, 0x60, 0), .count.naks = 1 },
		{ "a known NAK that is acknowledged says nothing",
		  .before = { .ack = WORD(1005, 31, 0), .nak = WORD(1004, 0x60, 7) },
		  NAKED(1006, 0x60),
		  .after = { .ack = WORD(1005, 31, 0), .nak = WORD(1006, 0x60, 8) },
		  .count.naks = 1 },
		{ "nor does one from 2^23 packets ago",
		  .before = { .ack = WORD(1005, 31, 0), .nak = WORD(1005 + 0x800001, 0x60, 7) },
		  NAKED(1006, 0x60),
		  .after = { .ack = WORD(1005, 31, 0), .nak = WORD(1006, 0x60, 8) },
		  .count.naks = 1 },
		{ "nor does one from almost 2^24 packets ago",
		  .before = { .ack = WORD(1005, 31, 0), .nak = WORD(1011, 0x60, 7) },
		  NAKED(1006, 0x60),
		  .after = { .ack = WORD(1005, 31, 0), .nak = WORD(1006, 0x60, 8) },
		  .count.naks = 1 },
		{ "the same RNR NAK again", .before.rnr = WORD(1004, 0x2C, 7), NAKED(1004, 0x2C),
		  .after.rnr = WORD(1004, 0x2C, 8), .count.naks = 1 },
		{ "an older RNR NAK", .before.rnr = WORD(1004, 0x2C, 7), NAKED(1003, 0x2C),
		  .count.stale_acks = 1 },
		{ "an RNR NAK of an earlier generation", .before.rnr = EARLIER_WORD(1009, 0x2C, 7),
		  NAKED(1003, 0x2C), .after.rnr = WORD(1003, 0x2C, 1), .count.naks = 1 },
		{ "RNR and sequence NAK do not meet",
		  .before = { .nak = WORD(1006, 0x62, 7), .rnr = WORD(1003, 0x2C, 2) },
		  NAKED(1004, 0x2C),
		  .after = { .nak = WORD(1006, 0x62, 7), .rnr = WORD(1004, 0x2C, 3) },
		  .count.naks = 1 },
	};

	CHECK(rows);
}

/* Every AETH syndrome goes where protocol and map say. */
Test(ack_processor, every_syndrome)
{
	struct harness harness;

	harness_open(&harness);
	for (unsigned int s = 0; s < 256; s++) {
		struct row row = { "syndrome", .frame = { .psn = 1003, .syndrome = (uint8_t)s } };

		if (s < 0x20) {
			row.after.ack = WORD(1003, s, 0);
			row.count.acks = 1;
		} else if (s < 0x40) {
			row.after.rnr = WORD(1003, s, 1);
			row.count.naks = 1;
		} else if (s >= 0x60 && s <= 0x63) {
			row.after.nak = WORD(1003, s, 1);
			row.count.naks = 1;
		} else {
			row.count.bad_header = 1;
		}
		check_row(&harness, &row);
	}
}
