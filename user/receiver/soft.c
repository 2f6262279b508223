/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "packet_ring.h"

#define BATCH 64 /* frames between two looks at timers and requests */

struct soft_stream {
	struct responder_qp *qp;
	int event;
	bool completed; /* since the reader was last told */
};

/* Work that another thread wants done between two frames. */
struct errand {
	void (*run)(struct soft *soft, void *argument);
	void *argument;
	bool done;
};

struct soft {
	struct packet_ring ring;
	struct responder *responder;
	struct faults *faults;
	struct soft_stream *streams[SOFT_STREAMS];
	int wake; /* eventfd: an errand waits, or the end */
	pthread_t thread;
	atomic_bool stop;
	_Atomic(struct errand *) errand;
	pthread_mutex_t errands; /* held by the thread that has one */
	pthread_mutex_t lock;    /* of errand.done */
	pthread_cond_t done;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void signal_event(int event)
{
	uint64_t one = 1;

	/* It can only fail when the counter is full, and then the reader is awake already. */
	if (write(event, &one, sizeof(one)) < 0)
		return;
}

static void clear_event(int event)
{
	uint64_t count;

	if (read(event, &count, sizeof(count)) < 0)
		return;
}

/* The frame thread. */

static void mark_completed(struct soft *soft, struct responder_qp *qp, uint64_t now)
{
	uint64_t stall = faults_withhold(soft->faults, responder_counters(qp)->messages);

	if (stall)
		responder_withhold(qp, now + stall);
	for (int i = 0; i < SOFT_STREAMS; i++)
		if (soft->streams[i] && soft->streams[i]->qp == qp)
			soft->streams[i]->completed = true;
}

static void deliver(void *context, const uint8_t *frame, uint32_t length, uint64_t now)
{
	struct soft *soft = context;
	uint8_t reply[RESPONDER_REPLY_MAX];
	struct responder_qp *completed;
	uint32_t reply_length =
		responder_receive(soft->responder, frame, length, now, reply, &completed);

	if (completed)
		mark_completed(soft, completed, now);
	if (reply_length && faults_reply(soft->faults, reply, reply_length))
		packet_ring_send(&soft->ring, reply, reply_length);
}

static void tell_readers(struct soft *soft)
{
	for (int i = 0; i < SOFT_STREAMS; i++) {
		struct soft_stream *stream = soft->streams[i];

		if (!stream || !stream->completed)
			continue;
		stream->completed = false;
		signal_event(stream->event);
	}
}

static void run_errand(struct soft *soft)
{
	struct errand *errand = atomic_exchange(&soft->errand, NULL);

	if (!errand)
		return;
	errand->run(soft, errand->argument);
	pthread_mutex_lock(&soft->lock);
	errand->done = true;
	pthread_cond_signal(&soft->done);
	pthread_mutex_unlock(&soft->lock);
}

static void wait_for_work(struct soft *soft)
{
	struct pollfd fds[2] = {
		{ .fd = soft->ring.fd, .events = POLLIN },
		{ .fd = soft->wake, .events = POLLIN },
	};
	uint64_t due = faults_due(soft->faults), now = now_ns();
	uint64_t wait = due > now ? due - now : 0;
	struct timespec timeout = {
		.tv_sec = (time_t)(wait / 1000000000),
		.tv_nsec = (long)(wait % 1000000000),
	};

	if (ppoll(fds, 2, due == UINT64_MAX ? NULL : &timeout, NULL) <= 0)
		return;
	if (fds[1].revents)
		clear_event(soft->wake);
	if (fds[0].revents & POLLERR)
		packet_ring_refresh(&soft->ring);
}

static void *frame_thread(void *context)
{
	struct soft *soft = context;

	while (!atomic_load(&soft->stop)) {
		uint32_t length, frames = 0;
		uint8_t *frame;

		while (frames < BATCH && (frame = packet_ring_peek(&soft->ring, &length))) {
			faults_frame(soft->faults, frame, length, now_ns());
			packet_ring_advance(&soft->ring);
			frames++;
		}
		faults_tick(soft->faults, now_ns());
		tell_readers(soft);
		run_errand(soft);
		if (!frames)
			wait_for_work(soft);
	}
	return NULL;
}

/* The other threads. */

static void send_on_errand(struct soft *soft, void (*run)(struct soft *, void *), void *argument)
{
	struct errand errand = { .run = run, .argument = argument };

	pthread_mutex_lock(&soft->errands);
	atomic_store(&soft->errand, &errand);
	signal_event(soft->wake);
	pthread_mutex_lock(&soft->lock);
	while (!errand.done)
		pthread_cond_wait(&soft->done, &soft->lock);
	pthread_mutex_unlock(&soft->lock);
	pthread_mutex_unlock(&soft->errands);
}

struct opening {
	struct responder_config *config;
	struct soft_stream *stream;
	struct error *error;
	int rc;
};

static void open_stream(struct soft *soft, void *argument)
{
	struct opening *opening = argument;
	int place = 0;

	while (place < SOFT_STREAMS && soft->streams[place])
		place++;
	if (place == SOFT_STREAMS) {
		opening->rc = error_set(opening->error, ENOSPC, "all %d streams are in use",
					SOFT_STREAMS);
		return;
	}
	/* Taken numbers, 0 and 1 are refused: then another one. */
	do {
		if (getrandom(&opening->config->qpn, sizeof(opening->config->qpn), 0) < 0) {
			opening->rc = error_set(opening->error, errno, "no random numbers: %s",
						strerror(errno));
			return;
		}
		opening->config->qpn &= ROCE_PSN_MASK;
		opening->rc = responder_open(soft->responder, opening->config, &opening->stream->qp,
					     opening->error);
	} while (opening->rc == -EEXIST);
	if (!opening->rc)
		soft->streams[place] = opening->stream;
}

int soft_open(struct soft *soft, struct responder_config *config, struct soft_stream **stream,
	      struct error *error)
{
	struct opening opening = { .config = config, .error = error };

