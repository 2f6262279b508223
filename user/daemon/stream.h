/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream in a worker: a source ring, a queue pair, and its lines in the BPF maps.
 *
 * Opened and closed by the thread that sets the worker up, and owned by the worker's thread while
 * that runs. Other threads see it through stream_read_status alone.
 */
#ifndef USER_DAEMON_STREAM_H
#define USER_DAEMON_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "../engine/qp.h"
#include "../source/ring.h"
#include "xdp_program.h"

enum stream_end {
	STREAM_RUNNING,
	STREAM_DELIVERED,     /* the source is at its end, everything is acknowledged */
	STREAM_SOURCE_FAILED, /* what the source delivered is acknowledged, but the source failed */
	STREAM_SOURCE_BROKEN, /* the source ring holds nonsense */
	STREAM_TOO_LONG,      /* a message is longer than the receiver's slot */
	STREAM_QP_ERROR,      /* see error in the status */
	STREAM_STOPPED,       /* by the user, before everything was delivered */
};

/* A snapshot; the names are those of the settings and counters table. */
struct stream_status {
	uint32_t end;   /* enum stream_end */
	uint32_t state; /* enum qp_state */
	uint32_t una_psn, next_psn, msn;
	uint32_t credits; /* UINT32_MAX: unlimited */
	uint64_t messages, bytes, frames, retransmitted_frames, short_messages;
	uint64_t started_messages; /* built or being built; the rest of them is of unknown fate */
	uint64_t acks, naks, rnr_naks, cnps, timeouts, stale_acks;
	uint64_t rnr_wait_ns, credit_wait_ns, window_wait_ns, source_wait_ns;
	struct requester_error error;
};

struct stream {
	struct qp qp;
	struct source_ring source;
	uint32_t index;      /* in the BPF maps */
	uint32_t generation; /* 1…255 */
	uint64_t umem_offset;
	struct qp_line *qp_line;
	struct ack_line *ack_line;
	uint64_t seen_ack, seen_nak, seen_rnr; /* words as they were applied last */
	uint64_t cnps;
	uint64_t
		seen_available; /* payload bytes of the open message that the queue pair knows of */
	bool taken;             /* the open message is the oldest record of the source ring */
	enum stream_end end;
	bool source_over; /* no message will come any more */
	bool submitted;   /* in this turn */
	bool unwanted;    /* set by another thread: to be stopped */

	uint32_t version; /* sequence of status: odd while it is being written */
	struct stream_status status;
};

/*
 * config.local_qpn is generation and index. The QP's memory is at umem + umem_offset. worker: who
 * is to be woken. addresses: 16 bytes each, as in the maps.
 */
int stream_open(struct stream *stream, const struct qp_config *config, uint8_t *umem,
		uint64_t umem_offset, const struct source_ring *source,
		const struct xdp_program *program, uint32_t worker, const uint8_t local_ip[16],
		const uint8_t remote_ip[16], uint64_t now, struct error *error);
/* The XDP program takes no frame for this QP from now on. Its submissions should have completed. */
void stream_close(struct stream *stream);

/* Applies what XDP wrote since the last call. */
void stream_read_acks(struct stream *stream);

/*
 * Feeds the queue pair from the source ring: gives the space of a message that is built back, opens
 * the next one, hands on what has arrived. drain: start no new message.
 */
void stream_feed(struct stream *stream, bool drain);

/* Sees whether the stream has ended. */
void stream_advance(struct stream *stream, bool drain);

/* Before sleeping: false when the source has something new. */
bool stream_arm(struct stream *stream, bool drain);

void stream_publish_status(struct stream *stream);
void stream_read_status(const struct stream *stream, struct stream_status *status);

#endif
