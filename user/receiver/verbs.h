/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One stream received by an RDMA device, hardware or soft-RoCE, through libibverbs. The sender's
 * RDMA Writes land in the stream's slots without this process; an immediate that ends a message
 * completes one receive and tells it.
 *
 * A stream owns all that it uses of the device (context, protection domain, completion queue,
 * memory region, queue pair), so streams share nothing and a failing one takes no other along. All
 * functions of a stream are for one thread at a time.
 */
#ifndef USER_RECEIVER_VERBS_H
#define USER_RECEIVER_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#include "message.h"

#define VERBS_NAME 64

struct verbs;

/* Which device, port and GID receive. */
struct verbs_choice {
	char device[VERBS_NAME]; /* empty: the one that has the address */
	uint8_t port;            /* 0: likewise */
	int16_t gid_index;       /* −1: likewise */
	uint8_t ip[16];          /* the address that the sender knows; IPv4 as ::ffff:a.b.c.d */
	uint32_t ifindex;        /* of the interface that has it, 0: not known */
};

struct verbs_config {
	struct verbs_choice choice;
	uint32_t peer_qpn;
	uint32_t psn; /* the first one expected */
	uint8_t peer_ip[16];
	bool uc;               /* else RC */
	bool immediate;        /* post receives by the N−1 rule; a stream without has none */
	uint32_t pmtu;         /* 256, 512, 1024, 2048, 4096 */
	uint64_t message_size; /* the largest message */
	uint64_t slot_size;
	uint32_t slot_count; /* at least 2 with immediates, else at least 1 */
	uint8_t rnr_timer;   /* code 0…31; RC only */
	/* slot_size·slot_count bytes, page-aligned, the caller's, until verbs_close(). */
	void *memory;
	/*
	 * Instead of it a dma-buf, such as one that exports a GPU's memory: its descriptor, which
	 * is not kept, and where in it the slots start. memory is then not used and may be NULL;
	 * who can reach the buffer reads the slots.
	 */
	bool dmabuf;
	int dmabuf_fd;
	uint64_t dmabuf_offset;
};

/* What the sender needs to know, and where it is received. */
struct verbs_address {
	uint32_t qpn;
	uint32_t psn; /* the first one we would send */
	uint32_t rkey;
	uint64_t address;
	uint8_t ip[16]; /* of the GID */
	char device[VERBS_NAME];
	uint8_t port;
	uint8_t gid_index;
};

/* Can the device that the choice names, or any, be used at all? Its ip is not looked at. */
int verbs_check(const struct verbs_choice *choice, struct error *error);

int verbs_open(struct verbs **verbs, const struct verbs_config *config,
	       struct verbs_address *address, struct error *error);
/* Ends the queue pair, and only then gives back its memory. NULL is fine. */
void verbs_close(struct verbs *verbs);

/* A descriptor that becomes readable when verbs_collect() has something to do. */
int verbs_event(const struct verbs *verbs);
/*
 * Takes in what has happened, without waiting: *completed is the number of messages since open. A
 * negative errno with a sentence when the queue pair has failed; it receives nothing more.
 */
int verbs_collect(struct verbs *verbs, uint64_t *completed, struct error *error);
/*
 * Asks the device whether the queue pair is still alive, which takes a system call; the next
 * verbs_collect() fails when it is not. Soft-RoCE refuses an access without telling this end.
 */
void verbs_ask(struct verbs *verbs);
/* The n-th message, n from 0; it must be collected and not released. */
struct receiver_message verbs_message(const struct verbs *verbs, uint64_t n);
/* The reader is done with every message before the n-th: as many receives are posted again. */
void verbs_release(struct verbs *verbs, uint64_t n);
/* Payload bytes of the messages collected. */
uint64_t verbs_bytes(const struct verbs *verbs);

#endif
