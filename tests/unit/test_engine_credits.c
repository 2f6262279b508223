/* SPDX-License-Identifier: BSD-2-Clause */
/* Requester rules 5.7: end-to-end credits; a row per rule. SSN = message + 1. */
#include "engine_steps.h"

static const struct row rows[] = {
	{ .rule = "5.7 LSN starts at 0: exactly the first message may go, without credit",
	  .steps = { CREDITS(0), ONLY(3), TX(0, 0), WAIT(QP_WAIT_CREDIT), ACKREQ(0, 1), NO_TX } },
	{ .rule = "5.7 a limited ACK: LSN = MSN + credits, and one message more may start",
	  .steps = { ONLY(9), TX(0, 0), ACK_CREDIT(0, 1, 2), CREDITS(2), TX(1, 3),
		     WAIT(QP_WAIT_CREDIT), CREDITS(0) } },
	{ .rule = "5.7 no credit: message after message, each without credit",
	  .steps = { ONLY(3), TX(0, 0), ACK_CREDIT(0, 1, 0), TX(1, 1), ACK_CREDIT(1, 2, 0),
		     TX(2, 2), ACK_CREDIT(2, 3, 0), STATE(QP_READY) } },
	{ .rule = "5.7 credit code 5 stands for 6",
	  .steps = { ONLY(20), TX(0, 0), ACK_CREDIT(0, 1, 5), CREDITS(6), TX(1, 7),
		     WAIT(QP_WAIT_CREDIT) } },
	{ .rule = "5.7 code 31 is unlimited",
	  .steps = { ONLY(40), TX(0, 0), ACK_CREDIT(0, 1, 31), TX(1, 39) } },
	{ .rule = "5.7 unlimited is for good: a limited ACK afterwards changes nothing",
	  .steps = { ONLY(2), TX(0, 0), ACK_CREDIT(0, 1, 31), TX(1, 1), ACK_CREDIT(1, 2, 0),
		     ONLY(20), TX(2, 21) } },
	{ .rule = "5.7 LSN never goes back",
	  .steps = { ONLY(9), TX(0, 0), ACK_CREDIT(0, 1, 4), TX(1, 5), ACK_CREDIT(1, 2, 0),
		     CREDITS(0), ACK_CREDIT(2, 3, 1), NO_TX, WAIT(QP_WAIT_CREDIT),
		     ACK_CREDIT(3, 4, 2), TX(6, 6) } },
	{ .rule = "5.7 LSN never goes back, also when less is granted than before",
	  .steps = { ONLY(2), TX(0, 0), ACK_CREDIT(0, 1, 4), TX(1, 1), ACK_CREDIT(1, 2, 0),
		     CREDITS(3), ONLY(9), TX(2, 5), WAIT(QP_WAIT_CREDIT) } },
	{ .rule = "5.7 without a limit no message is clamped, and none asks for an early answer",
	  .steps = { ONLY(1), TX(0, 0), ACK_CREDIT(0, 1, 31), MESSAGE(PKT(4)), TX(1, 4),
		     ACKREQ(1, 0), ACKREQ(4, 1) } },
	{ .rule = "5.2 a ghost ACK at the last acknowledged PSN updates credits",
	  .steps = { ONLY(4), TX(0, 0), ACK_CREDIT(0, 1, 0), TX(1, 1), WAIT(QP_WAIT_CREDIT),
		     STALE(0), ACK_CREDIT(0, 1, 2), STALE(1), UNA(1), TX(2, 3) } },
	{ .rule = "5.2 it may also tell that there is no limit",
	  .steps = { ONLY(9), TX(0, 0), ACK_CREDIT(0, 1, 0), TX(1, 1), ACK_CREDIT(0, 1, 31),
		     TX(2, 8) } },
	{ .rule = "5.2 an older ghost ACK does not update credits",
	  .steps = { ONLY(9), TX(0, 0), ACK_CREDIT(0, 1, 0), TX(1, 1), ACK_CREDIT(1, 2, 0),
		     TX(2, 2), ACK_CREDIT(0, 1, 12), NO_TX, WAIT(QP_WAIT_CREDIT),
		     ACK_CREDIT(0, 1, 31), NO_TX } },
	{ .rule = "5.2 an ACK of a PSN not yet sent does not update credits",
	  .steps = { ONLY(9), TX(0, 0), ACK_CREDIT(1, 5, 31), NO_TX, ACK_CREDIT(9, 5, 12), NO_TX,
		     WAIT(QP_WAIT_CREDIT) } },
	{ .rule = "4.2 before the first acknowledgement there is no last one: the ACK before the "
		  "start PSN is bogus",
	  .steps = { ONLY(9), ACK_CREDIT(-1, 0, 31), TX(0, 0), ACK_CREDIT(-1, 9, 12), NO_TX,
		     WAIT(QP_WAIT_CREDIT) } },
	{ .rule = "5.7 credits are in ACKs alone: not in a NAK, an RNR NAK or a reserved syndrome",
	  .steps = { ONLY(9),
		     TX(0, 0),
		     { STEP_RECEIVE, 0, 0x3F, 9, 0 },
		     EXPIRE,
		     TX(0, 0),
		     { STEP_RECEIVE, 0, 0x60, 9, 0 },
		     { STEP_RECEIVE, 0, 0x5F, 9, 0 },
		     NO_TX,
		     ACK_CREDIT(0, 1, 0),
		     TX(1, 1),
		     WAIT(QP_WAIT_CREDIT) } },
	{ .rule = "5.7 [spec?] a message at SSN = LSN + 1 is one packet with AckReq until it is "
		  "answered",
	  .steps = { MESSAGE(PKT(4)), TX(0, 0), WAIT(QP_WAIT_CREDIT), ACKREQ(0, 1),
		     ACK_CREDIT(0, 0, 0), TX(1, 3), ACKREQ(1, 0), ACKREQ(2, 0), ACKREQ(3, 1) } },
	{ .rule = "5.7 [spec?] or until credit arrives",
	  .steps = { ONLY(1), MESSAGE(PKT(4)), TX(0, 0), ACK_CREDIT(0, 1, 0), TX(1, 1),
		     WAIT(QP_WAIT_CREDIT), ACKREQ(1, 1), ACK_CREDIT(0, 1, 1), TX(2, 4),
		     ACKREQ(2, 0) } },
	{ .rule = "5.7 [spec?] or until the responder sets no limit",
	  .steps = { ONLY(1), MESSAGE(PKT(4)), TX(0, 0), ACK_CREDIT(0, 1, 0), TX(1, 1),
		     ACK_CREDIT(0, 1, 31), TX(2, 4) } },
	{ .rule = "5.7 a message within the limit is not clamped",
	  .steps = { ONLY(1), MESSAGE(PKT(4)), TX(0, 0), ACK_CREDIT(0, 1, 1), TX(1, 4),
		     ACKREQ(1, 0), ACKREQ(4, 1) } },
	{ .rule = "5.7 a NAK for the packet after a clamped one never was sent: it is invalid",
	  .steps = { MESSAGE(PKT(4)), TX(0, 0), NAK(1), NO_TX, WAIT(QP_WAIT_CREDIT), STALE(1) } },
	{ .rule = "5.7 the clamped packet is the probe: RNR NAK, the wait, and again",
	  .steps = { MESSAGE(PKT(2)), TX(0, 0), RNR(0, 12), EXPIRE, TX(0, 0), ACK_CREDIT(0, 0, 0),
		     TX(1, 1), RNR(1, 12), EXPIRE, TX(1, 1), ACK_CREDIT(1, 1, 0), MESSAGES(1) } },
	{ .rule = "5.7 the clamped packet is lost: the timer repeats it alone",
	  .steps = { MESSAGE(PKT(4)), TX(0, 0), EXPIRE, TX(0, 0), ACK_CREDIT(0, 0, 0), TX(1, 3) } },
	{ .rule = "5.7 a restart behind the clamped packet resends what was sent and no more",
	  .steps = { ONLY(2), MESSAGE(PKT(4)), TX(0, 0), ACK_CREDIT(0, 1, 1), TX(1, 2), NAK(1),
		     TX(1, 2), WAIT(QP_WAIT_CREDIT), ACK_CREDIT(2, 2, 0), TX(3, 5) } },
};

