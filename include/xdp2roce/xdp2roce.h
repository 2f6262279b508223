/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a receiver of xdp2roce streams finds in its memory.
 *
 * Target memory is a ring of N equal slots: message k is written to slot k mod N, from its start.
 * With immediates the immediate is the low 32 bits of k. With records the last 64 bytes of the slot
 * hold a struct xdp2roce_record that is written after the payload: usable payload is then slot size
 * − 64.
 *
 * A reader of a UC slot, which may be overwritten at any time, copies the payload out, then checks
 * the CRC of its copy.
 */
#ifndef XDP2ROCE_XDP2ROCE_H
#define XDP2ROCE_XDP2ROCE_H

#include <stddef.h>
#include <stdint.h>

#define XDP2ROCE_RECORD_SIZE 64u
#define XDP2ROCE_RECORD_MAGIC 0x52433258u /* "X2CR" in memory */
#define XDP2ROCE_RECORD_VERSION 1

enum xdp2roce_record_flag {
	XDP2ROCE_RECORD_SHORT = 1, /* the source ended before the declared length */
};

/* Every field is little-endian. */
struct xdp2roce_record {
	uint32_t magic;
	uint16_t version;
	uint16_t flags;
	uint32_t stream;  /* number of the stream at its sender */
	uint32_t crc;     /* CRC-32C (iSCSI) of the payload, length bytes */
	uint64_t message; /* k, counted from 0 */
	uint64_t tai_ns;  /* CLOCK_TAI when the message's first byte was there, ns since 1970 */
	uint64_t length;  /* payload bytes that the source delivered */
	uint64_t missing; /* packets that the source knows it lost */
	uint8_t reserved[16];
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct xdp2roce_record) == XDP2ROCE_RECORD_SIZE, "a record is 64 bytes");

/*
 * Receiving in a program of one's own: link with libxdp2roce.a.
 */

/* A finished message. Everything in it is valid until the callback returns. */
struct xdp2roce_message {
	const char *stream;  /* the sender's name for the stream: printable, trusted with nothing */
	const char *peer;    /* the sender's address and port */
	uint64_t number;     /* k, counted from 0 */
	const void *payload; /* in the slot; UC with records: in a checked copy */
	uint64_t length;     /* bytes */
};

/*
 * Called for every message in order, from one thread per stream. The slot is released when it
 * returns: until then RC holds the sender back when its slots are used up. 0 to go on; anything
 * else ends this stream, and its sender is told.
 */
typedef int xdp2roce_on_message(void *context, const struct xdp2roce_message *message);

/* All zero is a receiver with an RDMA device, on every address and the default port, of one stream.
 */
struct xdp2roce_receive_config {
	const char
		*listen; /* "ADDR", "ADDR:PORT", "[IPv6]:PORT"; NULL: every address, port 18515 */
	int soft;        /* receive in software: no RDMA device is needed */
	const char *device; /* name of the RDMA device; NULL: the one with the address */
	uint64_t streams;   /* return after so many; 0: one */
	int endless;        /* return only when stop_fd is readable */
	uint32_t slots;     /* of each stream, 2…65536; 0: 16 */
	uint64_t slot_size; /* bytes, a multiple of 64; 0: what the sender's messages need */
	uint64_t memory;    /* most bytes of slots, all streams together; 0: 1 GiB */
	uint32_t rnr_timer; /* AETH code 1…31; 0: 12, 0.64 ms */
	int stop_fd; /* the receiver ends when it becomes readable, and reads it once; −1: never */
};

/*
 * Receives until the streams have ended. Blocks; any number of threads may be in it, on different
 * ports. 0 when all of every stream arrived and was taken; else a negative errno, with one sentence
 * in error (error_size bytes; may be NULL with 0). Installs no signal handler, prints nothing.
 */
int xdp2roce_receive(const struct xdp2roce_receive_config *config, xdp2roce_on_message *on_message,
		     void *context, char *error, size_t error_size);

#endif
