/* SPDX-License-Identifier: BSD-2-Clause */
/* Requester rules 5.3 and 5.4: receiver not ready; a row per rule. */
#include "engine_steps.h"

#define CODE_12 640000 /* ns */

static const struct row rows[] = {
	{ .rule = "5.3 RNR NAK: what is before the PSN is acknowledged, nothing is sent for the "
		  "time asked for",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), UNA(3), MESSAGES(3), NO_TX, WAIT(QP_WAIT_RNR),
		     DUE(CODE_12), NAKS(0, 1) } },
	{ .rule = "5.3 no new packet goes out during the wait",
	  .steps = { ONLY(2), TX(0, 1), RNR(0, 12), ONLY(2), TIME(CODE_12 - 1), NO_TX,
		     WAIT(QP_WAIT_RNR) } },
	{ .rule = "5.3 and section 5 of the design: after the wait the refused packet alone, until "
		  "it is answered",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), EXPIRE, TX(3, 3), WAIT(QP_WAIT_WINDOW), ONLY(2),
		     NO_TX, ACK(3), TX(4, 9) } },
	{ .rule = "design 5: a refused packet without AckReq goes with those up to the first one "
		  "that has it",
	  .steps = { MESSAGE(PKT(20)), TX(0, 19), RNR(3, 12), EXPIRE, TX(3, 15),
		     WAIT(QP_WAIT_WINDOW), ACK(15), TX(16, 19) } },
	{ .rule = "design 5: an answer in the middle of those leaves the rest of them to be "
		  "awaited",
	  .steps = { MESSAGE(PKT(20)), TX(0, 19), RNR(3, 12), EXPIRE, TX(3, 15), ACK(7), NO_TX,
		     ACK(15), TX(16, 19) } },
	{ .rule = "5.3 during the wait a further RNR NAK is ignored",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), TIME(100000), RNR(3, 20), DUE(CODE_12 - 100000),
		     NAKS(0, 1), STALE(1), EXPIRE, TX(3, 3) } },
	{ .rule = "5.3 during the wait NAK 0x60 for the same PSN is ignored",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), NAK(3), NO_TX, WAIT(QP_WAIT_RNR), NAKS(0, 1),
		     STALE(1), EXPIRE, TX(3, 3) } },
	{ .rule = "5.3 the same after an earlier restart at that PSN",
	  .steps = { ONLY(8), TX(0, 7), NAK(3), TX(3, 7), RNR(3, 12), NAK(3), NO_TX, EXPIRE,
		     TX(3, 3) } },
	{ .rule = "5.3 NAK 0x60 for the refused PSN that comes after the wait is ignored too",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), EXPIRE, TX(3, 3), NAK(3), NO_TX, ACK(3),
		     TX(4, 7) } },
	{ .rule = "5.3 the ACK timer stands still during the wait, however long it is",
	  .steps = { ONLY(4), TX(0, 3), RNR(1, 0), DUE(655360000), TIME(655359999), NO_TX,
		     WAIT(QP_WAIT_RNR), TIME(1), TX(1, 1), DUE(RIG_TIMEOUT) },
	  .retry = NO_RETRY },
	{ .rule = "5.3 an ACK of the refused packet ends the wait",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), ACK(3), TX(4, 7), DUE(RIG_TIMEOUT) } },
	{ .rule = "5.3 an ACK of everything ends the wait",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), ACK(7), NO_TX, WAIT(QP_WAIT_NOTHING),
		     DUE(FOREVER), STATE(QP_READY) } },
	{ .rule = "5.3 a ghost does not end the wait",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), ACK(2), ACK(0), NO_TX, WAIT(QP_WAIT_RNR),
		     DUE(CODE_12), UNA(3) } },
	{ .rule = "5.3 an RNR NAK further on starts a new wait",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), TIME(600000), RNR(5, 12), UNA(5), DUE(CODE_12),
		     EXPIRE, TX(5, 5) } },
	{ .rule = "5.3 NAK 0x60 further on ends the wait and restarts there",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), NAK(5), UNA(5), TX(5, 7) } },
	{ .rule = "5.3 a refused replay of the refused packet waits again",
	  .steps = { ONLY(2), TX(0, 1), RNR(0, 12), EXPIRE, TX(0, 0), RNR(0, 13), DUE(960000),
		     EXPIRE, TX(0, 0), ACK(0), TX(1, 1), NAKS(0, 2) } },
	{ .rule = "5.3 an RNR NAK in the middle of a replay stops it",
	  .steps = { ONLY(8), TX(0, 7), NAK(1), TX_SOME(1, 2), RNR(2, 12), NO_TX, WAIT(QP_WAIT_RNR),
		     EXPIRE, TX(2, 2) } },
	{ .rule = "5.3 an RNR NAK during a probe",
	  .steps = { ONLY(8), TX(0, 7), EXPIRE, TX(0, 0), RNR(0, 12), NO_TX, WAIT(QP_WAIT_RNR),
		     EXPIRE, TX(0, 0) } },
	{ .rule = "5.5 the answer after a wait is lost: a timeout repeats the refused packet alone",
	  .steps = { ONLY(8), TX(0, 7), RNR(3, 12), EXPIRE, TX(3, 3), EXPIRE, TX(3, 3), NAK(3),
		     NO_TX, ACK(3), TX(4, 7) } },
	{ .rule = "5.5 RNR NAKs cost no retry, and retries are no RNR retries",
	  .steps = { ONLY(1), TX(0, 0), RNR(0, 1), EXPIRE, TX(0, 0), RNR(0, 1), EXPIRE, TX(0, 0),
		     RNR(0, 1), EXPIRE, TX(0, 0), STATE(QP_SENDING), EXPIRE,
		     FAIL(REQUESTER_RETRY_EXCEEDED, 0, 4, 0x21) },
	  .retry = NO_RETRY,
	  .rnr_retry = 4 },
	{ .rule = "requester.h: an RNR NAK is an answer and gives the retries back",
	  .steps = { ONLY(1), TX(0, 0), EXPIRE, TX(0, 0), RNR(0, 1), EXPIRE, TX(0, 0), EXPIRE,
		     TX(0, 0), EXPIRE, FAIL(REQUESTER_RETRY_EXCEEDED, 0, 4, 0x21) },
	  .retry = 1 },
	{ .rule = "5.3 an RNR NAK without an ACK timer: the wait alone",
	  .steps = { ONLY(2), TX(0, 1), DUE(FOREVER), RNR(0, 12), DUE(CODE_12), EXPIRE, TX(0, 0),
		     DUE(FOREVER), ACK(0), TX(1, 1) },
	  .no_timer = true },
	{ .rule = "5.3 a refused packet with no AckReq in flight behind it: all of it is resent",
	  .steps = { PART(PKT(9), PKT(3)), TX(0, 2), RNR(1, 1), EXPIRE, TX(1, 2),
		     WAIT(QP_WAIT_SOURCE), MORE(PKT(9)), TX(3, 8), ACK(8), MESSAGES(1) } },
};

