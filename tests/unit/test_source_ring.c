/* SPDX-License-Identifier: BSD-2-Clause */
/* The source ring: layout, wrap and skip, waking, and a consumer that no producer can hurt. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../user/source/ring.h"

static struct source_ring producer, consumer;
static struct source_view view;
static struct error error;

static void open_ring(uint64_t size)
{
	cr_assert_eq(source_ring_create(&producer, size, &error), 0, "%s", error.text);
	cr_assert_eq(source_ring_attach(&consumer, &producer, &error), 0, "%s", error.text);
}

static void setup(void)
{
	open_ring(4096);
}

static void teardown(void)
{
	source_ring_close(&consumer);
	source_ring_close(&producer);
}

TestSuite(ring, .init = setup, .fini = teardown, .timeout = 60);
TestSuite(ring_open, .timeout = 60);

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint8_t content(uint64_t message, uint64_t i)
{
	return (uint8_t)(message * 37 + i * 11 + (i >> 8));
}

static void fill(uint8_t *payload, uint64_t message, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		payload[i] = content(message, i);
}

static void expect_content(uint64_t message, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		cr_assert_eq(view.payload[i], content(message, i), "message %lu byte %lu", message,
			     i);
}

static bool put(uint64_t message, uint64_t length)
{
	uint8_t *payload = source_ring_begin(&producer, length, false, -1);

	if (!payload)
		return false;
	fill(payload, message, 0, length);
	source_ring_commit(&producer, length);
	source_ring_end(&producer);
	return true;
}

static void take(uint64_t message, uint64_t length)
{
	cr_assert_eq(source_ring_peek(&consumer, &view), SOURCE_RING_MESSAGE);
	cr_assert_eq(view.length, length);
	cr_assert_eq(view.available, length);
	cr_assert(view.ended);
	expect_content(message, 0, length);
	source_ring_release(&consumer);
}

static void expect_state(enum source_ring_state expected)
{
	enum source_ring_state state = source_ring_peek(&consumer, &view);

	cr_assert_eq(state, expected, "state %d instead of %d", state, expected);
}

Test(ring_open, size_holds_two_messages_and_a_skip)
{
	static const uint64_t sizes[] = { 0,       1,        1 << 20,         (1 << 20) + 1,
					  4 << 20, 22369536, (64 << 20) - 64, 1ull << 31 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t size = source_ring_size_for(sizes[i]);

		cr_expect_geq(size, 3 * source_record_size(sizes[i]) - 64);
		cr_expect_geq(size, 4ull << 20);
		cr_expect_eq(size & (size - 1), 0);
		cr_expect(size == 4ull << 20 || size / 2 < 3 * source_record_size(sizes[i]));
	}
}

Test(ring_open, only_a_power_of_two_from_4096_on)
{
	static const uint64_t sizes[] = { 0,         2048, 4095, 4097, 12288, (1ull << 62) + 4096,
					  1ull << 62 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_expect_lt(source_ring_create(&producer, sizes[i], &error), 0, "%lu", sizes[i]);
		cr_expect_neq(error.text[0], '\0');
		cr_expect_eq(producer.memory_fd, -1);
	}
}

Test(ring, memory_is_sealed)
{
	cr_assert_lt(ftruncate(producer.memory_fd, 4096), 0);
	cr_assert_lt(ftruncate(producer.memory_fd, 1 << 20), 0);
	cr_assert_lt(fcntl(producer.memory_fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
}

Test(ring, attach_refuses_what_is_no_ring)
{
	struct source_ring other = producer;

	producer.header->magic++;
	cr_expect_eq(source_ring_attach(&other, &producer, &error), -EPROTO);
	producer.header->magic--;
	producer.header->version = 9;
	cr_expect_eq(source_ring_attach(&other, &producer, &error), -EPROTO);
	cr_expect(strstr(error.text, "version 9"), "%s", error.text);
	producer.header->version = SOURCE_RING_VERSION;
	producer.header->size = 8192;
	cr_expect_eq(source_ring_attach(&other, &producer, &error), -EPROTO);
	producer.header->size = 4096;
	cr_expect_eq(source_ring_attach(&other, &producer, &error), 0);
	source_ring_close(&other);
}

Test(ring, attach_refuses_memory_that_may_shrink)
{
	struct source_ring copy = producer, other;

	copy.memory_fd = memfd_create("unsealed", MFD_ALLOW_SEALING);
	cr_assert_eq(ftruncate(copy.memory_fd, 8192), 0);
	cr_assert_eq(write(copy.memory_fd, producer.header, 4096), 4096);
	cr_expect_eq(source_ring_attach(&other, &copy, &error), -EINVAL);
	cr_expect(strstr(error.text, "sealed"), "%s", error.text);
	cr_assert_eq(ftruncate(copy.memory_fd, 8000), 0);
	cr_assert_eq(fcntl(copy.memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
		     0);
	cr_expect_eq(source_ring_attach(&other, &copy, &error), -EINVAL, "size");
	close(copy.memory_fd);
	copy.memory_fd = open("/dev/null", O_RDWR);
	cr_expect_eq(source_ring_attach(&other, &copy, &error), -EINVAL, "not a memfd");
	close(copy.memory_fd);
}

Test(ring, a_message_streams_out_while_it_is_filled)
{
	uint8_t *payload;

	expect_state(SOURCE_RING_EMPTY);
	payload = source_ring_begin(&producer, 1000, false, -1);
	cr_assert_not_null(payload);
	for (uint64_t n = 0; n <= 1000; n += 250) {
		fill(payload, 1, 0, n);
		source_ring_commit(&producer, n);
		expect_state(SOURCE_RING_MESSAGE);
		cr_assert_eq(view.length, 1000);
		cr_assert_eq(view.available, n);
		cr_assert_not(view.ended);
		expect_content(1, 0, n);
	}
	source_ring_end(&producer);
	take(1, 1000);
	expect_state(SOURCE_RING_EMPTY);
}

Test(ring, a_message_may_end_early)
{
	cr_assert_not_null(source_ring_begin(&producer, 1000, false, -1));
	source_ring_commit(&producer, 10);
	source_ring_end(&producer);
	expect_state(SOURCE_RING_MESSAGE);
	cr_assert_eq(view.length, 1000);
	cr_assert_eq(view.available, 10);
	cr_assert(view.ended);
	source_ring_release(&consumer);
	cr_assert(put(2, 5));
	take(2, 5);
}

Test(ring, a_message_may_be_discarded_before_its_end)
{
	cr_assert_not_null(source_ring_begin(&producer, 1000, false, -1));
	source_ring_commit(&producer, 10);
	expect_state(SOURCE_RING_MESSAGE);
	source_ring_release(&consumer);
	expect_state(SOURCE_RING_EMPTY);
	source_ring_commit(&producer, 1000);
	source_ring_end(&producer);
	expect_state(SOURCE_RING_EMPTY);
	cr_assert(put(2, 2900));
	take(2, 2900);
}

Test(ring, messages_of_no_bytes)
{
	for (uint64_t i = 0; i < 64; i++)
		cr_assert(put(i, 0));
	cr_assert_not(put(64, 0));
	for (uint64_t i = 0; i < 64; i++)
		take(i, 0);
	expect_state(SOURCE_RING_EMPTY);
}

Test(ring, closed_and_failed_come_after_the_last_message)
{
	cr_assert(put(1, 100));
	source_ring_finish(&producer, false);
	take(1, 100);
	expect_state(SOURCE_RING_CLOSED);
	teardown();
	setup();
	cr_assert(put(1, 100));
	source_ring_finish(&producer, true);
	take(1, 100);
	expect_state(SOURCE_RING_FAILED);
}

Test(ring, a_full_ring_takes_no_more_until_a_release)
{
	cr_assert(put(1, 1984));
	cr_assert(put(2, 1984));
	cr_assert_not(put(3, 0));
	take(1, 1984);
	cr_assert(put(3, 1984));
	cr_assert_not(put(4, 0));
	take(2, 1984);
	take(3, 1984);
	expect_state(SOURCE_RING_EMPTY);
}

/* From every offset, every record size from one line to the whole area gets through. */
Test(ring, wrap_and_skip_at_every_offset)
{
	for (uint64_t offset = 0; offset < 4096; offset += 64) {
		for (uint64_t record = 64; record <= 4096; record += 64) {
			uint64_t length = record - 64;

			/* Brings both ends to this offset. */
			while ((producer.position & 4095) != offset) {
				cr_assert(put(9, 0));
				take(9, 0);
			}
			if (!put(record, length)) {
				/* Skip and record do not fit together: the skip must go first. */
				cr_assert_gt(offset + record, 4096);
				expect_state(SOURCE_RING_EMPTY);
				cr_assert(put(record, length), "offset %lu record %lu", offset,
					  record);
			}
			take(record, length);
			expect_state(SOURCE_RING_EMPTY);
		}
	}
}

