/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One run of `xdp2roce send`: from the sources and the receiver's name to delivered streams.
 *
 * sender_open takes what it needs step by step, in the order in which a mistake is cheapest to
 * report: sources, route, claim on the interface, receiver, XDP program, socket. sender_close gives
 * all of it back, wherever sender_open stopped.
 */
#ifndef USER_CLI_SENDER_H
#define USER_CLI_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#include "../connect/exchange.h"
#include "../connect/route.h"
#include "../daemon/worker.h"
#include "../daemon/xdp_program.h"
#include "../source/source.h"

struct peer;
struct sender_perftest;

struct sender_options {
	const struct peer *peer; /* what the receiver is */
	const char *host;
	uint16_t port;
	const char *interface; /* NULL: the route's */
	uint32_t queue;
	const struct source_config *sources;
	uint32_t source_count; /* 1…WORKER_STREAMS */
	bool immediate;
	bool uc;              /* transport: UC, else RC */
	bool packet_mode;     /* segmentation: packet, else message */
	bool record;          /* every message ends with a record */
	uint32_t pmtu;        /* bytes, 0: the largest that the interface carries */
	uint32_t ring;        /* packets */
	uint64_t ack_timeout; /* ns */
	uint32_t retry, rnr_retry;
	bool fixed_start_psn;
	uint32_t start_psn;
	uint32_t dscp, ecn, ttl;
	uint32_t vlan_id, vlan_pcp; /* vlan_id 0: no tag */
};

enum sender_phase {
	SENDER_STREAMING,
	SENDER_DELIVERED, /* all acknowledged; the receiver's part in the end is awaited */
	SENDER_FINISHED,
	SENDER_FAILED,
};

struct sender_stream {
	char name[EXCHANGE_NAME];
	struct source *source;
	uint64_t total_bytes; /* 0: not known */
	int control;          /* connection of this stream alone, −1 for none */
	bool control_lost;    /* the receiver closed its connection while data was on the way */
	uint64_t lost_at;     /* ns */
	bool done_sent;       /* our count; the receiver's is awaited */
	uint64_t deadline;    /* of the receiver's count, ns */
	bool refused; /* by a receiver that takes no RDMA Writes: it answered, that is all */
	struct exchange_answer answer;
	enum sender_phase phase;
	struct stream_status status;
	struct error error; /* why the stream failed */
};

struct sender {
	const struct sender_options *options;
	struct route route;
	uint8_t remote_ip[16];
	uint32_t pmtu;
	int claim, guard;
	struct xdp_program program;
	bool program_open;
	struct worker worker;
	bool worker_open;
	struct sender_perftest *perftest; /* with such a peer */
	struct sender_stream *streams;
	uint32_t stream_count;
	uint64_t started, finished; /* ns */
	bool draining;
};

int sender_open(struct sender *sender, const struct sender_options *options, struct error *error);
int sender_start(struct sender *sender, struct error *error);

/* Looks at every stream and moves it on. Returns how many are neither finished nor failed. */
uint32_t sender_poll(struct sender *sender);

/* No new messages: streams end when what was started is delivered. */
void sender_drain(struct sender *sender);
/* Whatever still runs has failed: stopped by the user. */
void sender_stop(struct sender *sender);

void sender_close(struct sender *sender);

/* Is this kernel release new enough? -ENOSYS with a sentence when not. */
int sender_check_kernel(const char *release, uint32_t pmtu, struct error *error);

#endif
