/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker: one thread, one AF_XDP socket, any number of streams. One turn:
 *
 *   take bitmap words ─▶ requester ─▶ completions ─▶ payload from the source rings ─▶ timers
 *        ─▶ a batch of frames, the streams in turn ─▶ highest PSNs, then one kick
 *
 * The thread makes no call that can block, but for its own sleep: when a while passes without
 * anything to do, it sleeps until an ACK, payload or a timer is due.
 *
 * Set up and torn down by one other thread: open, add, start, …, stop, close.
 */
#ifndef USER_DAEMON_WORKER_H
#define USER_DAEMON_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#include "../xsk/xsk.h"
#include "stream.h"
#include "xdp_program.h"

#define WORKER_STREAMS 62u /* indexes 2…63: one word of the bitmap */

struct worker {
	struct xdp_program *program;
	struct xsk *xsk;
	uint32_t index;
	struct stream *streams; /* [capacity] */
	uint32_t stream_count, capacity;
	uint64_t umem_bytes, umem_used;
	uint16_t *owners; /* stream of each 64 KiB of the UMEM */
	uint8_t generations[WORKER_STREAMS];
	uint32_t turn_start; /* the stream that the next batch starts with */
	bool positional_completions;
	bool drain; /* start no new message */
	bool stop;
	bool kick_pending; /* the kernel took a part of the last batch */
	int wake_event;    /* for the setting-up thread */
	int poll_set;      /* epoll of all that can wake the worker */
	pthread_t thread;
	bool started;
};

struct worker_config {
	struct xdp_program *program;
	uint32_t index; /* 0…ACK_MAP_WORKERS − 1 */
	const char *interface;
	uint32_t queue;
	uint32_t streams;    /* at most WORKER_STREAMS */
	uint64_t umem_bytes; /* the rings of all streams */
	bool multi_buffer;   /* a stream has PMTU 4096 */
};

int worker_open(struct worker *worker, const struct worker_config *config, struct error *error);

/* The QPN of the next stream to be added: to be told to the receiver before. */
uint32_t worker_next_qpn(const struct worker *worker);

/* UMEM that a stream needs, bytes. */
uint64_t worker_stream_bytes(uint32_t pmtu, uint32_t ring);

/* config's local_qpn, chunk and positional_completions are set here. */
int worker_add(struct worker *worker, struct qp_config *config, const struct source_ring *source,
	       const uint8_t local_ip[16], const uint8_t remote_ip[16], struct error *error);

int worker_start(struct worker *worker, struct error *error);
/* Ends one stream as it is, within 20 ms: no frame of it is sent any more. */
void worker_abandon(struct worker *worker, uint32_t index);
/* No new messages from now on; what is open is finished. */
void worker_drain(struct worker *worker);
/* Ends the thread; frames that the socket still holds get a moment to leave. */
void worker_stop(struct worker *worker);
void worker_close(struct worker *worker);

/* Monotone time, ns. */
uint64_t worker_now(void);

#endif