	opening.stream = calloc(1, sizeof(*opening.stream));
	if (!opening.stream)
		return error_set(error, ENOMEM, "no memory for a stream");
	opening.stream->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (opening.stream->event < 0) {
		free(opening.stream);
		return error_set(error, errno, "no eventfd for a stream: %s", strerror(errno));
	}
	send_on_errand(soft, open_stream, &opening);
	if (opening.rc) {
		close(opening.stream->event);
		free(opening.stream);
		return opening.rc;
	}
	*stream = opening.stream;
	return 0;
}

static void close_stream(struct soft *soft, void *argument)
{
	struct soft_stream *stream = argument;

	responder_close(soft->responder, stream->qp);
	for (int i = 0; i < SOFT_STREAMS; i++)
		if (soft->streams[i] == stream)
			soft->streams[i] = NULL;
}

static void free_stream(struct soft_stream *stream)
{
	close(stream->event);
	free(stream);
}

void soft_close(struct soft *soft, struct soft_stream *stream)
{
	send_on_errand(soft, close_stream, stream);
	free_stream(stream);
}

struct reporting {
	const struct soft_stream *stream;
	struct soft_report *report;
};

static void report_stream(struct soft *soft, void *argument)
{
	struct reporting *reporting = argument;
	struct soft_report *report = reporting->report;

	packet_ring_refresh(&soft->ring);
	report->state = responder_state(reporting->stream->qp);
	report->counters = *responder_counters(reporting->stream->qp);
	report->faults = *faults_counters(soft->faults);
	report->ring_drops = soft->ring.ring_drops;
	report->send_errors = soft->ring.send_errors;
	report->foreign_frames = responder_foreign_frames(soft->responder);
}

void soft_report(struct soft *soft, const struct soft_stream *stream, struct soft_report *report)
{
	struct reporting reporting = { .stream = stream, .report = report };

	send_on_errand(soft, report_stream, &reporting);
}

struct responder_qp *soft_qp(const struct soft_stream *stream)
{
	return stream->qp;
}

int soft_event(const struct soft_stream *stream)
{
	return stream->event;
}

/* Life. */

static void free_soft(struct soft *soft)
{
	responder_destroy(soft->responder);
	faults_destroy(soft->faults);
	if (soft->wake >= 0)
		close(soft->wake);
	if (soft->ring.map)
		packet_ring_close(&soft->ring);
	free(soft);
}

static int start_thread(struct soft *soft, struct error *error)
{
	int rc;

	soft->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (soft->wake < 0)
		return error_set(error, errno, "no eventfd: %s", strerror(errno));
	pthread_mutex_init(&soft->errands, NULL);
	pthread_mutex_init(&soft->lock, NULL);
	pthread_cond_init(&soft->done, NULL);
	rc = pthread_create(&soft->thread, NULL, frame_thread, soft);
	return rc ? error_set(error, rc, "the frame thread cannot be started: %s", strerror(rc))
		  : 0;
}

int soft_start(struct soft **soft, const struct soft_config *config, struct error *error)
{
	struct soft *new = calloc(1, sizeof(*new));
	int rc;

	if (!new)
		return error_set(error, ENOMEM, "no memory for the responder");
	new->wake = -1;
	rc = responder_create(&new->responder, SOFT_STREAMS, error);
	if (!rc)
		rc = faults_create(&new->faults, &config->faults, deliver, new, error);
	if (!rc)
		rc = packet_ring_open(&new->ring, config->ifindex, config->interface, error);
	if (!rc)
		rc = start_thread(new, error);
	if (rc) {
		free_soft(new);
		return rc;
	}
	*soft = new;
	return 0;
}

void soft_stop(struct soft *soft)
{
	if (!soft)
		return;
	atomic_store(&soft->stop, true);
	signal_event(soft->wake);
	pthread_join(soft->thread, NULL);
	for (int i = 0; i < SOFT_STREAMS; i++)
		if (soft->streams[i])
			free_stream(soft->streams[i]);
	free_soft(soft);
}
