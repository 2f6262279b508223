/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32u  /* frames per kick: more gives nothing */
#define QUANTUM 8u /* frames of one stream before the next one has its turn */
#define COMPLETIONS 64u
#define OWNER_BYTES 65536u    /* the smallest ring: 16 packets of one chunk */
#define SPIN_NS 20000u        /* turns without work before the worker sleeps */
#define COMPLETION_NS 200000u /* nothing tells of completions: look again after this */
#define EARLY_NS 100000u      /* a sleep ends late by about so much: the rest is spent awake */
#define STATUS_NS 20000000u

_Static_assert(RETRANSMISSION_MIN *XSK_CHUNK >= OWNER_BYTES, "a ring owns whole 64 KiB pieces");

uint64_t worker_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t worker_stream_bytes(uint32_t pmtu, uint32_t ring)
{
	return (uint64_t)ring * qp_stride(pmtu, XSK_CHUNK);
}

static int watch(struct worker *worker, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(worker->poll_set, EPOLL_CTL_ADD, fd, &event);
}

int worker_open(struct worker *worker, const struct worker_config *config, struct error *error)
{
	struct xsk_config xsk = {
		.interface = config->interface,
		.queue = config->queue,
		.umem_bytes = config->umem_bytes,
		.tx_entries = 2048,
		.multi_buffer = config->multi_buffer,
	};
	int err;

	memset(worker, 0, sizeof(*worker));
	worker->poll_set = worker->wake_event = -1;
	worker->program = config->program;
	worker->index = config->index;
	worker->capacity = config->streams;
	worker->umem_bytes = config->umem_bytes;
	worker->positional_completions = xsk_reads_late(config->interface);
	if (getrandom(worker->generations, sizeof(worker->generations), 0) < 0)
		return error_set(error, errno, "no random numbers from the kernel: %s",
				 strerror(errno));
	worker->streams = calloc(config->streams, sizeof(*worker->streams));
	worker->owners = calloc(config->umem_bytes / OWNER_BYTES + 1, sizeof(*worker->owners));
	worker->poll_set = epoll_create1(EPOLL_CLOEXEC);
	worker->wake_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!worker->streams || !worker->owners || worker->poll_set < 0 || worker->wake_event < 0) {
		err = error_set(error, ENOMEM, "no memory for a worker of %u streams",
				config->streams);
		goto fail;
	}
	if (watch(worker, worker->wake_event) ||
	    watch(worker, xdp_program_wake_fd(worker->program, worker->index))) {
		err = error_set(error, errno, "cannot poll: %s", strerror(errno));
		goto fail;
	}
	err = xsk_open(&worker->xsk, &xsk, error);
	if (!err)
		return 0;
fail:
	worker_close(worker);
	return err;
}

uint32_t worker_next_qpn(const struct worker *worker)
{
	uint32_t slot = worker->stream_count;
	/* Generations are 1…255: with 0 an empty word would look like one of ours. */
	uint32_t generation = worker->generations[slot] % 255u + 1;

	return generation << 16 |
	       (worker->index * ACK_MAP_QPS_PER_WORD + ACK_MAP_FIRST_INDEX + slot);
}

int worker_add(struct worker *worker, struct qp_config *config, const struct source_ring *source,
	       const uint8_t local_ip[16], const uint8_t remote_ip[16], struct error *error)
{
	uint64_t bytes = worker_stream_bytes(config->pmtu, config->ring);
	struct stream *stream = &worker->streams[worker->stream_count];
	int err;

	if (worker->stream_count == worker->capacity ||
	    worker->umem_used + bytes > worker->umem_bytes)
		return error_set(error, ENOSPC,
				 "no room for another stream: %u of %u streams, %llu of %llu bytes "
				 "of UMEM are in use and it needs %llu",
				 worker->stream_count, worker->capacity,
				 (unsigned long long)worker->umem_used,
				 (unsigned long long)worker->umem_bytes, (unsigned long long)bytes);
	config->local_qpn = worker_next_qpn(worker);
	config->chunk = XSK_CHUNK;
	config->positional_completions = worker->positional_completions;
	err = stream_open(stream, config, xsk_umem(worker->xsk), worker->umem_used, source,
			  worker->program, worker->index, local_ip, remote_ip, worker_now(), error);
	if (err)
		return err;
	if (watch(worker, stream->source.payload_fd)) {
		err = error_set(error, errno, "cannot poll the source: %s", strerror(errno));
		stream_close(stream);
		return err;
	}
	for (uint64_t piece = 0; piece < bytes / OWNER_BYTES; piece++)
		worker->owners[worker->umem_used / OWNER_BYTES + piece] =
			(uint16_t)worker->stream_count;
	worker->umem_used += bytes;
	worker->stream_count++;
	return 0;
}

