/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs_ledger.h"

#include <errno.h>
#include <stdlib.h>

int verbs_ledger_open(struct verbs_ledger *ledger, uint32_t slot_count, struct error *error)
{
	*ledger = (struct verbs_ledger){ .slot_count = slot_count };
	if (slot_count < 2)
		return error_set(
			error, EINVAL,
			"messages with immediates need at least 2 slots, one is kept back");
	ledger->messages = calloc(slot_count, sizeof(*ledger->messages));
	return ledger->messages ? 0
				: error_set(error, ENOMEM, "no memory for the books of %u slots",
					    slot_count);
}

void verbs_ledger_close(struct verbs_ledger *ledger)
{
	free(ledger->messages);
	ledger->messages = NULL;
}

uint32_t verbs_ledger_room(const struct verbs_ledger *ledger)
{
	uint64_t held = ledger->completed - ledger->released + ledger->posted;

	return held < ledger->slot_count - 1 ? (uint32_t)(ledger->slot_count - 1 - held) : 0;
}

int verbs_ledger_complete(struct verbs_ledger *ledger, uint32_t immediate, uint32_t length)
{
	uint64_t number = immediate;

	if (!ledger->posted)
		return -EPROTO;
	if (ledger->completed)
		number = ledger->next_number +
			 (uint64_t)(int64_t)(int32_t)(immediate - (uint32_t)ledger->next_number);
	ledger->messages[ledger->completed % ledger->slot_count] = (struct receiver_message){
		.number = number,
		.slot = (uint32_t)(number % ledger->slot_count),
		.length = length,
	};
	ledger->next_number = number + 1;
	ledger->posted--;
	ledger->completed++;
	ledger->bytes += length;
	return 0;
}

struct receiver_message verbs_ledger_message(const struct verbs_ledger *ledger, uint64_t n)
{
	return ledger->messages[n % ledger->slot_count];
}

void verbs_ledger_release(struct verbs_ledger *ledger, uint64_t n)
{
	ledger->released = n;
}
