/* SPDX-License-Identifier: BSD-2-Clause */
/* Requester rules 5.1 (PSN arithmetic) and 5.2 (ACK processing), a row per rule. */
#include "engine_steps.h"

/* The rig's ACKs without limit (0x1F) are used unless credits matter. Ring 64: AckReq every 16th.
 */
static const struct row rows[] = {
	{ .rule = "5.2 an ACK acknowledges every packet up to and including its PSN",
	  .steps = { ONLY(8), TX(0, 7), ACK(5), UNA(6), MESSAGES(6), ACK(7), UNA(8), MESSAGES(8),
		     NO_TX, STATE(QP_READY), STALE(0) } },
	{ .rule = "5.2 a message is complete when its last PSN is acknowledged, and not before",
	  .steps = { MESSAGE(PKT(3)), TX(0, 2), ACK(1), MESSAGES(0), STATE(QP_SENDING), ACK(2),
		     MESSAGES(1), STATE(QP_READY) } },
	{ .rule = "5.2 completion goes by PSN: the MSN may be ahead, behind or nonsense",
	  .steps = { ONLY(4), TX(0, 3), ACK_CREDIT(0, 4, 31), MESSAGES(1), ACK_CREDIT(1, 0, 31),
		     MESSAGES(2), ACK_CREDIT(2, 0xFFFFFF, 31), MESSAGES(3) } },
	{ .rule = "5.2 a PSN before the last acknowledged one is a ghost",
	  .steps = { ONLY(8), TX(0, 7), ACK(5), ACK(4), ACK(0), ACK(-1), UNA(6), MESSAGES(6),
		     STALE(3), NO_TX } },
	{ .rule = "5.2 the last acknowledged PSN itself is a ghost",
	  .steps = { ONLY(8), TX(0, 7), ACK(5), ACK(5), UNA(6), MESSAGES(6), STALE(1), NO_TX } },
	{ .rule = "5.2 the next unsent PSN is invalid, and all after it",
	  .steps = { ONLY(8), TX(0, 7), ACK(8), ACK(9), ACK(0x7FFFFF), UNA(0), MESSAGES(0),
		     STALE(3), NO_TX } },
	{ .rule = "5.2 an ACK before anything was sent is invalid",
	  .steps = { ACK(0), ACK(1), UNA(0), STALE(2), STATE(QP_READY), ONLY(1), TX(0, 0), ACK(0),
		     UNA(1) } },
	{ .rule = "5.1 a PSN 2^23 ahead counts as behind",
	  .steps = { ONLY(2), TX(0, 1), ACK(0x800000), UNA(0), STALE(1), ACK(0x7FFFFF), UNA(0),
		     STALE(2) } },
	{ .rule = "5.2 the window test comes first for a sequence NAK: ghosts",
	  .steps = { ONLY(8), TX(0, 7), ACK(5), NAK(5), NAK(0), UNA(6), NO_TX, NAKS(0, 0),
		     STALE(2) } },
	{ .rule = "5.2 the window test comes first for a sequence NAK: invalid",
	  .steps = { ONLY(8), TX(0, 7), NAK(8), NAK(100), UNA(0), NO_TX, NAKS(0, 0), STALE(2) } },
	{ .rule = "5.2 the window test comes first for an RNR NAK",
	  .steps = { ONLY(8), TX(0, 7), ACK(5), RNR(5, 1), RNR(8, 1), UNA(6), NO_TX, NAKS(0, 0),
		     STALE(2), DUE(RIG_TIMEOUT) } },
	{ .rule = "5.2 the window test comes first for a fatal NAK",
	  .steps = { ONLY(8), TX(0, 7), ACK(5), SYNDROME(5, 0x61), SYNDROME(8, 0x62), UNA(6),
		     STALE(2), STATE(QP_SENDING) } },
	{ .rule = "5.2 a NAK with everything acknowledged is out of the window",
	  .steps = { ONLY(2), TX(0, 1), ACK(1), NAK(2), NAK(1), RNR(2, 1), SYNDROME(2, 0x62),
		     STALE(4), STATE(QP_READY), NO_TX, DUE(FOREVER) } },
	{ .rule = "5.2 an unsolicited ACK (no AckReq outstanding) follows the same rules",
	  .steps = { PART(PKT(10), PKT(5)), TX(0, 4), DUE(FOREVER), ACK(2), UNA(3), DUE(FOREVER),
		     ACK(4), UNA(5), STALE(0), NO_TX, WAIT(QP_WAIT_SOURCE) } },
	{ .rule = "5.2 an ACK restarts the timer while something is outstanding",
	  .steps = { ONLY(3), TX(0, 2), DUE(RIG_TIMEOUT), TIME(400000), DUE(600000), ACK(0),
		     DUE(RIG_TIMEOUT), TIME(999999), NO_TX, ACK(1), DUE(RIG_TIMEOUT) } },
	{ .rule = "5.2 the last ACK stops the timer",
	  .steps = { ONLY(3), TX(0, 2), ACK(2), DUE(FOREVER), NO_TX } },
	{ .rule = "5.2 a ghost does not restart the timer",
	  .steps = { ONLY(3), TX(0, 2), ACK(0), TIME(400000), ACK(0), DUE(600000), ACK(-1),
		     DUE(600000) } },
	{ .rule = "5.2 a fresh ACK gives the retries back",
	  .steps = { ONLY(3), TX(0, 2), EXPIRE, TX(0, 0), ACK(0), TX(1, 2), EXPIRE, TX(1, 1),
		     ACK(1), TX(2, 2), EXPIRE, TX(2, 2), EXPIRE,
		     FAIL(REQUESTER_RETRY_EXCEEDED, 2, 4, 0x1F) },
	  .retry = 1 },
	{ .rule = "5.2 a fresh ACK gives the RNR retries back",
	  .steps = { ONLY(3), TX(0, 2), RNR(0, 1), EXPIRE, TX(0, 0), ACK(0), TX(1, 2), RNR(1, 1),
		     EXPIRE, TX(1, 1), RNR(1, 1), FAIL(REQUESTER_RNR_RETRY_EXCEEDED, 1, 3, 0x21) },
	  .rnr_retry = 1 },
	{ .rule = "5.2 a ghost gives no retries back",
	  .steps = { ONLY(2), TX(0, 1), ACK(0), EXPIRE, TX(1, 1), ACK(0), EXPIRE,
		     FAIL(REQUESTER_RETRY_EXCEEDED, 1, 2, 0x1F) },
	  .retry = 1 },
	{ .rule = "5.2 an ACK during retransmission skips forward",
	  .steps = { ONLY(8), TX(0, 7), NAK(0), TX_SOME(0, 1), ACK(4), TX(5, 7) } },
	{ .rule = "5.2 an ACK behind the replay does not move it",
	  .steps = { ONLY(8), TX(0, 7), NAK(0), TX_SOME(0, 3), ACK(1), TX(4, 7) } },
	{ .rule = "5.2 an ACK of everything ends the retransmission",
	  .steps = { ONLY(8), TX(0, 7), NAK(0), TX_SOME(0, 0), ACK(7), NO_TX, STATE(QP_READY),
		     ONLY(1), TX(8, 8) } },
	{ .rule = "5.2 an ACK of everything before any of it was resent",
	  .steps = { ONLY(8), TX(0, 7), NAK(0), ACK(7), NO_TX, STATE(QP_READY), DUE(FOREVER) } },
	{ .rule = "5.2 an ACK that jumps ahead is cumulative, also over messages",
	  .steps = { MESSAGE(PKT(2)), ONLY(1), MESSAGE(PKT(3)), TX(0, 5), ACK(5), UNA(6),
		     MESSAGES(3) } },
	{ .rule = "5.3 a full window waits for an ACK and moves with it",
	  .steps = { ONLY(20), TX(0, 15), WAIT(QP_WAIT_WINDOW), ACK(0), TX(16, 16),
		     WAIT(QP_WAIT_WINDOW), ACK(9), TX(17, 19), WAIT(QP_WAIT_NOTHING), ACK(19),
		     STATE(QP_READY) },
	  .ring = 16 },
};

