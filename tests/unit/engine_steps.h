/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table row per rule: a name and a list of steps for the rig. Every row runs at several start
 * PSNs. PSNs in steps are relative to the start PSN.
 */
#ifndef TESTS_UNIT_ENGINE_STEPS_H
#define TESTS_UNIT_ENGINE_STEPS_H

#include <errno.h>

#include "engine_rig.h"

enum step_kind {
	STEP_END,
	STEP_ONLY,
	STEP_MESSAGE,
	STEP_PAYLOAD,
	STEP_TX,
	STEP_TX_SOME,
	STEP_NO_TX,
	STEP_WAIT,
	STEP_RECEIVE,
	STEP_TIME,
	STEP_EXPIRE,
	STEP_DUE,
	STEP_UNA,
	STEP_MESSAGES,
	STEP_STALE,
	STEP_NAKS,
	STEP_FAIL,
	STEP_CREDITS,
	STEP_STATE,
	STEP_ACKREQ,
};

struct step {
	enum step_kind kind;
	int64_t a, b, c, d;
};

#define FOREVER (-1)
#define PKT(n) ((n) * 256)

/* Messages: n of one packet each; one of that many bytes; one of which only a part is there yet. */
#define ONLY(n) { STEP_ONLY, n, 0, 0, 0 }
#define MESSAGE(bytes) { STEP_MESSAGE, bytes, -1, 0, 0 }
#define PART(bytes, available) { STEP_MESSAGE, bytes, available, 0, 0 }
#define MORE(available) { STEP_PAYLOAD, available, 0, 0, 0 }
#define ENDED(available) { STEP_PAYLOAD, available, 1, 0, 0 }
/* Frames: exactly these PSNs and then none; these and maybe more; none (for this reason). */
#define TX(from, to) { STEP_TX, from, to, 0, 0 }
#define TX_SOME(from, to) { STEP_TX_SOME, from, to, 0, 0 }
#define NO_TX { STEP_NO_TX, 0, 0, 0, 0 }
#define WAIT(why) { STEP_WAIT, why, 0, 0, 0 }
/* Answers. */
#define ACK(psn) { STEP_RECEIVE, psn, 0x1F, 0, 0 }
#define ACK_CREDIT(psn, msn, code) { STEP_RECEIVE, psn, code, msn, 0 }
#define NAK(psn) { STEP_RECEIVE, psn, 0x60, 0, 0 }
#define RNR(psn, code) { STEP_RECEIVE, psn, 0x20 | (code), 0, 0 }
#define SYNDROME(psn, syndrome) { STEP_RECEIVE, psn, syndrome, 0, 0 }
/* Time: forward; to the deadline and not a nanosecond earlier; how far the deadline is. */
#define TIME(ns) { STEP_TIME, ns, 0, 0, 0 }
#define EXPIRE { STEP_EXPIRE, 0, 0, 0, 0 }
#define DUE(ns) { STEP_DUE, ns, 0, 0, 0 }
/* What must hold. */
#define UNA(psn) { STEP_UNA, psn, 0, 0, 0 }
#define MESSAGES(n) { STEP_MESSAGES, n, 0, 0, 0 }
#define STALE(n) { STEP_STALE, n, 0, 0, 0 }
#define NAKS(n, rnr) { STEP_NAKS, n, rnr, 0, 0 }
#define FAIL(failure, psn, tries, syndrome) { STEP_FAIL, failure, psn, tries, syndrome }
#define CREDITS(n) { STEP_CREDITS, n, 0, 0, 0 }
#define STATE(state) { STEP_STATE, state, 0, 0, 0 }
#define ACKREQ(psn, set) { STEP_ACKREQ, psn, set, 0, 0 } /* when it was sent last */

struct row {
	const char *rule;
	struct step steps[40];
	/* Settings; 0 is the rig's default, for the retries NO_RETRY means 0. */
	uint32_t ring, retry, rnr_retry;
	uint64_t ack_timeout;
	bool no_timer, immediate;
};

#define NO_RETRY 99u

static inline void step_message(struct rig *rig, const struct step *step)
{
	if (step->kind == STEP_ONLY) {
		for (int64_t i = 0; i < step->a; i++)
			rig_message(rig, 8, RIG_WHOLE);
	} else if (step->kind == STEP_MESSAGE) {
		rig_message(rig, (uint64_t)step->a, (uint64_t)step->b);
	} else {
		rig_payload(rig, (uint64_t)step->a, step->b);
	}
}

static inline void step_transmit(struct rig *rig, const struct step *step)
{
	struct frame frame;

	if (step->kind != STEP_NO_TX)
		for (int64_t psn = step->a; psn <= step->b; psn++) {
			cr_assert(rig_transmit(rig, &frame),
				  "%s: no frame (reason %d), PSN +%lld expected", rig->where,
				  rig->wait, (long long)psn);
			RIG_EQ(rig, rig_relative(rig, frame.psn), psn, "PSN of the frame");
		}
	if (step->kind != STEP_TX_SOME)
		cr_assert(!rig_transmit(rig, &frame), "%s: unexpected frame, PSN +%u", rig->where,
			  rig_relative(rig, frame.psn));
}

