/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packetizer: cuts a message into PMTU packets, and writes BTH, RETH and ImmDt before the payload.
 *
 * Message mode: First, Middle…, Last, or Only, with one RETH; the length is declared when the
 * message starts, and payload that ends early is filled with zeros to that length. Packet mode:
 * every packet is a Write Only with its own RETH; the length need not be known. When the end
 * becomes known only after a full packet has left, a Write Only of length 0 ends the message.
 * Record: a Write Only of 64 bytes to the end of the slot (<xdp2roce/xdp2roce.h>) ends the message,
 * in both modes. The packet that ends the message carries the immediate, if there are immediates.
 *
 * Target memory is a ring of equal slots: message k goes to slot k mod slot_count, its immediate is
 * the low 32 bits of k.
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
	uint32_t stream;  /* in the record */
	bool immediate;   /* every message ends with an immediate */
	bool uc;          /* Unreliable Connection, else Reliable Connection */
	bool packet_mode; /* else message mode */
	bool record;      /* every message ends with a record */

	/* The current message. */
	uint64_t message; /* its number k, counted from 0 */
	uint64_t tai_ns;  /* for its record */
	uint32_t length;  /* declared bytes; in packet mode the most that it can have */
	uint32_t built;   /* bytes that are in packets */
	uint32_t crc;     /* CRC-32C of what is in packets, not yet inverted */
	bool in_message;
	bool first; /* nothing of it is built */

	/* Its payload: built … available may be read. */
	const uint8_t *payload;
	uint32_t available;
	bool ended; /* available is final */
};

/* What the next packet will be. */
struct packet_plan {
	uint32_t length; /* of its payload, bytes */
	bool first;      /* begins a write: First or Only, with RETH */
	bool last;       /* ends a write: Last or Only */
	bool consumes; /* the write that it belongs to takes a receive: it ends with an immediate */
	bool record;   /* it is the record */
	bool end;      /* it ends the message */
};

/* A packet as it lies in its slot, before the framer completes it. */
struct packet {
	uint8_t *transport;     /* BTH */
	uint32_t transport_len; /* BTH to pad, bytes */
};

/* Starts message k with this many bytes; none may be open. */
void packetizer_start(struct packetizer *packetizer, uint32_t length);

/* The next packet of the open message. False while the payload for it is not there. */
bool packetizer_plan(const struct packetizer *packetizer, struct packet_plan *plan);

/*
 * Builds the packet that was planned into a slot. After the one that ends the message in_message is
 * false, and message counts on.
 */
struct packet packetizer_build(struct packetizer *packetizer, const struct packet_plan *plan,
			       uint8_t *slot, uint32_t psn, bool ackreq);

#endif