Test(engine_ack, rules)
{
	ROWS_RUN(rows);
}

/* 5.1: every pair of small differences around every edge of the number space. */
Test(engine_ack, psn_arithmetic)
{
	static const uint32_t at[] = { 0, 1, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFE, 0xFFFFFF };

	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		for (int32_t d = -300; d <= 300; d++) {
			uint32_t b = (at[i] + (uint32_t)d) & 0xFFFFFF;

			cr_assert_eq(roce_psn_diff(b, at[i]), d);
			cr_assert_eq(roce_psn_add(at[i], (uint32_t)d), b);
		}
	cr_assert_eq(roce_psn_diff(0x7FFFFF, 0), 0x7FFFFF);
	cr_assert_eq(roce_psn_diff(0x800000, 0), -0x800000);
	cr_assert_eq(roce_psn_diff(0, 0x800000), -0x800000);
}

/* 5.1 and 5.2: the whole number space, once round, with an acknowledgement of each PSN kind. */
Test(engine_ack, once_round_the_number_space)
{
	struct qp_config config = rig_config();
	uint8_t *memory = aligned_alloc(4096, 64 * 4096), byte = 1;
	struct error error;
	struct frame frame;
	struct qp qp;

	config.start_psn = 5;
	cr_assert_eq(qp_open(&qp, &config, memory, 0, &error), 0);
	for (uint32_t i = 0; i < (1 << 24) + 100; i++) {
		cr_assert_eq(qp_message(&qp, 1), 0);
		qp_payload(&qp, &byte, 1, true);
		cr_assert_eq(qp_transmit(&qp, i, &frame), QP_FRAME);
		cr_assert_eq(frame.psn, (5 + i) & 0xFFFFFF);
		cr_assert_eq(qp_highest_psn(&qp), frame.psn);
		qp_completed(&qp, frame.offset);
		if (i % 64 == 63)
			qp_receive(&qp, i, frame.psn, 0x1F, i);
	}
	qp_receive(&qp, 0, frame.psn, 0x1F, 0);
	cr_assert(qp_idle(&qp));
	cr_assert_eq(qp.requester.counters.messages, (1 << 24) + 100);
	cr_assert_eq(qp.counters.retransmitted_frames, 0);
	qp_close(&qp);
	free(memory);
}
