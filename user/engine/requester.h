/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requester: what an ACK, a NAK, an RNR NAK and a timer mean for the packets in flight.
 *
 * Rules, with their source in brackets:
 * - an ACK at PSN p acknowledges everything up to p; p before the oldest unacknowledged PSN is a
 * ghost, p not yet sent is invalid; both are dropped, but for the credits of an ACK at exactly the
 * last acknowledged PSN [hfi1 rc_rcv_resp]; before the first acknowledgement there is no such PSN,
 * and an ACK of the one before the start is bogus [rxe sends it];
 * - a fresh acknowledgement resets both retry counters and ends a probe that it covers;
 * - NAK 0x60 at p acknowledges everything before p and restarts at p, for one retry; a second one
 * at the same PSN restarts only after a timeout [rxe started_retry];
 * - RNR NAK at p acknowledges everything before p; nothing is sent for the time asked for; then
 * only the refused packet goes out, with those up to the first AckReq if it has none, until it is
 * answered; during the wait further RNR NAKs and NAK 0x60 at p are ignored and the ACK timer stands
 * still; it costs one rnr_retry, and as an answer it gives the retries back, so that a long wait on
 * a lossy path does not add up to an error;
 * - ACK timer: runs only while a packet with AckReq is outstanding, from the later of its last
 *   submission and the last fresh acknowledgement; at expiry a probe goes out: from the oldest
 *   unacknowledged packet up to the first one with AckReq, for one retry [hfi1 RVT_S_SEND_ONE];
 * - fatal NAKs (0x61…0x63) and spent retries put the queue pair into error: nothing is sent any
 * more.
 */
#ifndef USER_ENGINE_REQUESTER_H
#define USER_ENGINE_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "credits.h"
#include "retransmission.h"

#define REQUESTER_NEVER UINT64_MAX
#define RNR_RETRY_FOREVER 7

enum requester_failure {
	REQUESTER_OK,
	REQUESTER_RETRY_EXCEEDED,     /* no answer, or sequence NAKs, `retry` times in a row */
	REQUESTER_RNR_RETRY_EXCEEDED, /* receiver not ready, `rnr_retry` times in a row */
	REQUESTER_INVALID_REQUEST,
	REQUESTER_REMOTE_ACCESS,
	REQUESTER_REMOTE_OPERATION,
};

struct requester_error {
	enum requester_failure failure;
	uint32_t psn;      /* oldest unacknowledged packet, or the one that was refused */
	uint32_t tries;    /* times it was sent; 65535: or more */
	uint32_t syndrome; /* last one received, of any kind; 0x100 when there was none */
};

struct requester_counters {
	uint64_t messages; /* acknowledged */
	uint64_t bytes;    /* of payload, acknowledged */
	uint64_t acks, naks, rnr_naks, timeouts;
	uint64_t stale_acks; /* ghosts, invalid PSNs, and NAKs that changed nothing */
	uint64_t rnr_wait_ns;
};

struct requester {
	struct retransmission *ring;
	struct credits *credits;
	/* Settings, may change while running. */
	uint64_t ack_timeout; /* ns, 0: none */
	uint32_t retry;       /* 0…7 */
	uint32_t rnr_retry;   /* 0…7, 7: for ever */

	bool acknowledged;             /* something has been */
	uint32_t retries, rnr_retries; /* spent since the last fresh acknowledgement */
	bool restarted;                /* by a NAK at una, and nothing fresh since */
	bool waiting;                  /* RNR */
	uint32_t rnr_psn;              /* the PSN that was refused last */
	uint64_t wait_start, wait_end; /* ns */
	bool probing;
	bool rnr_probe;     /* the probe follows an RNR wait */
	uint32_t probe_end; /* first PSN after the probe */
	bool has_ackreq;    /* a packet with AckReq is in flight: the oldest is timer_psn */
	uint32_t timer_psn;
	uint64_t timer_start; /* ns */
	uint32_t syndrome;    /* last one received */
	uint32_t msn;         /* last one received */
	struct requester_error error;
	struct requester_counters counters;
};

void requester_open(struct requester *requester, struct retransmission *ring,
		    struct credits *credits);

/* ACK, NAK or RNR NAK as it came in; anything else in syndrome is ignored. now in ns, monotone. */
void requester_receive(struct requester *requester, uint64_t now, uint32_t psn, uint32_t syndrome,
		       uint32_t msn);

/* The packet at psn is being submitted, for the first time or again. */
void requester_submitted(struct requester *requester, uint64_t now, uint32_t psn);

/* UC: nothing is awaited. What was submitted counts as sent, and only completions hold its slots.
 */
void requester_let_go(struct requester *requester, uint64_t now);

/* When requester_tick is due, ns; REQUESTER_NEVER when no timer runs. */
uint64_t requester_deadline(const struct requester *requester);
void requester_tick(struct requester *requester, uint64_t now);

/* May packets be submitted now, and up to which PSN (exclusive)? */
bool requester_may_send(const struct requester *requester, uint32_t *end);

#endif