Test(engine_rnr, rules)
{
	ROWS_RUN(rows);
}

/* 5.4, in units of 10 µs: nothing happens a nanosecond earlier, and the packet goes at that time.
 */
Test(engine_rnr, all_32_waits_to_the_nanosecond)
{
	static const uint32_t units[32] = {
		65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
		48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	for (uint32_t code = 0; code < 32; code++) {
		struct qp_config config = rig_config();
		struct rig *rig = rig_open(&config);
		struct frame frame;
		uint64_t wait = units[code] * 10000ull;

		snprintf(rig->where, sizeof(rig->where), "RNR code %u", code);
		rig_message(rig, 8, RIG_WHOLE);
		RIG_EQ(rig, rig_drain(rig), 1, "frames");
		rig_time(rig, 77);
		rig_receive(rig, 0, 0x20 | code, 0);
		RIG_EQ(rig, qp_deadline(&rig->qp), rig->now + wait, "deadline");
		rig_time(rig, wait - 1);
		RIG_EQ(rig, rig_drain(rig), 0, "frames a nanosecond early");
		RIG_EQ(rig, rig->wait, QP_WAIT_RNR, "reason");
		rig_time(rig, 1);
		cr_assert(rig_transmit(rig, &frame), "%s: no frame at the end of the wait",
			  rig->where);
		RIG_EQ(rig, rig->qp.requester.counters.rnr_wait_ns, wait, "rnr_wait_ns");
		rig_close(rig);
	}
}

/* Section 8: the time waited is counted however the wait ends: by an ACK, a NAK further on, a fatal
 * NAK. */
Test(engine_rnr, wait_is_counted_however_it_ends)
{
	static const struct {
		int64_t psn;
		uint32_t syndrome;
	} ends[] = { { 0, 0x1F }, { 3, 0x1F }, { 2, 0x60 }, { 0, 0x61 }, { 2, 0x62 } };

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct qp_config config = rig_config();
		struct rig *rig = rig_open(&config);

		snprintf(rig->where, sizeof(rig->where), "end %zu", i);
		for (int k = 0; k < 4; k++)
			rig_message(rig, 8, RIG_WHOLE);
		RIG_EQ(rig, rig_drain(rig), 4, "frames");
		rig_receive(rig, 0, 0x2C, 0);
		rig_time(rig, 1234);
		rig_receive(rig, ends[i].psn, ends[i].syndrome, 0);
		rig_time(rig, 1000000);
		RIG_EQ(rig, rig->qp.requester.counters.rnr_wait_ns, 1234, "rnr_wait_ns");
		rig_close(rig);
	}
}

/* 5.5: rnr_retry n allows n + 1 transmissions; 7 is for ever. */
Test(engine_rnr, transmissions_for_each_rnr_retry)
{
	for (uint32_t rnr_retry = 0; rnr_retry <= 7; rnr_retry++) {
		struct qp_config config = rig_config();
		struct rig *rig;
		uint32_t sent = 0;

		config.rnr_retry = rnr_retry;
		config.retry = 0;
		rig = rig_open(&config);
		snprintf(rig->where, sizeof(rig->where), "rnr_retry %u", rnr_retry);
		rig_message(rig, 8, RIG_WHOLE);
		while (sent < 1000 && rig_drain(rig) == 1) {
			sent++;
			rig_receive(rig, 0, 0x21, 0);
			if (!rig->qp.requester.error.failure)
				rig_expire(rig);
		}
		RIG_EQ(rig, sent, rnr_retry == 7 ? 1000 : rnr_retry + 1, "transmissions");
		if (rnr_retry < 7) {
			RIG_EQ(rig, rig->qp.requester.error.failure, REQUESTER_RNR_RETRY_EXCEEDED,
			       "failure");
			RIG_EQ(rig, rig->qp.requester.error.tries, rnr_retry + 1, "tries");
		}
		rig_close(rig);
	}
}
