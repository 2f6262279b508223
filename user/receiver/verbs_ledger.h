/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The books of a queue pair whose messages end with an immediate: which receives are posted, which
 * messages are complete, which slots the reader still holds. No I/O.
 *
 * The N−1 rule: posted receives plus slots that are not released never exceed slot_count − 1. The
 * First and Middle packets of a message land before the device looks for its receive, so the slot
 * after the last posted one must not be the one that is being read.
 */
#ifndef USER_RECEIVER_VERBS_LEDGER_H
#define USER_RECEIVER_VERBS_LEDGER_H

#include <stdint.h>

#include <xdp2roce/error.h>

#include "message.h"

struct verbs_ledger {
	uint32_t slot_count;
	uint32_t posted;
	uint64_t completed; /* messages since open */
	uint64_t released;  /* of them */
	uint64_t bytes;     /* payload of the completed ones */
	uint64_t next_number;
	struct receiver_message *messages; /* slot_count of them: the n-th is at n mod slot_count */
};

int verbs_ledger_open(struct verbs_ledger *ledger, uint32_t slot_count, struct error *error);
void verbs_ledger_close(struct verbs_ledger *ledger);

/* Receives that may be posted now; the caller adds what it did post to posted. */
uint32_t verbs_ledger_room(const struct verbs_ledger *ledger);
/*
 * A receive was completed by a message. -EPROTO when none was posted. The immediate is the low half
 * of the message's number: the first one is taken as it is, later ones by their distance.
 */
int verbs_ledger_complete(struct verbs_ledger *ledger, uint32_t immediate, uint32_t length);
/* The n-th message, n from released to completed − 1. */
struct receiver_message verbs_ledger_message(const struct verbs_ledger *ledger, uint64_t n);
/* The reader is done with every message before the n-th, n at most completed. */
void verbs_ledger_release(struct verbs_ledger *ledger, uint64_t n);

#endif