/* One word of the bitmap is this worker's alone: a set bit names a stream whose record changed. */
static bool take_acks(struct worker *worker)
{
	uint64_t *word = &worker->program->pending[worker->index], bits;

	if (!__atomic_load_n(word, __ATOMIC_RELAXED))
		return false;
	bits = __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST);
	while (bits) {
		uint32_t bit = (uint32_t)__builtin_ctzll(bits);
		uint32_t slot = bit - ACK_MAP_FIRST_INDEX;

		bits &= bits - 1;
		if (bit >= ACK_MAP_FIRST_INDEX && slot < worker->stream_count)
			stream_read_acks(&worker->streams[slot]);
	}
	return true;
}

static bool take_completions(struct worker *worker)
{
	uint64_t offsets[COMPLETIONS];
	uint32_t count = xsk_complete(worker->xsk, offsets, COMPLETIONS);

	for (uint32_t i = 0; i < count; i++) {
		struct stream *stream;

		if (offsets[i] >= worker->umem_used)
			continue;
		stream = &worker->streams[worker->owners[offsets[i] / OWNER_BYTES]];
		qp_completed(&stream->qp, offsets[i] - stream->umem_offset);
	}
	if (worker->positional_completions && count && !xsk_outstanding(worker->xsk))
		for (uint32_t i = 0; i < worker->stream_count; i++)
			qp_quiet(&worker->streams[i].qp);
	return count;
}

/* Submits up to `limit` frames of one stream. */
static uint32_t transmit(struct worker *worker, struct stream *stream, uint64_t now, uint32_t limit)
{
	struct frame frame;
	uint32_t sent = 0;

	while (sent < limit && stream->end != STREAM_STOPPED && xsk_room(worker->xsk) >= 2 &&
	       qp_transmit(&stream->qp, now, &frame) == QP_FRAME) {
		xsk_submit(worker->xsk, stream->umem_offset + frame.offset, frame.length);
		stream->submitted = true;
		sent++;
		if (!qp_message_open(&stream->qp))
			stream_feed(stream, worker->drain);
	}
	return sent;
}

/* A batch over the streams in turn. Highest PSNs are published before the kick that sends the
 * frames. */
static uint32_t transmit_batch(struct worker *worker, uint64_t now)
{
	uint32_t sent = 0, idle = 0;

	while (sent < BATCH && idle < worker->stream_count) {
		struct stream *stream = &worker->streams[worker->turn_start];
		uint32_t left = BATCH - sent;
		uint32_t count = transmit(worker, stream, now, left < QUANTUM ? left : QUANTUM);

		sent += count;
		idle = count ? 0 : idle + 1;
		worker->turn_start = (worker->turn_start + 1) % worker->stream_count;
	}
	for (uint32_t i = 0; sent && i < worker->stream_count; i++) {
		struct stream *stream = &worker->streams[i];

		if (!stream->submitted)
			continue;
		stream->submitted = false;
		__atomic_store_n(&stream->qp_line->highest_psn, qp_highest_psn(&stream->qp),
				 __ATOMIC_RELEASE);
	}
	return sent;
}

/* A stream that was stopped has no timers any more. */
static uint64_t stream_deadline(const struct stream *stream)
{
	return stream->end == STREAM_STOPPED ? REQUESTER_NEVER : qp_deadline(&stream->qp);
}

static void abandon_unwanted(struct worker *worker)
{
	for (uint32_t i = 0; i < worker->stream_count; i++) {
		struct stream *stream = &worker->streams[i];

		if (stream->end == STREAM_RUNNING &&
		    __atomic_load_n(&stream->unwanted, __ATOMIC_ACQUIRE)) {
			stream->end = STREAM_STOPPED;
			stream_publish_status(stream);
		}
	}
}

/* Returns whether there was anything to do. */
static bool turn(struct worker *worker)
{
	bool busy = take_acks(worker);
	uint64_t now = worker_now();
	uint32_t sent;

	busy |= take_completions(worker);
	for (uint32_t i = 0; i < worker->stream_count; i++) {
		struct stream *stream = &worker->streams[i];

		stream_feed(stream, worker->drain);
		if (stream_deadline(stream) <= now)
			qp_tick(&stream->qp, now);
	}
	sent = worker->stream_count ? transmit_batch(worker, now) : 0;
	if (sent || worker->kick_pending) {
		int err = xsk_kick(worker->xsk);

		worker->kick_pending = err != 0;
		busy |= err >= 0;
		take_completions(worker);
	}
	for (uint32_t i = 0; i < worker->stream_count; i++)
		stream_advance(&worker->streams[i], worker->drain);
	return busy || sent;
}

