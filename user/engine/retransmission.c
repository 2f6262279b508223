/* SPDX-License-Identifier: BSD-2-Clause */
#include "retransmission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int retransmission_open(struct retransmission *ring, uint8_t *memory, uint32_t stride,
			uint32_t size, uint32_t start_psn, struct error *error)
{
	if (size < RETRANSMISSION_MIN || size > RETRANSMISSION_MAX || (size & (size - 1)))
		return error_set(error, EINVAL,
				 "ring is %u packets, expected a power of two from %u to %u", size,
				 RETRANSMISSION_MIN, RETRANSMISSION_MAX);
	memset(ring, 0, sizeof(*ring));
	ring->slots = calloc(size, sizeof(*ring->slots));
	if (!ring->slots)
		return error_set(error, ENOMEM, "no memory for a ring of %u packets", size);
	ring->memory = memory;
	ring->stride = stride;
	ring->size = size;
	ring->una = ring->cursor = ring->next = start_psn;
	return 0;
}

void retransmission_close(struct retransmission *ring)
{
	free(ring->slots);
	ring->slots = NULL;
}

bool retransmission_has_room(const struct retransmission *ring)
{
	const struct slot *slot = retransmission_slot(ring, ring->next);

	if (retransmission_in_flight(ring) == ring->size || slot->outstanding)
		return false;
	if (ring->positional_completions && slot->sent > (ring->uc ? 0 : 1))
		return slot->quiet != ring->quiet;
	return true;
}

bool retransmission_first_ackreq(const struct retransmission *ring, uint32_t *psn)
{
	/* AckReq stands at the latest on every sixteenth packet: the walk is short. */
	for (uint32_t p = ring->una; p != ring->next; p = roce_psn_add(p, 1)) {
		if (retransmission_slot(ring, p)->flags & SLOT_ACKREQ) {
			*psn = p;
			return true;
		}
	}
	return false;
}
