/* SPDX-License-Identifier: BSD-2-Clause */
/* Requester rules 5.3: sequence errors, fatal NAKs, reserved syndromes; a row per rule. */
#include "engine_steps.h"

static const struct row rows[] = {
	{ .rule = "5.3 0x60: everything before the PSN is acknowledged, everything from it on is "
		  "resent",
	  .steps = { ONLY(8), TX(0, 7), NAK(3), UNA(3), MESSAGES(3), TX(3, 7), NAKS(1, 0),
		     STALE(0) } },
	{ .rule = "5.3 0x60 at the oldest packet",
	  .steps = { ONLY(8), TX(0, 7), NAK(0), UNA(0), TX(0, 7) } },
	{ .rule = "5.3 0x60 at the newest packet",
	  .steps = { ONLY(8), TX(0, 7), NAK(7), UNA(7), TX(7, 7) } },
	{ .rule = "5.3 0x60 in the middle of a message keeps the packetisation",
	  .steps = { MESSAGE(PKT(5)), TX(0, 4), NAK(2), TX(2, 4), ACK(4), MESSAGES(1) } },
	{ .rule = "5.3 new packets follow the resent ones",
	  .steps = { ONLY(4), TX(0, 3), NAK(1), ONLY(2), TX(1, 5) } },
	{ .rule = "5.3 0x60 costs one retry",
	  .steps = { ONLY(4), TX(0, 3), NAK(0), TX(0, 3), EXPIRE,
		     FAIL(REQUESTER_RETRY_EXCEEDED, 0, 2, 0x60) },
	  .retry = 1 },
	{ .rule = "5.3 0x60 with no retry left is the end",
	  .steps = { ONLY(4), TX(0, 3), NAK(0), FAIL(REQUESTER_RETRY_EXCEEDED, 0, 1, 0x60) },
	  .retry = NO_RETRY },
	{ .rule = "5.3 0x60 with no retry left still acknowledges what is before it",
	  .steps = { ONLY(4), TX(0, 3), NAK(2), UNA(2), MESSAGES(2),
		     FAIL(REQUESTER_RETRY_EXCEEDED, 2, 1, 0x60) },
	  .retry = NO_RETRY },
	{ .rule = "5.3 one restart per NAK: a copy of it is ignored",
	  .steps = { ONLY(8), TX(0, 7), NAK(3), TX(3, 7), NAK(3), NO_TX, NAK(3), NO_TX, NAKS(1, 0),
		     STALE(2) } },
	{ .rule = "5.3 one restart per NAK: a copy in mid-replay does not start it again",
	  .steps = { ONLY(8), TX(0, 7), NAK(3), TX_SOME(3, 5), NAK(3), TX(6, 7) } },
	{ .rule = "5.3 copies of a NAK cost no retry",
	  .steps = { ONLY(8), TX(0, 7), NAK(3), TX(3, 7), NAK(3), NAK(3), NAK(3), EXPIRE, TX(3, 3),
		     STATE(QP_SENDING) },
	  .retry = 2 },
	{ .rule = "5.3 a NAK further on is a new one",
	  .steps = { ONLY(8), TX(0, 7), NAK(3), TX(3, 7), NAK(5), UNA(5), TX(5, 7), NAKS(2, 0) } },
	{ .rule = "5.3 a NAK further on in mid-replay skips forward",
	  .steps = { ONLY(8), TX(0, 7), NAK(1), TX_SOME(1, 2), NAK(5), TX(5, 7) } },
	{ .rule = "5.3 a NAK behind what was resent goes back again when it is news",
	  .steps = { ONLY(8), TX(0, 7), NAK(1), TX_SOME(1, 6), NAK(3), TX(3, 7) } },
	{ .rule = "5.3 after a timeout the same NAK restarts once more",
	  .steps = { ONLY(8), TX(0, 7), NAK(3), TX(3, 7), EXPIRE, TX(3, 3), NAK(3), TX(3, 7),
		     NAK(3), NO_TX } },
	{ .rule = "5.3 after a fresh ACK a NAK at the new oldest packet restarts",
	  .steps = { ONLY(8), TX(0, 7), NAK(3), TX(3, 7), ACK(4), NAK(5), TX(5, 7) } },
	{ .rule = "5.3 a NAK that acknowledges gives the retries back before it costs one",
	  .steps = { ONLY(8), TX(0, 7), EXPIRE, TX(0, 0), NAK(2), TX(2, 7), NAK(4), TX(4, 7),
		     NAK(6), TX(6, 7), STATE(QP_SENDING) },
	  .retry = 1 },
	{ .rule = "5.3 a NAK ends a probe: everything from it on goes out",
	  .steps = { ONLY(8), TX(0, 7), EXPIRE, TX(0, 0), WAIT(QP_WAIT_WINDOW), NAK(1),
		     TX(1, 7) } },
	{ .rule = "5.3 a NAK starts no timer before its packets are out again",
	  .steps = { ONLY(2), TX(0, 1), NAK(0), DUE(FOREVER), TX_SOME(0, 0), DUE(RIG_TIMEOUT) } },
	{ .rule = "5.3 the timer runs from the resent packet",
	  .steps = { ONLY(2), TX(0, 1), TIME(700000), NAK(0), TIME(100000), TX(0, 1),
		     DUE(RIG_TIMEOUT) } },
	{ .rule = "5.3 0x61 is fatal, and acknowledges what is before it",
	  .steps = { ONLY(8), TX(0, 7), SYNDROME(3, 0x61), UNA(3), MESSAGES(3),
		     FAIL(REQUESTER_INVALID_REQUEST, 3, 1, 0x61) } },
	{ .rule = "5.3 0x62 is fatal",
	  .steps = { ONLY(8), TX(0, 7), SYNDROME(0, 0x62),
		     FAIL(REQUESTER_REMOTE_ACCESS, 0, 1, 0x62) } },
	{ .rule = "5.3 0x63 is fatal",
	  .steps = { ONLY(8), TX(0, 7), SYNDROME(7, 0x63),
		     FAIL(REQUESTER_REMOTE_OPERATION, 7, 1, 0x63) } },
	{ .rule = "5.3 a fatal NAK ends a replay and a message in the middle",
	  .steps = { MESSAGE(PKT(6)), TX(0, 5), NAK(1), TX_SOME(1, 2), SYNDROME(2, 0x61),
		     FAIL(REQUESTER_INVALID_REQUEST, 2, 2, 0x61) } },
	{ .rule = "5.3 a fatal NAK is taken during an RNR wait",
	  .steps = { ONLY(4), TX(0, 3), RNR(1, 12), SYNDROME(1, 0x62),
		     FAIL(REQUESTER_REMOTE_ACCESS, 1, 1, 0x62) } },
	{ .rule = "5.3 a fatal NAK is taken during a probe",
	  .steps = { ONLY(4), TX(0, 3), EXPIRE, TX(0, 0), SYNDROME(0, 0x62),
		     FAIL(REQUESTER_REMOTE_ACCESS, 0, 2, 0x62) } },
	{ .rule = "5.3 the first error stays, whatever comes afterwards",
	  .steps = { ONLY(4), TX(0, 3), SYNDROME(1, 0x61), SYNDROME(2, 0x62), ACK(3), NAK(2),
		     RNR(2, 1), TIME(100 * RIG_TIMEOUT), UNA(1), MESSAGES(1),
		     FAIL(REQUESTER_INVALID_REQUEST, 1, 1, 0x61) } },
	{ .rule = "5.5 tries count every transmission of the packet, of whatever cause",
	  .steps = { ONLY(1), TX(0, 0), EXPIRE, TX(0, 0), EXPIRE, TX(0, 0), RNR(0, 1), EXPIRE,
		     TX(0, 0), RNR(0, 1), FAIL(REQUESTER_RNR_RETRY_EXCEEDED, 0, 4, 0x21) },
	  .rnr_retry = 1 },
	{ .rule = "5.5 a restart that is refused before its packet is out again is no try",
	  .steps = { ONLY(1), TX(0, 0), NAK(0), SYNDROME(0, 0x63),
		     FAIL(REQUESTER_REMOTE_OPERATION, 0, 1, 0x63) } },
};