Test(ring, reserve_shows_nothing_and_a_shorter_message_fits_in_place)
{
	uint8_t *reserved;

	cr_assert(put(1, 2000));
	take(1, 2000);
	reserved = source_ring_reserve(&producer, 1900, false, -1);
	cr_assert_not_null(reserved);
	expect_state(SOURCE_RING_EMPTY);
	fill(reserved, 2, 0, 100);
	cr_assert_eq(source_ring_begin(&producer, 100, false, -1), reserved);
	source_ring_commit(&producer, 100);
	source_ring_end(&producer);
	take(2, 100);
	/* With a skip in between. */
	while (!(reserved = source_ring_reserve(&producer, 3000, false, -1)))
		expect_state(SOURCE_RING_EMPTY);
	cr_assert_eq(source_ring_begin(&producer, 0, false, -1), reserved);
	source_ring_end(&producer);
	take(3, 0);
}

static bool readable(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) == 1;
}

Test(ring, arm_sees_what_is_new)
{
	cr_assert(source_ring_arm(&consumer, 0), "empty");
	cr_assert_not_null(source_ring_begin(&producer, 100, false, -1));
	cr_assert_not(readable(consumer.payload_fd), "a message without a byte is nothing new");
	cr_assert(source_ring_arm(&consumer, 0));
	source_ring_commit(&producer, 10);
	cr_assert(readable(consumer.payload_fd));
	source_ring_disarm(&consumer);
	cr_assert_not(readable(consumer.payload_fd));
	source_ring_commit(&producer, 20);
	cr_assert_not(readable(consumer.payload_fd), "not armed: no system call");
	cr_assert_not(source_ring_arm(&consumer, 10));
	cr_assert(source_ring_arm(&consumer, 20));
	source_ring_end(&producer);
	cr_assert(readable(consumer.payload_fd));
	source_ring_disarm(&consumer);
	cr_assert_not(source_ring_arm(&consumer, 20), "the end is new");
	source_ring_release(&consumer);
	cr_assert(source_ring_arm(&consumer, 0));
	source_ring_finish(&producer, false);
	cr_assert(readable(consumer.payload_fd));
	source_ring_disarm(&consumer);
	cr_assert_not(source_ring_arm(&consumer, 0));
}

