/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packetizer: cuts a message into PMTU packets, and writes BTH, RETH and ImmDt before the payload.
 *
 * Message mode: the length is declared when the message starts; one RETH in the first packet.
 * Payload that ends early is filled with zeros to that length. Target memory is a ring of equal
 * slots: message k goes to slot k mod slot_count, its immediate is the low 32 bits of k.
 */
#ifndef USER_ENGINE_PACKETIZER_H
#define USER_ENGINE_PACKETIZER_H

#include <stdbool.h>
#include <stdint.h>

struct packetizer {
	/* Fixed at open. */
	uint32_t pmtu; /* bytes */
	uint32_t remote_qpn;
	uint32_t rkey;
	uint64_t remote_address;
	uint64_t slot_size; /* bytes */
	uint32_t slot_count;
	bool immediate; /* every message ends with an immediate */
	bool uc;        /* Unreliable Connection, else Reliable Connection */

	/* The current message. */
	uint64_t message; /* its number k, counted from 0 */
	uint32_t length;  /* declared bytes */
	uint32_t built;   /* bytes that are in packets */
	bool in_message;
	bool first; /* the next packet is the message's first */

	/* Its payload: built … available may be read. */
	const uint8_t *payload;
	uint32_t available;
	bool ended; /* available is final */
};

/* A packet as it lies in its slot, before the framer completes it. */
struct packet {
	uint8_t *transport;     /* BTH */
	uint32_t transport_len; /* BTH to pad, bytes */
	uint32_t payload;       /* bytes, pad not counted */
	bool last;              /* of its message */
};

/* Starts message k + 1 with this many bytes; none may be open. */
void packetizer_start(struct packetizer *packetizer, uint32_t length);

/* Can the next packet be built from what is available? */
bool packetizer_ready(const struct packetizer *packetizer);

/* Is the next packet the last one of its message? */
bool packetizer_at_last(const struct packetizer *packetizer);

/*
 * Builds the next packet into a slot; packetizer_ready and an open message are required. After the
 * last packet of a message in_message is false.
 */
struct packet packetizer_build(struct packetizer *packetizer, uint8_t *slot, uint32_t psn,
			       bool ackreq);

#endif
