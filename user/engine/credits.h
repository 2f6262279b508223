/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * End-to-end flow control by AETH credits: how many messages that consume a receive may be started.
 *
 * Messages are numbered SSN = 1, 2, 3… (24 bits). A limited ACK sets LSN = max(LSN, MSN + credits).
 * A message that consumes a receive (write with immediate) may start when SSN ≤ LSN + 1. The one
 * message with SSN = LSN + 1 goes without credit: its first packet carries AckReq, and the rest
 * waits until that packet is answered, or credit arrives. A plain write is not limited and moves
 * LSN up with SSN. The first ACK with credits 31 makes the queue pair unlimited for good.
 */
#ifndef USER_ENGINE_CREDITS_H
#define USER_ENGINE_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

struct credits {
	uint32_t ssn; /* of the next message */
	uint32_t lsn;
	bool unlimited;
};

void credits_init(struct credits *credits);

/* May the next message start, given whether it consumes a receive? */
bool credits_allow(const struct credits *credits, bool consumes);

/* The next message starts. Returns true when it goes without credit: one packet, then wait. */
bool credits_take(struct credits *credits, bool consumes);

/* Is the message that was started last within the limit now? */
bool credits_cover(const struct credits *credits);

/* An ACK (syndrome 0x00…0x1F) arrived. */
void credits_update(struct credits *credits, uint32_t msn, uint32_t syndrome);

/* Messages that may still start with credit; meaningless when unlimited. */
uint32_t credits_left(const struct credits *credits);

#endif