struct waiter {
	uint64_t length;
	int stop_fd;
	uint8_t *payload;
	pthread_t thread;
};

static void *wait_for_room(void *argument)
{
	struct waiter *waiter = argument;

	waiter->payload = source_ring_begin(&producer, waiter->length, true, waiter->stop_fd);
	return NULL;
}

static void start(struct waiter *waiter)
{
	waiter->stop_fd = eventfd(0, 0);
	pthread_create(&waiter->thread, NULL, wait_for_room, waiter);
	while (__atomic_load_n(&producer.header->producer_waits, __ATOMIC_ACQUIRE) == 0)
		usleep(100);
}

Test(ring, a_blocked_producer_is_woken_by_a_release)
{
	struct waiter waiter = { .length = 3000 };

	cr_assert(put(1, 1984));
	cr_assert(put(2, 1984));
	start(&waiter);
	take(1, 1984);
	take(2, 1984);
	pthread_join(waiter.thread, NULL);
	cr_assert_not_null(waiter.payload);
}

Test(ring, a_sleeping_consumer_is_woken_for_a_skip)
{
	struct waiter waiter = { .length = 3000 };

	cr_assert(put(1, 1984));
	take(1, 1984);
	cr_assert(source_ring_arm(&consumer, 0));
	start(&waiter); /* skip written, no room behind it before the consumer has passed it */
	cr_assert(readable(consumer.payload_fd));
	source_ring_disarm(&consumer);
	cr_assert(source_ring_arm(&consumer, 0));
	pthread_join(waiter.thread, NULL);
	cr_assert_not_null(waiter.payload);
}

