/* SPDX-License-Identifier: BSD-2-Clause */
#include "requester.h"

#include <string.h>

#include <xdp2roce/roce.h>

#define NO_SYNDROME 0x100u

void requester_open(struct requester *requester, struct retransmission *ring,
		    struct credits *credits)
{
	memset(requester, 0, sizeof(*requester));
	requester->ring = ring;
	requester->credits = credits;
	requester->syndrome = NO_SYNDROME;
}

static void fail(struct requester *requester, enum requester_failure failure, uint32_t psn)
{
	requester->error = (struct requester_error){
		.failure = failure,
		.psn = psn,
		.tries = retransmission_slot(requester->ring, psn)->sent,
		.syndrome = requester->syndrome,
	};
	requester->waiting = false;
	requester->probing = false;
	requester->has_ackreq = false;
}

static void end_wait(struct requester *requester, uint64_t now)
{
	if (!requester->waiting)
		return;
	requester->waiting = false;
	requester->counters.rnr_wait_ns += now - requester->wait_start;
}

/* Everything before psn is acknowledged. Returns true when that is news. */
static bool acknowledge_before(struct requester *requester, uint64_t now, uint32_t psn)
{
	struct retransmission *ring = requester->ring;
	bool fresh = ring->una != psn;

	for (; ring->una != psn; ring->una = roce_psn_add(ring->una, 1)) {
		const struct slot *slot = retransmission_slot(ring, ring->una);

		requester->counters.bytes += slot->payload;
		requester->counters.messages += !!(slot->flags & SLOT_LAST);
	}
	if (!fresh)
		return false;

	if (roce_psn_diff(ring->cursor, ring->una) < 0)
		ring->cursor = ring->una;
	requester->acknowledged = true;
	requester->retries = 0;
	requester->rnr_retries = 0;
	requester->restarted = false;
	end_wait(requester, now);
	if (requester->probing && roce_psn_diff(ring->una, requester->probe_end) >= 0)
		requester->probing = false;
	requester->has_ackreq = retransmission_first_ackreq(ring, &requester->timer_psn);
	requester->timer_start = now;
	return true;
}

static void go_back(struct requester *requester)
{
	requester->ring->cursor = requester->ring->una;
	requester->probing = false;
}

static void start_probe(struct requester *requester, bool after_rnr)
{
	go_back(requester);
	if (!requester->has_ackreq)
		return; /* nothing in flight asks for an answer: replay all of it */
	requester->probing = true;
	requester->rnr_probe = after_rnr;
	requester->probe_end = roce_psn_add(requester->timer_psn, 1);
}

static void receive_ack(struct requester *requester, uint64_t now, uint32_t psn, uint32_t syndrome,
			uint32_t msn)
{
	credits_update(requester->credits, msn, syndrome);
	requester->msn = msn;
	if (acknowledge_before(requester, now, roce_psn_add(psn, 1)))
		requester->counters.acks++;
	else
		requester->counters.stale_acks++;
}

static void receive_sequence_nak(struct requester *requester, uint64_t now, uint32_t psn)
{
	bool fresh = acknowledge_before(requester, now, psn);
	bool refused = psn == requester->rnr_psn &&
		       (requester->waiting || (requester->probing && requester->rnr_probe));

	/* The packets behind a refused one draw this NAK; the refused one has its own wait. */
	if (!fresh && (refused || requester->restarted)) {
		requester->counters.stale_acks++;
		return;
	}
	requester->counters.naks++;
	if (requester->retries >= requester->retry) {
		fail(requester, REQUESTER_RETRY_EXCEEDED, psn);
		return;
	}
	requester->retries++;
	requester->restarted = true;
	go_back(requester);
}

static void receive_rnr_nak(struct requester *requester, uint64_t now, uint32_t psn,
			    uint32_t syndrome)
{
	bool fresh = acknowledge_before(requester, now, psn);

	if (!fresh && requester->waiting) {
		requester->counters.stale_acks++;
		return;
	}
	requester->counters.rnr_naks++;
	if (requester->rnr_retry != RNR_RETRY_FOREVER &&
	    requester->rnr_retries >= requester->rnr_retry) {
		fail(requester, REQUESTER_RNR_RETRY_EXCEEDED, psn);
		return;
	}
	requester->rnr_retries++;
	requester->retries = 0; /* the peer answers: only silence in a row counts as lost */
	go_back(requester);
	requester->waiting = true;
	requester->rnr_psn = psn;
	requester->wait_start = now;
	requester->wait_end = now + roce_rnr_ns(syndrome & ROCE_AETH_VALUE_MASK);
}