Test(engine_nak, rules)
{
	ROWS_RUN(rows);
}

static struct rig *rig_with_eight(void)
{
	struct qp_config config = rig_config();
	struct rig *rig = rig_open(&config);

	for (int i = 0; i < 8; i++)
		rig_message(rig, 8, RIG_WHOLE);
	RIG_EQ(rig, rig_drain(rig), 8, "frames");
	return rig;
}

/* 5.3: 0x40…0x5F and 0x64…0x7F are reserved, bit 7 is not zero in 0x80…0xFF: ignored, all of them.
 */
Test(engine_nak, reserved_syndromes)
{
	for (uint32_t syndrome = 0x40; syndrome < 0x100; syndrome++) {
		struct rig *rig;
		uint64_t deadline;

		if (syndrome >= 0x60 && syndrome <= 0x63)
			continue;
		rig = rig_with_eight();
		snprintf(rig->where, sizeof(rig->where), "syndrome 0x%x", syndrome);
		deadline = qp_deadline(&rig->qp);
		rig_time(rig, 1000);
		rig_receive(rig, 3, syndrome, 3);
		RIG_EQ(rig, rig_relative(rig, rig->qp.ring.una), 0, "una");
		RIG_EQ(rig, qp_deadline(&rig->qp), deadline, "deadline");
		RIG_EQ(rig, rig_drain(rig), 0, "frames");
		RIG_EQ(rig, qp_state(&rig->qp), QP_SENDING, "state");
		RIG_EQ(rig, rig->qp.credits.unlimited, false, "unlimited");
		rig_close(rig);
	}
}

