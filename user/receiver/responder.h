/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A RoCEv2 responder for RDMA Writes, in software and without I/O: one Ethernet frame in, at most
 * one acknowledgement out, payload copied into the queue pair's slots. As strict as a strict RDMA
 * NIC.
 *
 * Memory of a QP: slot_count equal slots, one after the other, that the peer sees at (address,
 * rkey). A stream with immediates posts receives by the N−1 rule: posted receives plus slots that
 * the reader has not released are at most slot_count − 1, so that a message which arrives ahead of
 * its receive cannot reach a slot that is being read. Immediate k completes slot k mod slot_count.
 *
 * Threads: everything but the three responder_reader_… functions belongs to one thread, the frame
 * thread. The reader functions of one QP may be called by one other thread while the QP is open:
 * they share two counters with the frame thread, and neither waits for the other.
 */
#ifndef USER_RECEIVER_RESPONDER_H
#define USER_RECEIVER_RESPONDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#include "message.h"
#include "responder_frame.h"

#define RESPONDER_CREDITS_POSTED 0xFF /* advertise the receives that are really posted */

struct responder;
struct responder_qp;

struct responder_config {
	uint32_t qpn; /* ours, 2…0xFFFFFF; unique in the responder */
	uint32_t peer_qpn;
	uint32_t psn;   /* the first one expected */
	uint8_t ip[16]; /* ours; IPv4 as ::ffff:a.b.c.d */
	uint8_t peer_ip[16];
	bool uc;        /* else RC */
	bool immediate; /* post receives; a stream without has none, and an immediate waits for ever
			 */
	uint32_t pmtu;  /* 256, 512, 1024, 2048, 4096 */
	uint64_t address; /* the range address…address + slot_size·slot_count does not wrap */
	uint32_t rkey;
	void *memory; /* slot_size·slot_count bytes, the caller's, until responder_close() */
	uint64_t slot_size;
	uint32_t slot_count; /* at least 2 with immediates, else at least 1 */
	uint8_t credits;     /* AETH code 0…31 (31: unlimited), or RESPONDER_CREDITS_POSTED */
	uint8_t rnr_timer;   /* code 0…31 */
};

enum responder_state {
	RESPONDER_READY,
	RESPONDER_ERROR, /* after a fatal NAK: silence */
};

struct responder_counters {
	uint64_t messages; /* whole, in order */
	uint64_t bytes;    /* payload of those */
	uint64_t frames;   /* executed */
	uint64_t acks;
	uint64_t naks; /* RNR NAKs not included */
	uint64_t rnr_naks;
	uint64_t gaps;       /* RC: frames ahead of the expected PSN. UC: jumps of the PSN */
	uint64_t duplicates; /* RC only: frames behind the expected PSN */
	uint64_t bad_icrc;
	uint64_t bad_frames; /* wrong class, peer or length for its headers; responses */
	uint64_t dropped;    /* UC: frames of messages that were given up */
};

/* Room for qps queue pairs. */
int responder_create(struct responder **responder, uint32_t qps, struct error *error);
void responder_destroy(struct responder *responder); /* closes what is open; NULL is fine */

int responder_open(struct responder *responder, const struct responder_config *config,
		   struct responder_qp **qp, struct error *error);
void responder_close(struct responder *responder, struct responder_qp *qp);

/*
 * Handles one frame that arrived at now_ns (any monotonic clock). Returns the length of the reply
 * written to reply (RESPONDER_REPLY_MAX bytes), 0 for none. *completed is set to the QP when the
 * frame completed a message, else to NULL. Neither allocates nor blocks.
 */
uint32_t responder_receive(struct responder *responder, const uint8_t *bytes, size_t length,
			   uint64_t now_ns, uint8_t *reply, struct responder_qp **completed);

/* No receive is available before until_ns: a stall of the application. */
void responder_withhold(struct responder_qp *qp, uint64_t until_ns);

enum responder_state responder_state(const struct responder_qp *qp);
const struct responder_counters *responder_counters(const struct responder_qp *qp);
/* Frames that belong to no open QP, or are no RoCEv2 frames at all. */
uint64_t responder_foreign_frames(const struct responder *responder);

/* Messages completed since open. Their contents are visible to the caller. */
uint64_t responder_reader_completed(const struct responder_qp *qp);
/*
 * The n-th of them, n from 0. With immediates any that is not released; without, any of the last
 * slot_count, while no further frame arrives.
 */
struct receiver_message responder_reader_message(const struct responder_qp *qp, uint64_t n);
/* The reader is done with every message before the n-th: as many receives may be posted again. */
void responder_reader_release(struct responder_qp *qp, uint64_t n);

#endif
