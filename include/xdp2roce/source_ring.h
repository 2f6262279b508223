/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The source ring: how payload gets from one producer to one worker.
 *
 * A single-producer single-consumer ring in shared memory, one layout for every source. It lives in
 * the producer's own memfd, sealed against shrinking and growing, so that the worker can read a
 * hostile producer's ring without fear of SIGBUS. Everything in it is untrusted for the consumer:
 * it reads each field once and checks it.
 *
 *   page 0              data area, `size` bytes, a power of two
 *   ┌──────────────┐    ┌─────────┬─────────────┬─────────┬──────────┬──────┬─────────────┐
 *   │ head  tail … │    │ message │ payload     │ message │ payload  │ skip │      …      │
 *   └──────────────┘    └─────────┴─────────────┴─────────┴──────────┴──────┴─────────────┘
 *
 * A record is a 64-byte struct source_message followed by its payload, padded to a multiple of 64.
 * It is contiguous: when it does not fit before the end of the data area, a record whose length is
 * SOURCE_SKIP fills the rest and the message starts at offset 0. head and tail count bytes of the
 * data area since the ring was made and never wrap (64 bit); offset = count & (size − 1).
 *
 * The producer reserves the whole record (moves head) when the message starts, declares its length
 * then, and moves `committed` up as payload arrives, so that a long message streams out while it is
 * filled. The consumer moves tail past the record when it has taken the whole message, not before:
 * the space of a message is not reused while any byte of it may still be read.
 */
#ifndef XDP2ROCE_SOURCE_RING_H
#define XDP2ROCE_SOURCE_RING_H

#include <linux/types.h>

#define SOURCE_RING_MAGIC 0x52325258u /* "XR2R" */
#define SOURCE_RING_VERSION 1
#define SOURCE_RING_HEADER 4096 /* bytes before the data area */
#define SOURCE_SKIP (~0ull)     /* length of a record that only fills the rest of the area */
#define SOURCE_END (1ull << 63) /* in committed: no more payload follows in this message */

struct source_ring_header {
	/* Written once by the producer, before anyone else sees the ring. */
	__u32 magic;
	__u32 version;
	__u64 size; /* bytes of the data area, a power of two, at least 4096 */
	__u8 reserved[48];
	/* Written by the producer. */
	__u64 head __attribute__((aligned(64)));
	__u32 closed;         /* 1: no message follows after head; 2: the source failed */
	__u32 producer_waits; /* set by the producer before it sleeps for space, taken by the
				 consumer */
	/* Written by the consumer. */
	__u64 tail __attribute__((aligned(64)));
	__u32 consumer_waits; /* set by the consumer before it sleeps for payload, taken by the
				 producer */
};

struct source_message {
	__u64 length;    /* declared payload bytes, or SOURCE_SKIP */
	__u64 committed; /* payload bytes that may be read, with SOURCE_END when it is final */
	__u8 reserved[48];
} __attribute__((aligned(64)));

/* Bytes that a message of `length` payload bytes takes in the data area. */
static inline __u64 source_record_size(__u64 length)
{
	return sizeof(struct source_message) + ((length + 63) & ~63ull);
}

#endif
