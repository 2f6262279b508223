/* SPDX-License-Identifier: BSD-2-Clause */
/* Accepts senders until the wanted number of streams has ended, or the caller says stop. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../connect/guard.h"
#include "recv.h"

#define ACCEPT_PAUSE_MS 100

struct receiver {
	struct recv_shared shared;
	struct recv_stream *streams; /* whose threads have not been joined */
	int listener;
	int stop_fd; /* readable: end; the caller's */
	int guard;
	uint64_t active;   /* entries of streams */
	uint64_t finished; /* streams that were started and have ended */
	uint64_t failed;
	struct error failure; /* of the last of them */
	bool stopping;
};

/* As a program it tells on standard error what becomes of streams; as a library it is silent. */
static bool is_program(const struct receiver *receiver)
{
	return !receiver->shared.options.on_message;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void accept_sender(struct receiver *receiver)
{
	struct recv_stream *stream = calloc(1, sizeof(*stream));
	struct error error = { "no memory for a sender" };
	int rc = -ENOMEM;

	if (stream) {
		stream->shared = &receiver->shared;
		rc = stream->connection = exchange_accept(receiver->listener, stream->peer, &error);
	}
	if (rc >= 0)
		rc = recv_stream_start(stream, &error);
	if (rc >= 0) {
		stream->next = receiver->streams;
		receiver->streams = stream;
		receiver->active++;
		return;
	}
	if (is_program(receiver))
		fprintf(stderr, "xdp2roce recv: %s\n", error.text);
	/* The connection may still be waiting: without descriptors or memory this must not spin. */
	poll(NULL, 0, ACCEPT_PAUSE_MS);
	if (stream && stream->connection >= 0)
		close(stream->connection);
	free(stream);
}

/* Joins the threads that have ended and says what came of them. True when a stream was among them.
 */
static bool collect_streams(struct receiver *receiver)
{
	struct recv_stream **link = &receiver->streams, *stream;
	bool any = false;

	while ((stream = *link)) {
		if (!atomic_load(&stream->ended)) {
			link = &stream->next;
			continue;
		}
		pthread_join(stream->thread, NULL);
		*link = stream->next;
		receiver->active--;
		if (stream->started) {
			if (is_program(receiver))
				recv_report(stream);
			if (!stream->complete)
				receiver->failure = stream->error;
			receiver->finished++;
			receiver->failed += !stream->complete;
			any = true;
		} else if (is_program(receiver)) {
			fprintf(stderr, "xdp2roce recv: refused %s: %s\n", stream->peer,
				stream->error.text);
		}
		free(stream);
	}
	return any;
}

static void stop(struct receiver *receiver)
{
	uint64_t one = 1;

	/* The second time a program does not wait any more. */
	if (receiver->stopping && is_program(receiver))
		_exit(130);
	receiver->stopping = true;
	/* Can only fail when the counter is full, and then all are awake. */
	if (write(receiver->shared.stop, &one, sizeof(one)) < 0)
		return;
}

static int milliseconds_until(uint64_t deadline)
{
	uint64_t now = now_ns(), left = deadline > now ? (deadline - now + 999999) / 1000000 : 0;

	return deadline == UINT64_MAX ? -1 : left > 1000000 ? 1000000 : (int)left;
}

/* Waits for one thing to happen and handles it; moves the deadline when a stream has ended. */
static int turn(struct receiver *receiver, uint64_t *deadline, struct error *error)
{
	const struct recv_options *options = &receiver->shared.options;
	bool wanted =
		receiver->active < SOFT_STREAMS && !receiver->stopping &&
		(!options->streams || receiver->active + receiver->finished < options->streams);
	struct pollfd fds[3] = {
		{ .fd = receiver->stop_fd, .events = POLLIN },
		{ .fd = receiver->shared.finished, .events = POLLIN },
		{ .fd = wanted ? receiver->listener : -1, .events = POLLIN },
	};
	struct signalfd_siginfo news; /* the largest thing that a stop descriptor gives */
	uint64_t count;
	int rc = poll(fds, 3, receiver->stopping ? -1 : milliseconds_until(*deadline));

	if (rc < 0 && errno != EINTR)
		return error_set(error, errno, "cannot wait for senders: %s", strerror(errno));
	if (!rc && !receiver->stopping && now_ns() >= *deadline) {
		return error_set(error, ETIMEDOUT, "no stream finished within %.3f s",
				 (double)options->timeout_ns * 1e-9);
	}
	if (rc <= 0)
		return 0;
	if (fds[0].revents && read(receiver->stop_fd, &news, sizeof(news)) >= 0)
		stop(receiver);
	if (fds[1].revents && read(receiver->shared.finished, &count, sizeof(count)) > 0 &&
	    collect_streams(receiver) && options->timeout_ns)
		*deadline = now_ns() + options->timeout_ns;
	if (fds[2].revents)
		accept_sender(receiver);
	return 0;
}

static int receive(struct receiver *receiver, struct error *error)
{
	const struct recv_options *options = &receiver->shared.options;
	uint64_t deadline = options->timeout_ns ? now_ns() + options->timeout_ns : UINT64_MAX;
	int result = 0;

	while (!receiver->stopping || receiver->active) {
		int rc = turn(receiver, &deadline, error);

		if (rc && !result)
			result = rc;
		if (rc && !receiver->stopping)
			stop(receiver);
		if (options->streams && receiver->finished >= options->streams)
			break;
	}
	if (result)
		return result;
	if (receiver->failed && options->streams == 1) {
		*error = receiver->failure;
		return -EIO;
	}
	if (receiver->failed)
		return error_set(error, EIO, "%" PRIu64 " of %" PRIu64 " streams failed",
				 receiver->failed, receiver->finished);
	if (receiver->finished < options->streams)
		return error_set(error, EINTR,
				 "interrupted after %" PRIu64 " of %" PRIu64 " streams",
				 receiver->finished, options->streams);
	return 0;
}

/* An RDMA device answers late frames itself, and soft-RoCE needs the port for that. */
static int open_guard(struct receiver *receiver, struct error *error)
{
	receiver->guard = guard_open(error);
	return receiver->guard < 0 && receiver->guard != -EADDRINUSE ? receiver->guard : 0;
}

/* Said now, and not when the first sender comes. */
static int check_device(const struct recv_options *options, struct error *error)
{
	struct verbs_choice choice = { .port = options->device_port };

	memcpy(choice.device, options->device, sizeof(choice.device));
	return verbs_check(&choice, error);
}

static int open_receiver(struct receiver *receiver, struct error *error)
{
	const struct recv_options *options = &receiver->shared.options;
	int rc;

	pthread_mutex_init(&receiver->shared.lock, NULL);
	receiver->shared.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	receiver->shared.finished = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (receiver->shared.stop < 0 || receiver->shared.finished < 0)
		return error_set(error, errno, "no descriptor for events: %s", strerror(errno));
	rc = options->soft ? open_guard(receiver, error) : check_device(options, error);
	if (rc)
		return rc;
	receiver->listener =
		exchange_listen(options->host[0] ? options->host : NULL, options->port, error);
	return receiver->listener < 0 ? receiver->listener : 0;
}

/* Scripts wait for this line. With port 0 it tells the one that was chosen. */
static void announce(const struct receiver *receiver)
{
	const struct recv_options *options = &receiver->shared.options;
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);
	uint16_t port = options->port;

	/* The port is at the same place in both families' addresses. */
	if (!getsockname(receiver->listener, (struct sockaddr *)&address, &length))
		port = ntohs(((struct sockaddr_in *)&address)->sin_port);
	fprintf(stderr,
		strchr(options->host, ':') ? "listening on [%s]:%u\n" : "listening on %s:%u\n",
		options->host[0] ? options->host : "*", port);
	fflush(stderr);
}

static void close_receiver(struct receiver *receiver)
{
	int fds[] = { receiver->listener, receiver->shared.stop, receiver->shared.finished,
		      receiver->guard };

	for (int i = 0; i < RECV_INTERFACES; i++)
		soft_stop(receiver->shared.interfaces[i].soft);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

int recv_serve(const struct recv_options *options, int stop_fd, struct error *error)
{
	struct receiver receiver = {
		.shared = {
			.options = *options,
			.stop = -1,
			.finished = -1,
		},
		.listener = -1,
		.stop_fd = stop_fd,
		.guard = -1,
	};
	int rc = open_receiver(&receiver, error);

	if (!rc) {
		if (is_program(&receiver))
			announce(&receiver);
		rc = receive(&receiver, error);
	}
	close_receiver(&receiver);
	return rc;
}
