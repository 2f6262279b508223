/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything that is under way in the simulation, in the order of its virtual time: frames,
 * answers, completions, releases of slots, payload. A binary heap; equal times keep the order of
 * insertion.
 */
#ifndef TESTS_UNIT_ENGINE_LINK_H
#define TESTS_UNIT_ENGINE_LINK_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine_responder.h"

#define LINK_EVENTS 65536u

enum event_kind {
	EVENT_FRAME,
	EVENT_ANSWER,
	EVENT_COMPLETION,
	EVENT_RELEASE,
	EVENT_PAYLOAD,
};

struct event {
	uint64_t time, order;
	enum event_kind kind;
	uint32_t length;
	union {
		uint8_t *frame; /* to be freed */
		struct answer answer;
		uint64_t offset;
		uint64_t available;
	};
};

struct link {
	struct event heap[LINK_EVENTS];
	uint32_t count;
	uint64_t order;
};

static inline bool event_before(const struct event *a, const struct event *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static inline void link_push(struct link *link, struct event event)
{
	uint32_t i = link->count++;

	cr_assert_lt(link->count, LINK_EVENTS);
	event.order = link->order++;
	for (; i > 0 && event_before(&event, &link->heap[(i - 1) / 2]); i = (i - 1) / 2)
		link->heap[i] = link->heap[(i - 1) / 2];
	link->heap[i] = event;
}

static inline uint64_t link_next(const struct link *link)
{
	return link->count ? link->heap[0].time : UINT64_MAX;
}

static inline struct event link_pop(struct link *link)
{
	struct event top = link->heap[0], last = link->heap[--link->count];
	uint32_t i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < link->count &&
		    event_before(&link->heap[child + 1], &link->heap[child]))
			child++;
		if (child >= link->count || !event_before(&link->heap[child], &last))
			break;
		link->heap[i] = link->heap[child];
		i = child;
	}
	link->heap[i] = last;
	return top;
}

#endif
