/* SPDX-License-Identifier: BSD-2-Clause */
/* Requester rules 5.5 and "ACK timer" of section 5 of the design; a row per rule. */
#include "engine_steps.h"

static const struct row rows[] = {
	{ .rule = "design 5: no timer runs with nothing in flight",
	  .steps = { DUE(FOREVER), NO_TX, DUE(FOREVER) } },
	{ .rule = "design 5: the timer runs from the submission of a packet with AckReq",
	  .steps = { ONLY(1), TX(0, 0), DUE(RIG_TIMEOUT) } },
	{ .rule = "design 5: it does not run while no packet with AckReq is outstanding",
	  .steps = { PART(PKT(20), PKT(15)), TX(0, 14), DUE(FOREVER), MORE(PKT(16)), TX(15, 15),
		     DUE(RIG_TIMEOUT), ACK(15), DUE(FOREVER) } },
	{ .rule = "design 5: from the oldest packet with AckReq, a later one does not move it",
	  .steps = { ONLY(1), TX(0, 0), TIME(300000), ONLY(1), TX(1, 1), DUE(700000) } },
	{ .rule = "design 5: from the last fresh ACK when that is later than the submission",
	  .steps = { ONLY(2), TX(0, 1), TIME(300000), ACK(0), DUE(RIG_TIMEOUT) } },
	{ .rule = "design 5: from the submission when that is later than the last fresh ACK",
	  .steps = { ONLY(1), TX(0, 0), ACK(0), TIME(300000), ONLY(1), TX(1, 1),
		     DUE(RIG_TIMEOUT) } },
	{ .rule = "design 5: from the resubmission",
	  .steps = { ONLY(1), TX(0, 0), EXPIRE, DUE(FOREVER), TIME(123456), TX(0, 0),
		     DUE(RIG_TIMEOUT) } },
	{ .rule = "design 5: an ACK of packets before the one with AckReq restarts it",
	  .steps = { MESSAGE(PKT(10)), TX(0, 9), TIME(300000), ACK(4), DUE(RIG_TIMEOUT) } },
	{ .rule = "5.5 ACK timeout 0: no timer",
	  .steps = { ONLY(1), TX(0, 0), DUE(FOREVER), TIME(1000000000000), NO_TX, STATE(QP_SENDING),
		     ACK(0), STATE(QP_READY) },
	  .no_timer = true },
	{ .rule = "5.5 an ACK timeout of 2^31 · 4.096 µs, the longest there is",
	  .steps = { ONLY(1), TX(0, 0), DUE(8796093022208), EXPIRE, TX(0, 0) },
	  .ack_timeout = 8796093022208 },
	{ .rule = "5.5 probe: the oldest packet up to the first one with AckReq, then it waits for "
		  "the answer",
	  .steps = { ONLY(8), TX(0, 7), EXPIRE, TX(0, 0), WAIT(QP_WAIT_WINDOW), ACK(0),
		     TX(1, 7) } },
	{ .rule = "5.5 probe: with those before the first AckReq",
	  .steps = { MESSAGE(PKT(40)), TX(0, 39), EXPIRE, TX(0, 15), WAIT(QP_WAIT_WINDOW), ACK(15),
		     TX(16, 39) } },
	{ .rule = "5.5 a probe starts at the oldest packet that is not acknowledged",
	  .steps = { MESSAGE(PKT(40)), TX(0, 39), ACK(9), EXPIRE, TX(10, 15), ACK(15),
		     TX(16, 39) } },
	{ .rule = "5.5 a probe that is answered beyond its end ends, and what is acknowledged is "
		  "not resent",
	  .steps = { MESSAGE(PKT(40)), TX(0, 39), EXPIRE, TX(0, 15), ACK(39), NO_TX,
		     STATE(QP_READY) } },
	{ .rule = "5.5 the answer arrives while the probe is going out",
	  .steps = { MESSAGE(PKT(40)), TX(0, 39), EXPIRE, TX_SOME(0, 3), ACK(20), TX(21, 39) } },
	{ .rule = "5.5 a late answer to a part of the probe: the rest goes out, and is awaited",
	  .steps = { MESSAGE(PKT(40)), TX(0, 39), EXPIRE, TX_SOME(0, 3), ACK(7), TX(8, 15),
		     WAIT(QP_WAIT_WINDOW), DUE(RIG_TIMEOUT) } },
	{ .rule = "5.5 no new packet overtakes a probe",
	  .steps = { ONLY(3), TX(0, 2), EXPIRE, ONLY(2), TX(0, 0), ACK(0), TX(1, 4) } },
	{ .rule = "5.5 a probe without an answer is repeated",
	  .steps = { ONLY(3), TX(0, 2), EXPIRE, TX(0, 0), EXPIRE, TX(0, 0), EXPIRE, TX(0, 0),
		     ACK(2), NO_TX, STATE(QP_READY) } },
	{ .rule = "5.5 a replay that is not out yet does not time out",
	  .steps = { MESSAGE(PKT(20)), TX(0, 19), NAK(0), TX_SOME(0, 10), TIME(50 * RIG_TIMEOUT),
		     DUE(FOREVER), TX(11, 19), DUE(RIG_TIMEOUT) },
	  .retry = 1 },
	{ .rule = "5.5 the timer expires late: one timeout, one probe, one retry",
	  .steps = { ONLY(1), TX(0, 0), TIME(50 * RIG_TIMEOUT), TX(0, 0), DUE(RIG_TIMEOUT), EXPIRE,
		     FAIL(REQUESTER_RETRY_EXCEEDED, 0, 2, 0x100) },
	  .retry = 1 },
	{ .rule = "5.5 timeouts and NAK 0x60 count in one counter",
	  .steps = { ONLY(1), TX(0, 0), EXPIRE, TX(0, 0), NAK(0), TX(0, 0), EXPIRE, TX(0, 0),
		     NAK(0), FAIL(REQUESTER_RETRY_EXCEEDED, 0, 4, 0x60) },
	  .retry = 3 },
	{ .rule = "5.5 the error names the oldest packet and the last syndrome",
	  .steps = { ONLY(4), TX(0, 3), ACK(1), EXPIRE, TX(2, 2), EXPIRE,
		     FAIL(REQUESTER_RETRY_EXCEEDED, 2, 2, 0x1F) },
	  .retry = 1 },
	{ .rule = "5.5 retry 0: the first timeout is the end",
	  .steps = { ONLY(4), TX(0, 3), EXPIRE, FAIL(REQUESTER_RETRY_EXCEEDED, 0, 1, 0x100) },
	  .retry = NO_RETRY },
	{ .rule = "design 5: a source that pauses ten ACK timeouts in mid-message: no frame, no "
		  "retry",
	  .steps = { PART(PKT(20), PKT(5)), TX(0, 4), WAIT(QP_WAIT_SOURCE), TIME(RIG_TIMEOUT),
		     NO_TX, TIME(9 * RIG_TIMEOUT), NO_TX, DUE(FOREVER), MORE(PKT(20)), TX(5, 19),
		     ACK(19), MESSAGES(1) },
	  .retry = NO_RETRY },
	{ .rule = "design 5: the same after packets with AckReq that are acknowledged",
	  .steps = { PART(PKT(40), PKT(34)), TX(0, 33), ACK(31), DUE(FOREVER),
		     TIME(10 * RIG_TIMEOUT), NO_TX, MORE(PKT(40)), TX(34, 39), ACK(39),
		     MESSAGES(1) },
	  .retry = NO_RETRY },
	{ .rule = "design 5: the same after a loss that was made good",
	  .steps = { PART(PKT(40), PKT(34)), TX(0, 33), NAK(20), TX(20, 33), ACK(31),
		     TIME(10 * RIG_TIMEOUT), NO_TX, DUE(FOREVER), MORE(PKT(40)), TX(34, 39),
		     ACK(39), MESSAGES(1) },
	  .retry = 1 },
};