Test(ring, a_blocked_producer_can_be_stopped)
{
	struct waiter waiter = { .length = 64 };
	const uint64_t one = 1;
	double before;

	cr_assert(put(1, 4032));
	start(&waiter);
	before = seconds();
	cr_assert_eq(write(waiter.stop_fd, &one, 8), 8);
	pthread_join(waiter.thread, NULL);
	cr_assert_lt(seconds() - before, 0.1);
	cr_assert_null(waiter.payload);
	take(1, 4032);
	cr_assert(put(2, 64), "the ring is usable as before");
	take(2, 64);
}

/* Two threads, lengths and pieces at random, both ends sleeping whenever there is nothing to do. */
#define STRESS_MESSAGES 60000

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static void *produce(void *argument)
{
	uint64_t lengths = 1, pieces = 2;

	(void)argument;
	for (uint64_t i = 0; i < STRESS_MESSAGES; i++) {
		uint64_t length = next_random(&lengths) % 2000;
		uint8_t *payload = source_ring_begin(&producer, length, true, -1);
		uint64_t done = 0;

		while (done < length) {
			uint64_t n = next_random(&pieces) % (length - done) + 1;

			fill(payload, i, done, done + n);
			done += n;
			source_ring_commit(&producer, done);
		}
		source_ring_end(&producer);
	}
	source_ring_finish(&producer, false);
	return NULL;
}

static void sleep_for_payload(uint64_t seen)
{
	struct pollfd fd = { .fd = consumer.payload_fd, .events = POLLIN };

	if (!source_ring_arm(&consumer, seen))
		return;
	cr_assert_eq(poll(&fd, 1, 5000), 1, "a wake-up was lost");
	source_ring_disarm(&consumer);
}

Test(ring, stress)
{
	uint64_t lengths = 1, message = 0, seen = 0;
	enum source_ring_state state;
	pthread_t thread;

	pthread_create(&thread, NULL, produce, NULL);
	while ((state = source_ring_peek(&consumer, &view)) != SOURCE_RING_CLOSED) {
		cr_assert_neq(state, SOURCE_RING_BROKEN);
		if (state == SOURCE_RING_MESSAGE) {
			cr_assert_geq(view.available, seen);
			expect_content(message, seen, view.available);
			seen = view.available;
		}
		if (state != SOURCE_RING_MESSAGE || !view.ended) {
			sleep_for_payload(seen);
			continue;
		}
		cr_assert_eq(view.length, next_random(&lengths) % 2000);
		cr_assert_eq(seen, view.length);
		source_ring_release(&consumer);
		message++;
		seen = 0;
	}
	pthread_join(thread, NULL);
	cr_assert_eq(message, STRESS_MESSAGES);
}

/* What a hostile producer may write, after one message of 100 bytes was written, read and released.
 */
struct hostile {
	const char *what;
	uint64_t head; /* added to the honest one */
	uint64_t length, committed;
	uint32_t closed;
};

#define HONEST 192 /* record size of a message of 100 bytes */

