/* SPDX-License-Identifier: BSD-2-Clause */
/* UC: the packets of RC under other opcodes, and nothing that RC awaits. */
#include <criterion/criterion.h>
#include <string.h>

#include "../../user/engine/qp.h"

#define RING 16u
#define CHUNK 4096u

static uint8_t memory[RING * CHUNK] __attribute__((aligned(4096)));
static uint8_t payload[4096];
static struct qp qp;

static void open_qp(bool immediate, bool positional)
{
	const struct qp_config config = {
		.framer = { .local_ip = { [10] = 0xFF, [11] = 0xFF, [12] = 192, 0, 2, 1 },
			    .remote_ip = { [10] = 0xFF, [11] = 0xFF, [12] = 192, 0, 2, 2 },
			    .ttl = 64 },
		.local_qpn = 0x10002,
		.remote_qpn = 0x11,
		.start_psn = 0xFFFFFE,
		.slot_size = 4096,
		.slot_count = 4,
		.pmtu = 256,
		.immediate = immediate,
		.uc = true,
		.ring = RING,
		.ack_timeout = 1000,
		.retry = 7,
		.rnr_retry = 7,
		.chunk = CHUNK,
		.positional_completions = positional,
	};
	struct error error;

	cr_assert_eq(qp_open(&qp, &config, memory, 0, &error), 0, "%s", error.text);
}

static const struct roce_bth *transmit(void)
{
	struct frame frame;

	cr_assert_eq(qp_transmit(&qp, 0, &frame), QP_FRAME);
	qp_completed(&qp, frame.offset);
	return (const void *)(memory + frame.offset + qp.framer.header_len);
}

static void start(uint32_t length)
{
	cr_assert_eq(qp_message(&qp, length), 0);
	qp_payload(&qp, payload, length, true);
}

Test(engine_uc, opcodes_and_no_ackreq)
{
	static const struct {
		uint32_t length;
		bool immediate;
		uint8_t opcodes[3];
		uint32_t count;
	} rows[] = {
		{ 0, false, { ROCE_UC_WRITE_ONLY }, 1 },
		{ 256, true, { ROCE_UC_WRITE_ONLY_IMM }, 1 },
		{ 257, false, { ROCE_UC_WRITE_FIRST, ROCE_UC_WRITE_LAST }, 2 },
		{ 513,
		  true,
		  { ROCE_UC_WRITE_FIRST, ROCE_UC_WRITE_MIDDLE, ROCE_UC_WRITE_LAST_IMM },
		  3 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		open_qp(rows[i].immediate, false);
		start(rows[i].length);
		for (uint32_t n = 0; n < rows[i].count; n++) {
			const struct roce_bth *bth = transmit();

			cr_expect_eq(bth->opcode, rows[i].opcodes[n], "row %zu packet %u", i, n);
			cr_expect_eq(bth->ackreq, 0);
			cr_expect_eq(roce_get24(bth->psn), roce_psn_add(0xFFFFFE, n));
		}
		cr_expect(qp_idle(&qp));
		cr_expect_eq(qp.requester.counters.messages, 1);
		cr_expect_eq(qp.requester.counters.bytes, rows[i].length);
		qp_close(&qp);
	}
}

Test(engine_uc, no_timer_no_credit_no_answer_and_no_window_but_completions)
{
	struct frame frame[RING + 1];

	open_qp(true, false);
	for (uint32_t i = 0; i < RING; i++) {
		start(8);
		cr_assert_eq(qp_transmit(&qp, 0, &frame[i]), QP_FRAME, "message %u waits", i);
	}
	cr_expect_eq(qp_deadline(&qp), REQUESTER_NEVER);
	start(8);
	cr_expect_eq(qp_transmit(&qp, 0, &frame[RING]), QP_WAIT_WINDOW);
	qp_completed(&qp, frame[0].offset);
	cr_expect_eq(qp_transmit(&qp, 0, &frame[RING]), QP_FRAME);
	cr_expect_eq(frame[RING].offset, frame[0].offset);

	/* What a confused peer sends changes nothing. */
	qp_receive(&qp, 1, frame[3].psn, ROCE_NAK_SEQUENCE, 0);
	qp_receive(&qp, 1, frame[3].psn, ROCE_NAK_REMOTE_ACCESS, 0);
	qp_tick(&qp, UINT64_MAX - 1);
	cr_expect_eq(qp_state(&qp), QP_READY);
	cr_expect_eq(qp.counters.retransmitted_frames, 0);
	qp_close(&qp);
}

Test(engine_uc, positional_completions_wait_for_a_quiet_socket)
{
	struct frame frame;

	open_qp(false, true);
	for (uint32_t i = 0; i < RING; i++) {
		start(8);
		transmit();
	}
	start(8);
	cr_expect_eq(qp_transmit(&qp, 0, &frame), QP_WAIT_WINDOW);
	qp_quiet(&qp);
	cr_expect_eq(qp_transmit(&qp, 0, &frame), QP_FRAME);
	qp_close(&qp);
}
