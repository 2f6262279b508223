/* SPDX-License-Identifier: BSD-2-Clause */
/* The producer's end of a source ring. */
#include <assert.h>
#include <errno.h>
#include <poll.h>

#include "ring.h"
#include "wake.h"

static struct source_message *record_at(const struct source_ring *ring, uint64_t position)
{
	return (struct source_message *)(ring->data + (position & (ring->size - 1)));
}

static bool has_room(const struct source_ring *producer, uint64_t bytes)
{
	/* Acquire: the consumer's last reads come before our writes to the space. */
	uint64_t tail = __atomic_load_n(&producer->header->tail, __ATOMIC_ACQUIRE);
	uint64_t used = producer->position - tail;

	return used <= producer->size && bytes <= producer->size - used;
}

static void write_record(const struct source_ring *producer, uint64_t length, uint64_t committed)
{
	struct source_message *message = record_at(producer, producer->position);

	__atomic_store_n(&message->length, length, __ATOMIC_RELAXED);
	__atomic_store_n(&message->committed, committed, __ATOMIC_RELAXED);
}

static void publish_head(struct source_ring *producer, uint64_t head)
{
	__atomic_store_n(&producer->header->head, head, __ATOMIC_RELEASE);
}

static void wake_consumer(struct source_ring *producer)
{
	source_ring_wake(&producer->header->consumer_waits, producer->payload_fd);
}

/*
 * A skip is published as soon as there is room for it alone. Only so a large record always fits in
 * the end: the consumer passes the skip and releases it before the record is there. For the same
 * reason the consumer is woken, though there is no payload.
 */
static uint8_t *try_reserve(struct source_ring *producer, uint64_t length)
{
	uint64_t record = source_record_size(length);
	uint64_t to_end = producer->size - (producer->position & (producer->size - 1));

	if (record > to_end) {
		if (!has_room(producer, to_end))
			return NULL;
		write_record(producer, SOURCE_SKIP, SOURCE_END);
		producer->position += to_end;
		publish_head(producer, producer->position);
		wake_consumer(producer);
	}
	if (!has_room(producer, record))
		return NULL;
	return (uint8_t *)record_at(producer, producer->position) + sizeof(struct source_message);
}

/* Returns false when stop_fd became readable. */
static bool sleep_for_space(const struct source_ring *producer, int stop_fd)
{
	struct pollfd fds[] = {
		{ .fd = stop_fd, .events = POLLIN },
		{ .fd = producer->space_fd, .events = POLLIN },
	};

	while (poll(fds, 2, -1) < 0)
		assert(errno == EINTR || errno == ENOMEM);
	return fds[0].revents == 0;
}

uint8_t *source_ring_reserve(struct source_ring *producer, uint64_t length, bool wait, int stop_fd)
{
	uint32_t *waits = &producer->header->producer_waits;
	uint8_t *payload;
	bool go_on = true;

	assert(!producer->in_message);
	assert(length < producer->size && source_record_size(length) <= producer->size);
	payload = try_reserve(producer, length);
	while (!payload && wait && go_on) {
		source_ring_will_wait(waits);
		payload = try_reserve(producer, length);
		if (!payload)
			go_on = sleep_for_space(producer, stop_fd);
		source_ring_awake(waits, producer->space_fd);
		if (!payload && go_on)
			payload = try_reserve(producer, length);
	}
	return payload;
}

uint8_t *source_ring_begin(struct source_ring *producer, uint64_t length, bool wait, int stop_fd)
{
	uint8_t *payload = source_ring_reserve(producer, length, wait, stop_fd);

	if (!payload)
		return NULL;
	write_record(producer, length, 0);
	/* No wake-up: there is nothing to read before the first commit. */
	publish_head(producer, producer->position + source_record_size(length));
	producer->in_message = true;
	producer->length = length;
	producer->available = 0;
	return payload;
}

void source_ring_commit(struct source_ring *producer, uint64_t bytes)
{
	struct source_message *message = record_at(producer, producer->position);

	assert(producer->in_message);
	assert(bytes >= producer->available && bytes <= producer->length);
	producer->available = bytes;
	__atomic_store_n(&message->committed, bytes, __ATOMIC_RELEASE);
	wake_consumer(producer);
}

void source_ring_end(struct source_ring *producer)
{
	struct source_message *message = record_at(producer, producer->position);

	assert(producer->in_message);
	__atomic_store_n(&message->committed, producer->available | SOURCE_END, __ATOMIC_RELEASE);
	producer->position += source_record_size(producer->length);
	producer->in_message = false;
	wake_consumer(producer);
}

void source_ring_finish(struct source_ring *producer, bool failed)
{
	assert(!producer->in_message);
	__atomic_store_n(&producer->header->closed, failed ? 2 : 1, __ATOMIC_RELEASE);
	wake_consumer(producer);
}
