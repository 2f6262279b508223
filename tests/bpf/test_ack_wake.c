/* SPDX-License-Identifier: BSD-2-Clause */
/* Pending bits and wake-up of the worker, acknowledgements on two CPUs at once, and what a frame
 * costs. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/bpf.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>

#include <xdp2roce/roce.h>

#include "frame.h"
#include "harness.h"

#define START 1000u
#define PENDING (1ull << HARNESS_INDEX % 64)

static uint32_t run(struct harness *harness, const struct frame_spec *spec)
{
	struct frame frame;

	frame_build(&frame, spec);
	return harness_run(harness, frame.bytes, frame.length);
}

static void start(struct harness *harness)
{
	harness_open(harness);
	harness_open_qp(harness, false, START, START + 1000);
}

/* The kernel wakes the ring's readers from an interrupt, a moment later. */
static bool is_woken(const struct harness *harness)
{
	struct pollfd wake = { .fd = harness->wake_fd, .events = POLLIN };

	return poll(&wake, 1, 20) == 1;
}

static int keep_word(void *context, void *data, size_t size)
{
	uint64_t *words = context;

	cr_expect(size == sizeof(*words));
	words[0]++;
	memcpy(&words[1], data, sizeof(*words));
	return 0;
}

static const struct frame_spec good_ack = { .qpn = HARNESS_QPN, .psn = START, .syndrome = 0x1F };
static const struct frame_spec bad_ack = { .qpn = HARNESS_QPN, .psn = START, .bad_icrc = true };
static const struct frame_spec good_cnp = { .qpn = HARNESS_QPN, .opcode = ROCE_CNP };

Test(ack_wake, sleeper_is_woken_once)
{
	struct ring_buffer *ring;
	struct harness harness;
	uint64_t words[2] = { 0 };

	start(&harness);
	ring = ring_buffer__new(harness.wake_fd, keep_word, words, NULL);
	cr_assert(ring != NULL);
	harness.worker[HARNESS_WORKER].sleeping = 1;
	cr_expect(!is_woken(&harness), "woken before anything came");
	cr_expect(run(&harness, &good_ack) == XDP_DROP);
	cr_expect(is_woken(&harness));
	cr_expect(harness.worker[HARNESS_WORKER].sleeping == 0);
	cr_expect(harness.pending[1] == PENDING);

	run(&harness, &good_ack);
	ring_buffer__consume(ring);
	cr_expect(words[0] == 1, "%lu wake-ups", words[0]);
	cr_expect(words[1] == HARNESS_WORKER);
	cr_expect(!is_woken(&harness), "still readable after it was drained");
	ring_buffer__free(ring);
}

static void *sleep_on_ring(void *argument)
{
	struct harness *harness = argument;
	struct pollfd wake = { .fd = harness->wake_fd, .events = POLLIN };
	struct timespec before, after;
	bool woken;

	clock_gettime(CLOCK_MONOTONIC, &before);
	woken = poll(&wake, 1, 10000) == 1;
	clock_gettime(CLOCK_MONOTONIC, &after);
	/* At its timeout poll would see the word in the ring as well. */
	return woken && after.tv_sec - before.tv_sec < 8 ? harness : NULL;
}

/* A thread that is blocked in poll when the ACK comes. */
Test(ack_wake, blocked_poll_returns)
{
	struct harness harness;
	pthread_t sleeper;
	void *woken;

	start(&harness);
	harness.worker[HARNESS_WORKER].sleeping = 1;
	cr_assert(pthread_create(&sleeper, NULL, sleep_on_ring, &harness) == 0);
	usleep(100000);
	run(&harness, &good_ack);
	pthread_join(sleeper, &woken);
	cr_expect(woken != NULL);
}

Test(ack_wake, busy_worker_is_left_alone)
{
	struct harness harness;

	start(&harness);
	run(&harness, &good_ack);
	cr_expect(harness.pending[1] == PENDING);
	cr_expect(!is_woken(&harness));
}

Test(ack_wake, other_workers_sleep_on)
{
	struct harness harness;

	start(&harness);
	for (uint32_t i = 0; i < ACK_MAP_WORKERS; i++)
		harness.worker[i].sleeping = 1;
	run(&harness, &good_cnp);
	for (uint32_t i = 0; i < ACK_MAP_WORKERS; i++)
		cr_expect(harness.worker[i].sleeping == (i != HARNESS_WORKER), "worker %u", i);
	cr_expect(is_woken(&harness), "a CNP wakes too");
}

Test(ack_wake, dropped_frame_does_not_wake)
{
	struct harness harness;

	start(&harness);
	harness.worker[HARNESS_WORKER].sleeping = 1;
	cr_expect(run(&harness, &bad_ack) == XDP_DROP);
	cr_expect(harness.worker[HARNESS_WORKER].sleeping == 1);
	cr_expect(harness.pending[1] == 0);
	cr_expect(!is_woken(&harness));
}

