/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bad network and a slow application, from a seed: stands between the wire and the responder.
 * Does no I/O and reads no clock. The same seed, configuration and arrivals give the same faults.
 *
 * Frames that arrive and replies that leave are each counted from 1, retransmissions included,
 * copies made here not.
 */
#ifndef USER_RECEIVER_FAULTS_H
#define USER_RECEIVER_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#define FAULTS_WHOLE 1000000000u       /* a probability of 1 */
#define FAULTS_POSITIONS 64            /* exact positions of one kind */
#define FAULTS_HELD 64                 /* frames held back at once; further ones pass at once */
#define FAULTS_FRAME_MAX 4608          /* bytes; a longer frame is never held back */
#define FAULTS_REORDER_MAX 8           /* a reordered frame lets 1 to this many others pass */
#define FAULTS_REORDER_WAIT_NS 1000000 /* … or goes on after this time, when too few come */

struct faults_positions {
	uint32_t count;
	uint64_t position[FAULTS_POSITIONS];
};

/* Probabilities are parts of FAULTS_WHOLE. */
struct faults_config {
	uint32_t drop, duplicate, reorder, corrupt, delay; /* frames that arrive */
	uint64_t delay_ns;
	uint32_t drop_replies, corrupt_replies;
	struct faults_positions drop_frame, duplicate_frame, reorder_frame, corrupt_frame,
		delay_frame, drop_reply, corrupt_reply;
	/* Receives: none for withhold_ns after message withhold_first and every withhold_every
	 * after. */
	uint64_t withhold_ns;
	uint64_t withhold_every; /* 0: only once */
	uint64_t withhold_first;
	uint64_t seed;
};

struct faults_counters {
	uint64_t frames; /* arrived */
	uint64_t dropped, duplicated, reordered, corrupted, delayed;
	uint64_t replies; /* that were to leave */
	uint64_t dropped_replies, corrupted_replies;
	uint64_t withheld; /* times that receives were withheld */
};

struct faults;

/* Takes a frame that goes on to the responder. */
typedef void faults_deliver(void *context, const uint8_t *frame, uint32_t length, uint64_t now_ns);

int faults_create(struct faults **faults, const struct faults_config *config,
		  faults_deliver *deliver, void *context, struct error *error);
void faults_destroy(struct faults *faults); /* NULL is fine */

/* A frame from the wire. It may be changed in place, and delivered never, now or from
 * faults_tick(). */
void faults_frame(struct faults *faults, uint8_t *frame, uint32_t length, uint64_t now_ns);
/* Delivers the frames whose time has come. */
void faults_tick(struct faults *faults, uint64_t now_ns);
/* When faults_tick() is due, UINT64_MAX when nothing is held back. */
uint64_t faults_due(const struct faults *faults);

/* False when the reply is lost; otherwise it goes out as it then is. */
bool faults_reply(struct faults *faults, uint8_t *reply, uint32_t length);

/* For how long no receive is to be available now that a stream has completed its n-th message. */
uint64_t faults_withhold(struct faults *faults, uint64_t n);

const struct faults_counters *faults_counters(const struct faults *faults);

#endif