Test(engine_credits, rules)
{
	struct row copy;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		copy = rows[i];
		copy.immediate = true;
		rows_run(&copy, 1);
	}
}

static const struct row plain[] = {
	{ .rule = "5.7 plain writes are not gated",
	  .steps = { ONLY(20), TX(0, 19), ACK_CREDIT(9, 10, 0), ONLY(10), TX(20, 29),
		     ACK_CREDIT(29, 30, 0), ONLY(10), TX(30, 39) } },
	{ .rule = "5.7 plain writes are not clamped",
	  .steps = { MESSAGE(PKT(4)), TX(0, 3), ACKREQ(0, 0), ACKREQ(3, 1) } },
};

Test(engine_credits, plain_writes)
{
	ROWS_RUN(plain);
}

/* 5.7: the code table. */
Test(engine_credits, code_table)
{
	static const uint32_t credits[31] = {
		0,    1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
		48,   64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
		2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
	};

	for (uint32_t code = 0; code < 31; code++)
		for (uint32_t msn = 0xFFFFF0; msn < 0x1000010; msn++) {
			struct credits c = { .ssn = (msn + 1) & 0xFFFFFF, .lsn = msn & 0xFFFFFF };

			credits_update(&c, msn & 0xFFFFFF, code);
			cr_assert_eq(credits_left(&c), credits[code], "code %u: %u", code,
				     credits_left(&c));
			cr_assert(!c.unlimited);
		}
}

/* 5.7: SSN and LSN wrap at 24 bits; the gate, the clamp and plain writes do not notice. */
Test(engine_credits, numbers_wrap)
{
	for (uint32_t start = 0xFFFFF8; start < 0x1000004; start++) {
		struct credits c = { .ssn = (start + 1) & 0xFFFFFF, .lsn = start & 0xFFFFFF };

		for (int i = 0; i < 16; i++) {
			cr_assert(credits_allow(&c, false));
			cr_assert(!credits_take(&c, false),
				  "a plain write is never over the limit");
		}
		cr_assert_eq(credits_left(&c), 0);
		cr_assert(credits_allow(&c, true), "plain writes keep SSN and LSN in step");
		credits_update(&c, (start + 16) & 0xFFFFFF, 3);
		cr_assert_eq(credits_left(&c), 3);
		for (int i = 0; i < 3; i++) {
			cr_assert(credits_allow(&c, true));
			cr_assert(!credits_take(&c, true), "within the limit");
			cr_assert(credits_cover(&c));
		}
		cr_assert(credits_allow(&c, true), "the one without credit");
		cr_assert(credits_take(&c, true));
		cr_assert(!credits_cover(&c));
		cr_assert(!credits_allow(&c, true));
		cr_assert(credits_allow(&c, false));
		cr_assert_eq(credits_left(&c), 0);
	}
}