/* The other bits of the word belong to other QPs. */
Test(ack_wake, bits_are_added)
{
	struct harness harness;

	start(&harness);
	harness.pending[1] = 5;
	run(&harness, &good_ack);
	cr_expect(harness.pending[1] == (5 | PENDING));
	run(&harness, &good_ack);
	cr_expect(harness.pending[1] == (5 | PENDING));
	cr_expect(harness.pending[0] == 0 && harness.pending[2] == 0);
}

/* Nobody drains the ring: it fills up, stays readable, and the flag is still taken. */
Test(ack_wake, full_ring)
{
	struct harness harness;

	start(&harness);
	for (int i = 0; i < 20000; i++) {
		harness.worker[HARNESS_WORKER].sleeping = 1;
		run(&harness, &good_ack);
		cr_assert(harness.worker[HARNESS_WORKER].sleeping == 0, "run %d", i);
	}
	cr_expect(is_woken(&harness));
}

Test(ack_wake, worker_that_does_not_exist)
{
	static const uint32_t workers[] = { HARNESS_WORKER + 1, ACK_MAP_WORKERS, UINT32_MAX };
	struct harness harness;

	start(&harness);
	for (size_t i = 0; i < sizeof(workers) / sizeof(*workers); i++) {
		harness.pending[1] = 0;
		harness.worker[HARNESS_WORKER + 1].sleeping = 1;
		harness.qp[HARNESS_INDEX].worker = workers[i];
		cr_expect(run(&harness, &good_ack) == XDP_DROP);
		cr_expect(harness.pending[1] == PENDING);
		cr_expect(!is_woken(&harness));
	}
}

#define THREADS 2
#define EACH 4000

struct stream {
	struct harness *harness;
	uint32_t first;
};

static void *acknowledge(void *argument)
{
	struct stream *stream = argument;
	struct frame_spec ack = good_ack, nak = good_ack;

	for (uint32_t i = 0; i < EACH; i++) {
		ack.psn = stream->first + i * THREADS;
		run(stream->harness, &ack);
		/* Ahead of every ACK, so that it is never stale for its PSN. */
		nak.psn = START + THREADS * EACH;
		nak.syndrome = 0x60;
		run(stream->harness, &nak);
	}
	return NULL;
}

/* The ack word never goes back and no NAK is lost, whichever CPU a frame arrives on. */
Test(ack_wake, two_cpus)
{
	struct stream streams[THREADS];
	pthread_t threads[THREADS];
	struct xdp_counters count;
	struct harness harness;

	harness_open(&harness);
	harness_open_qp(&harness, false, START, START + THREADS * EACH);
	for (uint32_t i = 0; i < THREADS; i++) {
		streams[i] = (struct stream){ &harness, START + i };
		cr_assert(pthread_create(&threads[i], NULL, acknowledge, &streams[i]) == 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	count = harness_counters(&harness);
	cr_expect(ack_word_psn(harness.ack[HARNESS_INDEX].ack) == START + THREADS * EACH - 1);
	cr_expect(count.acks + count.naks + count.stale_acks + count.contended ==
		  2 * THREADS * EACH);
	cr_expect(ack_word_low24(harness.ack[HARNESS_INDEX].nak) == count.naks);
	cr_expect(count.naks + count.contended >= THREADS * EACH);
	cr_expect(harness.ack[HARNESS_INDEX].acks == count.acks + count.naks);
}

static uint32_t nanoseconds(int program, const struct frame *frame)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame->bytes,
		    .data_size_in = (uint32_t)frame->length, .repeat = 1000000);
	uint32_t best = UINT32_MAX;

	for (int i = 0; i < 5; i++) {
		cr_assert(bpf_prog_test_run_opts(program, &options) == 0);
		cr_assert(options.retval == XDP_DROP);
		best = options.duration < best ? options.duration : best;
	}
	return best;
}

/* Says what a frame costs beside a program that only drops; asserts nothing, machines differ. */
Test(ack_wake, speed)
{
	static const struct frame_spec ipv6 = {
		.qpn = HARNESS_QPN, .psn = START, .syndrome = 0x1F, .ipv6 = true
	};
	struct bpf_insn drop[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_DROP },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	struct harness harness;
	struct frame frame;
	uint32_t bare, ours;
	int fd, program;

	start(&harness);
	fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "drop", "GPL", drop, 2, NULL);
	cr_assert(fd >= 0);
	program = bpf_program__fd(harness.skeleton->progs.ack_processor);
	frame_build(&frame, &good_ack);
	bare = nanoseconds(fd, &frame);
	ours = nanoseconds(program, &frame);
	fprintf(stderr, "ack_processor: %u ns for an ACK over IPv4, XDP_DROP %u ns, ratio %.2f\n",
		ours, bare, (double)ours / bare);
	harness_open_qp(&harness, true, START, START + 1000);
	frame_build(&frame, &ipv6);
	fprintf(stderr, "ack_processor: %u ns for an ACK over IPv6\n",
		nanoseconds(program, &frame));
	close(fd);
}