static inline void step_failure(struct rig *rig, const struct step *step)
{
	const struct requester_error *error = &rig->qp.requester.error;
	struct frame frame;

	RIG_EQ(rig, error->failure, step->a, "failure");
	RIG_EQ(rig, rig_relative(rig, error->psn), step->b, "PSN of the error");
	RIG_EQ(rig, error->tries, step->c, "tries of the error");
	RIG_EQ(rig, error->syndrome, step->d, "syndrome of the error");
	RIG_EQ(rig, qp_state(&rig->qp), QP_ERROR, "state");
	cr_assert(!rig_transmit(rig, &frame), "%s: a frame in error", rig->where);
	RIG_EQ(rig, rig->wait, QP_WAIT_ERROR, "reason");
	RIG_EQ(rig, qp_deadline(&rig->qp), REQUESTER_NEVER, "deadline in error");
	RIG_EQ(rig, qp_message(&rig->qp, 1), -ENOTCONN, "qp_message in error");
}

static inline void step_ackreq(struct rig *rig, const struct step *step)
{
	for (uint32_t i = rig->logged; i > 0; i--) {
		if (rig->log[i - 1].psn != step->a)
			continue;
		RIG_EQ(rig, rig->log[i - 1].ackreq, step->b, "AckReq");
		return;
	}
	cr_assert_fail("%s: PSN +%lld was never sent", rig->where, (long long)step->a);
}

static inline void step_check(struct rig *rig, const struct step *step)
{
	const struct requester_counters *counters = &rig->qp.requester.counters;

	if (step->kind == STEP_WAIT)
		RIG_EQ(rig, rig->wait, step->a, "reason for no frame");
	else if (step->kind == STEP_DUE)
		RIG_EQ(rig, qp_deadline(&rig->qp),
		       step->a == FOREVER ? REQUESTER_NEVER : rig->now + (uint64_t)step->a,
		       "deadline");
	else if (step->kind == STEP_UNA)
		RIG_EQ(rig, rig_relative(rig, rig->qp.ring.una), step->a,
		       "oldest unacknowledged PSN");
	else if (step->kind == STEP_MESSAGES)
		RIG_EQ(rig, counters->messages, step->a, "messages acknowledged");
	else if (step->kind == STEP_STALE)
		RIG_EQ(rig, counters->stale_acks, step->a, "stale_acks");
	else if (step->kind == STEP_CREDITS)
		RIG_EQ(rig, credits_left(&rig->qp.credits), step->a, "credits");
	else if (step->kind == STEP_STATE)
		RIG_EQ(rig, qp_state(&rig->qp), step->a, "state");
	if (step->kind != STEP_NAKS)
		return;
	RIG_EQ(rig, counters->naks, step->a, "naks");
	RIG_EQ(rig, counters->rnr_naks, step->b, "rnr_naks");
}

static inline void step_run(struct rig *rig, const struct step *step)
{
	switch (step->kind) {
	case STEP_ONLY:
	case STEP_MESSAGE:
	case STEP_PAYLOAD:
		step_message(rig, step);
		break;
	case STEP_TX:
	case STEP_TX_SOME:
	case STEP_NO_TX:
		step_transmit(rig, step);
		break;
	case STEP_RECEIVE:
		rig_receive(rig, step->a, (uint32_t)step->b, (uint32_t)step->c);
		break;
	case STEP_TIME:
		rig_time(rig, (uint64_t)step->a);
		break;
	case STEP_EXPIRE:
		rig_expire(rig);
		break;
	case STEP_ACKREQ:
		step_ackreq(rig, step);
		break;
	case STEP_FAIL:
		step_failure(rig, step);
		break;
	default:
		step_check(rig, step);
	}
}

static inline uint32_t row_retry(uint32_t setting)
{
	if (setting == NO_RETRY)
		return 0;
	return setting ? setting : 7;
}

static inline void row_run(const struct row *row, uint32_t start_psn)
{
	struct qp_config config = rig_config();
	struct rig *rig;

	config.start_psn = start_psn;
	config.immediate = row->immediate;
	config.retry = row_retry(row->retry);
	config.rnr_retry = row_retry(row->rnr_retry);
	if (row->ring)
		config.ring = row->ring;
	if (row->ack_timeout)
		config.ack_timeout = row->ack_timeout;
	if (row->no_timer)
		config.ack_timeout = 0;
	rig = rig_open(&config);
	for (int i = 0; row->steps[i].kind != STEP_END; i++) {
		snprintf(rig->where, sizeof(rig->where), "%.100s, step %d, start PSN 0x%x",
			 row->rule, i + 1, start_psn);
		step_run(rig, &row->steps[i]);
	}
	rig_close(rig);
}

static inline void rows_run(const struct row *rows, size_t count)
{
	static const uint32_t starts[] = { 0, 0xFFFFFF, 0xFFFFFD, 0xFFFFF0, 0x7FFFFC, 0x123456 };

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < sizeof(starts) / sizeof(*starts); k++)
			row_run(&rows[i], starts[k]);
}

#define ROWS_RUN(rows) rows_run(rows, sizeof(rows) / sizeof(*(rows)))

#endif