/* Until when the worker may sleep when nobody wakes it. */
static uint64_t sleep_end(const struct worker *worker, uint64_t now)
{
	uint64_t end = now + STATUS_NS;

	if (xsk_outstanding(worker->xsk) && end > now + COMPLETION_NS)
		end = now + COMPLETION_NS;
	for (uint32_t i = 0; i < worker->stream_count; i++) {
		uint64_t due = stream_deadline(&worker->streams[i]);

		due = due > EARLY_NS ? due - EARLY_NS : 0;
		if (due < end)
			end = due;
	}
	return end;
}

/* Sets every flag that makes others wake the worker. Returns false when something is there already.
 */
static bool arm(struct worker *worker)
{
	bool quiet = true;

	__atomic_store_n(&worker->program->worker[worker->index].sleeping, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	quiet &= !__atomic_load_n(&worker->program->pending[worker->index], __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < worker->stream_count; i++)
		quiet &= stream_arm(&worker->streams[i], worker->drain);
	return quiet;
}

static void disarm(struct worker *worker)
{
	uint64_t count;

	__atomic_store_n(&worker->program->worker[worker->index].sleeping, 0, __ATOMIC_RELAXED);
	xdp_program_drain_wake(worker->program, worker->index);
	for (uint32_t i = 0; i < worker->stream_count; i++)
		source_ring_disarm(&worker->streams[i].source);
	while (read(worker->wake_event, &count, sizeof(count)) > 0)
		;
}

static void sleep_until_needed(struct worker *worker)
{
	uint64_t now = worker_now(), end = sleep_end(worker, now);
	struct timespec timeout = {
		.tv_sec = (time_t)((end - now) / 1000000000u),
		.tv_nsec = (long)((end - now) % 1000000000u),
	};
	struct epoll_event events[4];

	if (end <= now)
		return;
	if (arm(worker))
		epoll_pwait2(worker->poll_set, events, 4, &timeout, NULL);
	disarm(worker);
}

static void publish_status(struct worker *worker)
{
	for (uint32_t i = 0; i < worker->stream_count; i++)
		stream_publish_status(&worker->streams[i]);
}

static void *run(void *argument)
{
	struct worker *worker = argument;
	uint64_t idle_since = 0, status_at = 0;

	/* Timers wake within tens of microseconds only without the default slack of 50. */
	prctl(PR_SET_TIMERSLACK, 1000);
	prctl(PR_SET_NAME, "worker");

	while (!__atomic_load_n(&worker->stop, __ATOMIC_ACQUIRE)) {
		uint64_t now = worker_now();

		if (now >= status_at) {
			abandon_unwanted(worker);
			publish_status(worker);
			status_at = now + STATUS_NS;
		}
		if (turn(worker)) {
			idle_since = 0;
			continue;
		}
		if (!idle_since)
			idle_since = now;
		if (now - idle_since >= SPIN_NS)
			sleep_until_needed(worker);
	}
	publish_status(worker);
	return NULL;
}

int worker_start(struct worker *worker, struct error *error)
{
	int err = pthread_create(&worker->thread, NULL, run, worker);

	if (err)
		return error_set(error, err, "cannot start the worker thread: %s", strerror(err));
	worker->started = true;
	return 0;
}

static void wake(struct worker *worker)
{
	uint64_t one = 1;

	/* A full counter wakes as well. */
	if (write(worker->wake_event, &one, sizeof(one)) < 0)
		return;
}

void worker_abandon(struct worker *worker, uint32_t index)
{
	__atomic_store_n(&worker->streams[index].unwanted, true, __ATOMIC_RELEASE);
}

void worker_drain(struct worker *worker)
{
	__atomic_store_n(&worker->drain, true, __ATOMIC_RELEASE);
	wake(worker);
}

void worker_stop(struct worker *worker)
{
	if (!worker->started)
		return;
	__atomic_store_n(&worker->stop, true, __ATOMIC_RELEASE);
	wake(worker);
	pthread_join(worker->thread, NULL);
	worker->started = false;
}

void worker_close(struct worker *worker)
{
	worker_stop(worker);
	for (uint32_t i = 0; i < worker->stream_count; i++)
		stream_close(&worker->streams[i]);
	worker->stream_count = 0;
	xsk_close(worker->xsk);
	worker->xsk = NULL;
	if (worker->poll_set >= 0)
		close(worker->poll_set);
	if (worker->wake_event >= 0)
		close(worker->wake_event);
	worker->poll_set = worker->wake_event = -1;
	free(worker->streams);
	free(worker->owners);
	worker->streams = NULL;
	worker->owners = NULL;
}