static void receive_fatal_nak(struct requester *requester, uint64_t now, uint32_t psn,
			      uint32_t syndrome)
{
	acknowledge_before(requester, now, psn);
	end_wait(requester, now);
	requester->counters.naks++;
	fail(requester,
	     syndrome == ROCE_NAK_INVALID_REQUEST ? REQUESTER_INVALID_REQUEST
	     : syndrome == ROCE_NAK_REMOTE_ACCESS ? REQUESTER_REMOTE_ACCESS
						  : REQUESTER_REMOTE_OPERATION,
	     psn);
}

void requester_receive(struct requester *requester, uint64_t now, uint32_t psn, uint32_t syndrome,
		       uint32_t msn)
{
	const struct retransmission *ring = requester->ring;
	uint32_t kind = syndrome & ROCE_AETH_KIND_MASK;
	/* An ACK acknowledges its own PSN too, and at the last acknowledged one it may bring
	 * credit. */
	int32_t oldest = kind == ROCE_AETH_ACK && requester->acknowledged ? -1 : 0;

	if (requester->error.failure)
		return;
	if (psn > ROCE_PSN_MASK || roce_psn_diff(psn, ring->una) < oldest ||
	    roce_psn_diff(psn, ring->next) >= 0) {
		requester->counters.stale_acks++;
		return;
	}
	if (kind != ROCE_AETH_ACK && kind != ROCE_AETH_RNR && syndrome != ROCE_NAK_SEQUENCE &&
	    !roce_nak_is_fatal((uint8_t)syndrome))
		return;

	requester->syndrome = syndrome;
	if (kind == ROCE_AETH_ACK)
		receive_ack(requester, now, psn, syndrome, msn);
	else if (kind == ROCE_AETH_RNR)
		receive_rnr_nak(requester, now, psn, syndrome);
	else if (syndrome == ROCE_NAK_SEQUENCE)
		receive_sequence_nak(requester, now, psn);
	else
		receive_fatal_nak(requester, now, psn, syndrome);
}

void requester_submitted(struct requester *requester, uint64_t now, uint32_t psn)
{
	if (!(retransmission_slot(requester->ring, psn)->flags & SLOT_ACKREQ))
		return;
	if (!requester->has_ackreq) {
		requester->has_ackreq = true;
		requester->timer_psn = psn;
	}
	if (psn == requester->timer_psn)
		requester->timer_start = now;
}

void requester_let_go(struct requester *requester, uint64_t now)
{
	acknowledge_before(requester, now, requester->ring->cursor);
}

/* The packet that the timer waits for is outstanding: not in the part that is still to be replayed.
 */
static bool ack_timer_runs(const struct requester *requester)
{
	return requester->ack_timeout && requester->has_ackreq && !requester->waiting &&
	       roce_psn_diff(requester->timer_psn, requester->ring->cursor) < 0;
}

uint64_t requester_deadline(const struct requester *requester)
{
	if (requester->waiting)
		return requester->wait_end;
	if (ack_timer_runs(requester))
		return requester->timer_start + requester->ack_timeout;
	return REQUESTER_NEVER;
}

void requester_tick(struct requester *requester, uint64_t now)
{
	if (requester_deadline(requester) > now)
		return;
	if (requester->waiting) {
		end_wait(requester, now);
		start_probe(requester, true);
		return;
	}
	if (!ack_timer_runs(requester))
		return;
	requester->counters.timeouts++;
	if (requester->retries >= requester->retry) {
		fail(requester, REQUESTER_RETRY_EXCEEDED, requester->ring->una);
		return;
	}
	requester->retries++;
	requester->restarted = false;
	start_probe(requester, requester->probing && requester->rnr_probe);
}

bool requester_may_send(const struct requester *requester, uint32_t *end)
{
	const struct retransmission *ring = requester->ring;

	if (requester->error.failure || requester->waiting)
		return false;
	if (!requester->probing) {
		*end = roce_psn_add(ring->una, ring->size);
		return true;
	}
	*end = requester->probe_end;
	return ring->cursor != requester->probe_end;
}
