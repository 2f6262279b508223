/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile producer: the fuzzer writes any bytes into the shared memory, between any two calls of
 * the consumer. The consumer must not read outside the ring (it lies in a heap block, so that
 * AddressSanitizer sees it), must return from every call, and its view must be inside the data area
 * and never go back.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -D_GNU_SOURCE -o
 * build/fuzz_source_ring \ tests/fuzz/fuzz_source_ring.c user/source/consumer.c user/source/ring.c
 *   build/fuzz_source_ring -max_len=2048 -max_total_time=60
 */
#include <stdlib.h>
#include <string.h>

#include "../../user/source/ring.h"

#define SIZE 4096u
#define TOTAL (SOURCE_RING_HEADER + SIZE)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

struct input {
	const uint8_t *data;
	size_t left;
};

static uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;

	if (bytes > input->left)
		bytes = input->left;
	memcpy(&value, input->data, bytes);
	input->data += bytes;
	input->left -= bytes;
	return value;
}

static void require(bool condition)
{
	if (!condition)
		abort();
}

/* Values that get past a first check more often than random ones do. */
static uint64_t interesting(struct input *input, const struct source_ring *ring)
{
	uint64_t value = take(input, 2);

	switch (take(input, 1) % 6) {
	case 0:
		return value;
	case 1:
		return ring->position + value % 65 * 64;
	case 2:
		return SOURCE_SKIP;
	case 3:
		return SOURCE_END | value;
	case 4:
		return ring->available + value % 3;
	default:
		return take(input, 8);
	}
}

static void hostile_write(struct input *input, struct source_ring *ring)
{
	uint64_t *words = (uint64_t *)ring->header;
	struct source_message *record =
		(struct source_message *)(ring->data + (ring->position & (SIZE - 1) & ~63ull));

	switch (take(input, 1) % 5) {
	case 0:
		ring->header->head = interesting(input, ring);
		break;
	case 1:
		record->length = interesting(input, ring);
		break;
	case 2:
		record->committed = interesting(input, ring);
		break;
	case 3:
		ring->header->closed = (uint32_t)take(input, 1) % 4;
		break;
	default:
		words[take(input, 2) % (TOTAL / 8)] = interesting(input, ring);
	}
}

static void check_view(const struct source_ring *ring, const struct source_view *view,
		       const struct source_view *before)
{
	volatile uint8_t sum = 0;

	require(view->payload >= ring->data + sizeof(struct source_message));
	require(view->length <= SIZE && view->available <= view->length);
	require(view->payload + view->length <= ring->data + SIZE);
	if (before->payload) {
		require(view->payload == before->payload && view->length == before->length);
		require(view->available >= before->available);
		require(!before->ended || (view->ended && view->available == before->available));
	}
	for (uint64_t i = 0; i < view->available; i++)
		sum ^= view->payload[i];
}

static void run(struct input *input, struct source_ring *ring)
{
	struct source_view before = { 0 }, view;
	bool was_broken = false;

	while (input->left > 0) {
		uint64_t action = take(input, 1) % 8;
		enum source_ring_state state;

		if (action < 4) {
			hostile_write(input, ring);
			continue;
		}
		if (action == 4)
			source_ring_arm(ring, before.available);
		if (action == 5)
			source_ring_disarm(ring);
		state = source_ring_peek(ring, &view);
		require(!was_broken || state == SOURCE_RING_BROKEN);
		was_broken = state == SOURCE_RING_BROKEN;
		if (state != SOURCE_RING_MESSAGE)
			continue;
		check_view(ring, &view, &before);
		before = view;
		if (action == 7) {
			source_ring_release(ring);
			before = (struct source_view){ 0 };
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	struct input input = { data, length };
	uint8_t *memory = aligned_alloc(4096, TOTAL);
	struct source_ring ring = {
		.header = (struct source_ring_header *)memory,
		.data = memory + SOURCE_RING_HEADER,
		.size = SIZE,
		.memory_fd = -1,
		.payload_fd = -1,
		.space_fd = -1,
	};

	memset(memory, 0, TOTAL);
	/* Late in the life of a ring, too: the counts never wrap in practice, here they may. */
	ring.position = take(&input, 1) & 1 ? -(uint64_t)SIZE : 0;
	ring.header->head = ring.header->tail = ring.position;
	run(&input, &ring);
	free(memory);
	return 0;
}