Test(ring, hostile_records_break_the_ring)
{
	static const struct hostile table[] = {
		{ "head not a multiple of 64", 65, 1, 0, 0 },
		{ "head behind tail", (uint64_t)-64, 0, 0, 0 },
		{ "more than the area", 4096 + 64, 0, 0, 0 },
		{ "far more than the area", 1ull << 63, 0, 0, 0 },
		{ "record over the head", 64, 1, 0, 0 },
		{ "record over the end", 4096, 4096 - HONEST, 0, 0 },
		{ "record size wraps", 4096, (uint64_t)-2, 0, 0 },
		{ "record size wraps to 0", 4096, (uint64_t)-64, 0, 0 },
		{ "length of 2^63", 4096, 1ull << 63, 0, 0 },
		{ "skip over the head", 64, SOURCE_SKIP, 0, 0 },
		{ "committed beyond the length", 4096, 100, 101, 0 },
		{ "committed far beyond", 4096, 100, SOURCE_END - 1, 0 },
		{ "all bits of committed", 4096, 100, ~0ull, 0 },
		{ "closed is neither 0, 1 nor 2", 0, 0, 0, 3 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct hostile *row = &table[i];
		struct source_message *message;

		cr_assert(put(1, 100));
		take(1, 100);
		message = (struct source_message *)(producer.data + HONEST);
		message->length = row->length;
		message->committed = row->committed;
		producer.header->closed = row->closed;
		producer.header->head += row->head;
		cr_expect_eq(source_ring_peek(&consumer, &view), SOURCE_RING_BROKEN, "%s",
			     row->what);
		cr_expect_not(source_ring_arm(&consumer, 0), "%s", row->what);
		producer.header->head = HONEST;
		producer.header->closed = 0;
		cr_expect_eq(source_ring_peek(&consumer, &view), SOURCE_RING_BROKEN,
			     "it stays broken");
		teardown();
		setup();
	}
}

/* A skip fills the rest of the area before offset 0, so none can begin there: no loop over skips.
 */
Test(ring, a_skip_at_offset_0_breaks_the_ring)
{
	((struct source_message *)producer.data)->length = SOURCE_SKIP;
	producer.header->head = 4096;
	expect_state(SOURCE_RING_BROKEN);
	cr_assert_eq(consumer.header->tail, 0);
}

Test(ring, committed_never_goes_back_and_the_end_stays)
{
	struct source_message *message = (struct source_message *)producer.data;

	cr_assert_not_null(source_ring_begin(&producer, 100, false, -1));
	source_ring_commit(&producer, 50);
	expect_state(SOURCE_RING_MESSAGE);
	message->length = 4000;
	expect_state(SOURCE_RING_MESSAGE);
	cr_assert_eq(view.length, 100, "the length is read once");
	message->committed = 49;
	expect_state(SOURCE_RING_BROKEN);

	for (uint64_t later = 0; later < 3; later++) {
		const uint64_t values[] = { 50, 51 | SOURCE_END, 51 };

		teardown();
		setup();
		message = (struct source_message *)producer.data;
		cr_assert_not_null(source_ring_begin(&producer, 100, false, -1));
		source_ring_commit(&producer, 50);
		source_ring_end(&producer);
		expect_state(SOURCE_RING_MESSAGE);
		message->committed = values[later];
		expect_state(SOURCE_RING_BROKEN);
	}
}

static bool scribbling;

static void *scribble(void *argument)
{
	static const uint64_t favourites[] = { 0, 1, 64, 100, 4032, 4096, SOURCE_SKIP, SOURCE_END };
	uint64_t random = 7;

	(void)argument;
	while (__atomic_load_n(&scribbling, __ATOMIC_RELAXED)) {
		uint64_t value = favourites[next_random(&random) % 8];
		uint64_t line = next_random(&random) % 64;
		struct source_message *message = (struct source_message *)producer.data + line;
		uint64_t tail = __atomic_load_n(&producer.header->tail, __ATOMIC_RELAXED);

		__atomic_store_n(&message->length, value, __ATOMIC_RELAXED);
		__atomic_store_n(&message->committed, value + next_random(&random) % 2,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&producer.header->head, tail + value % 8192, __ATOMIC_RELAXED);
		__atomic_store_n(&producer.header->producer_waits, line & 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Whatever changes under its feet, the view lies inside the data area. */
Test(ring, a_producer_that_writes_while_the_consumer_looks)
{
	uint64_t messages = 0, breaks = 0;
	double start_time = seconds();
	pthread_t thread;

	scribbling = true;
	pthread_create(&thread, NULL, scribble, NULL);
	while (seconds() < start_time + 0.3 || (messages < 1000 && seconds() < start_time + 20)) {
		enum source_ring_state state = source_ring_peek(&consumer, &view);

		if (state == SOURCE_RING_BROKEN) {
			/* Once more from the same place, which a real consumer never does. */
			consumer.broken = consumer.in_message = false;
			breaks++;
		}
		if (state != SOURCE_RING_MESSAGE)
			continue;
		cr_assert(view.payload >= consumer.data + 64);
		cr_assert_leq(view.length, 4032);
		cr_assert_leq(view.available, view.length);
		cr_assert(view.payload + view.length <= consumer.data + 4096);
		if (view.ended || (messages & 1))
			source_ring_release(&consumer);
		messages++;
	}
	__atomic_store_n(&scribbling, false, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	cr_assert_geq(messages, 1000);
	cr_assert_gt(breaks, 0);
}