/* 5.3: replays are the bytes that were sent (the rig compares them), and exactly the window. */
Test(engine_nak, one_lost_packet_costs_one_window_at_most)
{
	for (uint32_t lost = 0; lost < 64; lost++) {
		struct qp_config config = rig_config();
		struct rig *rig = rig_open(&config);

		snprintf(rig->where, sizeof(rig->where), "packet %u lost", lost);
		for (int i = 0; i < 200; i++)
			rig_message(rig, 700, RIG_WHOLE);
		RIG_EQ(rig, rig_drain(rig), 64, "first window");
		rig_receive(rig, lost, 0x60, 0);
		rig_drain(rig);
		RIG_EQ(rig, rig->qp.counters.retransmitted_frames, 64 - lost, "retransmitted");
		while (!qp_idle(&rig->qp)) {
			rig_receive(rig, rig_relative(rig, qp_highest_psn(&rig->qp)), 0x1F, 0);
			rig_drain(rig);
		}
		RIG_EQ(rig, rig->qp.counters.retransmitted_frames, 64 - lost,
		       "retransmitted later");
		RIG_EQ(rig, rig->qp.counters.frames, 600 + 64 - lost, "frames");
		RIG_EQ(rig, rig->message, 200, "messages");
		rig_close(rig);
	}
}

/* A PSN has 24 bits: anything longer is no PSN of ours. */
Test(engine_nak, psn_of_more_than_24_bits)
{
	static const uint32_t syndromes[] = { 0x1F, 0x60, 0x61, 0x2C };

	for (size_t i = 0; i < sizeof(syndromes) / sizeof(*syndromes); i++) {
		struct rig *rig = rig_with_eight();

		qp_receive(&rig->qp, rig->now, rig_psn(rig, 3) | 0x5000000, syndromes[i], 3);
		RIG_EQ(rig, rig_relative(rig, rig->qp.ring.una), 0, "una");
		RIG_EQ(rig, rig->qp.requester.counters.stale_acks, 1, "stale_acks");
		RIG_EQ(rig, rig_drain(rig), 0, "frames");
		rig_close(rig);
	}
}