Test(engine_timer, rules)
{
	ROWS_RUN(rows);
}

/* 5.5: retry n allows n + 1 transmissions, 7 means seven; the PSN, tries and syndrome are named. */
Test(engine_timer, transmissions_for_each_retry)
{
	for (uint32_t retry = 0; retry <= 7; retry++) {
		struct qp_config config = rig_config();
		struct rig *rig;
		uint32_t sent = 0;

		config.retry = retry;
		rig = rig_open(&config);
		snprintf(rig->where, sizeof(rig->where), "retry %u", retry);
		rig_message(rig, 8, RIG_WHOLE);
		while (rig_drain(rig) == 1) {
			sent++;
			rig_expire(rig);
		}
		RIG_EQ(rig, sent, retry + 1, "transmissions");
		RIG_EQ(rig, rig->qp.requester.error.failure, REQUESTER_RETRY_EXCEEDED, "failure");
		RIG_EQ(rig, rig->qp.requester.error.psn, rig_psn(rig, 0), "PSN");
		RIG_EQ(rig, rig->qp.requester.error.tries, retry + 1, "tries");
		RIG_EQ(rig, rig->qp.requester.error.syndrome, 0x100, "syndrome");
		RIG_EQ(rig, rig->qp.requester.counters.timeouts, retry + 1, "timeouts");
		rig_close(rig);
	}
}

/* Section 8: ack_timeout, retry and rnr_retry may change while running. */
Test(engine_timer, settings_change_while_running)
{
	struct qp_config config = rig_config();
	struct rig *rig = rig_open(&config);

	rig_message(rig, 8, RIG_WHOLE);
	RIG_EQ(rig, rig_drain(rig), 1, "frames");
	rig->qp.requester.ack_timeout = 5000;
	RIG_EQ(rig, qp_deadline(&rig->qp), rig->now + 5000, "deadline");
	rig_expire(rig);
	RIG_EQ(rig, rig_drain(rig), 1, "frames");
	rig->qp.requester.retry = 1;
	rig_expire(rig);
	RIG_EQ(rig, rig->qp.requester.error.failure, REQUESTER_RETRY_EXCEEDED, "failure");
	rig_close(rig);
}
