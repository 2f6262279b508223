/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The consumer's end of a source ring. The producer may be any process, so nothing in the shared
 * memory is believed: each field is read once, into a local, and that copy is checked and used.
 */
#include <assert.h>

#include "ring.h"
#include "wake.h"

static struct source_message *record_at(const struct source_ring *ring, uint64_t position)
{
	return (struct source_message *)(ring->data + (position & (ring->size - 1)));
}

static enum source_ring_state broken(struct source_ring *consumer)
{
	consumer->broken = true;
	return SOURCE_RING_BROKEN;
}

static void release_up_to(struct source_ring *consumer, uint64_t position)
{
	consumer->position = position;
	/* Release: our reads of the payload come before the producer's writes to the space. */
	__atomic_store_n(&consumer->header->tail, position, __ATOMIC_RELEASE);
	source_ring_wake(&consumer->header->producer_waits, consumer->space_fd);
}

/* Bytes of records between our position and head; false when head cannot be true. */
static bool read_head(const struct source_ring *consumer, uint64_t *used)
{
	uint64_t head = __atomic_load_n(&consumer->header->head, __ATOMIC_ACQUIRE);

	*used = head - consumer->position;
	return ((head | consumer->position) & 63) == 0 && *used <= consumer->size;
}

static enum source_ring_state nothing_left(struct source_ring *consumer, uint32_t closed)
{
	switch (closed) {
	case 0:
		return SOURCE_RING_EMPTY;
	case 1:
		return SOURCE_RING_CLOSED;
	case 2:
		return SOURCE_RING_FAILED;
	default:
		return broken(consumer);
	}
}

/* Finds the next record; at most one skip is passed, since none can follow it at offset 0. */
static enum source_ring_state next_message(struct source_ring *consumer)
{
	for (;;) {
		/* Before head: once it is set, head is final. */
		uint32_t closed = __atomic_load_n(&consumer->header->closed, __ATOMIC_ACQUIRE);
		uint64_t offset = consumer->position & (consumer->size - 1);
		uint64_t to_end = consumer->size - offset;
		uint64_t used, length;

		if (!read_head(consumer, &used))
			return broken(consumer);
		if (used == 0)
			return nothing_left(consumer, closed);
		length = __atomic_load_n(&record_at(consumer, consumer->position)->length,
					 __ATOMIC_RELAXED);
		if (length == SOURCE_SKIP) {
			if (offset == 0 || used < to_end)
				return broken(consumer);
			release_up_to(consumer, consumer->position + to_end);
			continue;
		}
		/* The first comparison keeps the record size from wrapping. */
		if (length > to_end || source_record_size(length) > to_end ||
		    source_record_size(length) > used)
			return broken(consumer);
		consumer->in_message = true;
		consumer->length = length;
		consumer->available = 0;
		consumer->ended = false;
		return SOURCE_RING_MESSAGE;
	}
}

static enum source_ring_state read_committed(struct source_ring *consumer)
{
	/* Acquire: the payload up to here was written before. */
	uint64_t committed = __atomic_load_n(&record_at(consumer, consumer->position)->committed,
					     __ATOMIC_ACQUIRE);
	bool ended = (committed & SOURCE_END) != 0;
	uint64_t bytes = committed & ~SOURCE_END;

	if (bytes < consumer->available || bytes > consumer->length)
		return broken(consumer);
	if (consumer->ended && (!ended || bytes != consumer->available))
		return broken(consumer);
	consumer->available = bytes;
	consumer->ended = ended;
	return SOURCE_RING_MESSAGE;
}

enum source_ring_state source_ring_peek(struct source_ring *consumer, struct source_view *view)
{
	enum source_ring_state state = SOURCE_RING_MESSAGE;

	if (consumer->broken)
		return SOURCE_RING_BROKEN;
	if (!consumer->in_message)
		state = next_message(consumer);
	if (state == SOURCE_RING_MESSAGE)
		state = read_committed(consumer);
	if (state != SOURCE_RING_MESSAGE)
		return state;
	*view = (struct source_view){
		.payload = (const uint8_t *)record_at(consumer, consumer->position) +
			   sizeof(struct source_message),
		.length = consumer->length,
		.available = consumer->available,
		.ended = consumer->ended,
	};
	return SOURCE_RING_MESSAGE;
}

void source_ring_release(struct source_ring *consumer)
{
	assert(consumer->in_message);
	consumer->in_message = false;
	release_up_to(consumer, consumer->position + source_record_size(consumer->length));
}

bool source_ring_arm(struct source_ring *consumer, uint64_t seen)
{
	struct source_view view;
	enum source_ring_state state;

	source_ring_will_wait(&consumer->header->consumer_waits);
	state = source_ring_peek(consumer, &view);
	if (state == SOURCE_RING_EMPTY ||
	    (state == SOURCE_RING_MESSAGE && view.available <= seen && !view.ended))
		return true;
	source_ring_disarm(consumer);
	return false;
}

void source_ring_disarm(struct source_ring *consumer)
{
	source_ring_awake(&consumer->header->consumer_waits, consumer->payload_fd);
}
