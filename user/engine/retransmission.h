/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retransmission ring: the packets in flight of one queue pair, one slot each, indexed by PSN.
 *
 *        una                cursor               next
 *   ──────┼───────────────────┼───────────────────┼──────────────▶ PSN
 *  acked  │ awaiting an ACK   │ to be replayed    │ not built yet
 *
 * una ≤ cursor ≤ next, and next − una ≤ size. cursor = next when nothing is being replayed. A slot
 * may be built anew when its PSN is acknowledged and every descriptor submitted for it has
 * completed.
 */
#ifndef USER_ENGINE_RETRANSMISSION_H
#define USER_ENGINE_RETRANSMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/error.h>
#include <xdp2roce/roce.h>

#define RETRANSMISSION_MIN 16u
#define RETRANSMISSION_MAX 32768u

enum slot_flag {
	SLOT_ACKREQ = 1,
	SLOT_LAST = 2, /* last packet of a message */
};

struct slot {
	uint16_t start;       /* of the frame, bytes from the start of the slot */
	uint16_t length;      /* of the frame, bytes */
	uint16_t payload;     /* bytes of payload, pad not counted */
	uint16_t outstanding; /* descriptors submitted and not completed */
	uint32_t quiet;       /* value of quiet at the last submission */
	uint16_t sent;        /* times submitted; stays at its largest value */
	uint8_t flags;
};

struct retransmission {
	uint8_t *memory; /* size slots of stride bytes; the caller's */
	struct slot *slots;
	uint32_t stride;
	uint32_t size; /* packets, a power of two */
	uint32_t una, cursor, next;
	uint32_t quiet; /* times that nothing at all was outstanding on the socket */
	/*
	 * Completions may name another frame than the one that left, and the kernel may still read
	 * the bytes after the submission (virtio_net before 6.18): a slot that was replayed, and
	 * any of UC, whose packets nobody acknowledges, waits for a quiet socket.
	 */
	bool positional_completions;
	bool uc;
};

int retransmission_open(struct retransmission *ring, uint8_t *memory, uint32_t stride,
			uint32_t size, uint32_t start_psn, struct error *error);
void retransmission_close(struct retransmission *ring);

static inline uint32_t retransmission_index(const struct retransmission *ring, uint32_t psn)
{
	return psn & (ring->size - 1);
}

static inline struct slot *retransmission_slot(const struct retransmission *ring, uint32_t psn)
{
	return &ring->slots[retransmission_index(ring, psn)];
}

static inline uint8_t *retransmission_bytes(const struct retransmission *ring, uint32_t psn)
{
	return ring->memory + (uint64_t)retransmission_index(ring, psn) * ring->stride;
}

/* Packets built and not acknowledged. */
static inline uint32_t retransmission_in_flight(const struct retransmission *ring)
{
	return (ring->next - ring->una) & ROCE_PSN_MASK;
}

static inline bool retransmission_replaying(const struct retransmission *ring)
{
	return ring->cursor != ring->next;
}

/* May the slot of next be built now? */
bool retransmission_has_room(const struct retransmission *ring);

/* First PSN from una on, before next, whose packet carries AckReq. Returns false when there is
 * none. */
bool retransmission_first_ackreq(const struct retransmission *ring, uint32_t *psn);

#endif
