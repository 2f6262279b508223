/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a source's thread does: input into the ring. It may sleep in two places, on the input and on
 * a full ring, and stop_fd ends both.
 *
 * Inside, functions return −ECANCELED when they were stopped.
 */
#include "feed.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE                                                                                      \
	(1u << 20) /* bytes per read: enough to make the calls cheap, small enough to stop soon */

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Waits for the input (a regular file is always ready; -1 is none and does not wait). */
static int wait_for_input(struct source *source)
{
	struct pollfd fds[] = {
		{ .fd = source->stop_fd, .events = POLLIN },
		{ .fd = source->fd, .events = POLLIN },
	};

	while (poll(fds, 2, source->fd < 0 ? 0 : -1) < 0) {
		if (errno != EINTR)
			return error_set(&source->error, errno, "%s cannot be waited for: %s",
					 source->name, strerror(errno));
	}
	return fds[0].revents ? -ECANCELED : 0;
}

/* Returns the bytes read, 0 at the end of the input, or a negative errno. */
static ssize_t read_some(struct source *source, uint8_t *to, uint64_t room)
{
	ssize_t n;

	do {
		int rc = wait_for_input(source);

		if (rc < 0)
			return rc;
		n = read(source->fd, to, min(room, PIECE));
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return error_set(&source->error, errno, "reading %s failed at byte %llu: %s",
				 source->name, (unsigned long long)source->taken, strerror(errno));
	source->taken += (uint64_t)n;
	return n;
}

/* Fills the current message from byte `from` on. Returns the bytes it holds then; fewer at the end.
 */
static ssize_t fill_message(struct source *source, uint8_t *payload, uint64_t from, uint64_t length)
{
	ssize_t n = 1;

	while (from < length && n > 0) {
		n = read_some(source, payload + from, length - from);
		if (n < 0)
			return n;
		from += (uint64_t)n;
		if (n > 0)
			source_ring_commit(&source->ring, from);
	}
	return (ssize_t)from;
}

static int empty_message(struct source *source)
{
	if (!source_ring_begin(&source->ring, 0, true, source->stop_fd))
		return -ECANCELED;
	source_ring_end(&source->ring);
	return 0;
}

static int feed_file(struct source *source)
{
	uint64_t size = source->total;

	if (size == 0)
		return empty_message(source);
	while (source->taken < size) {
		uint64_t length = min(source->config.message_size, size - source->taken);
		uint8_t *payload = source_ring_begin(&source->ring, length, true, source->stop_fd);
		ssize_t n;

		if (!payload)
			return -ECANCELED;
		n = fill_message(source, payload, 0, length);
		if (n < 0)
			return (int)n;
		if ((uint64_t)n < length)
			return error_set(
				&source->error, EIO,
				"%s became shorter while it was read: it ends at byte %llu, it had "
				"%llu bytes when it was opened",
				source->name, (unsigned long long)source->taken,
				(unsigned long long)size);
		source_ring_end(&source->ring);
	}
	return 0;
}

/*
 * The first byte decides that a message starts: a stream that ends on a message's border must not
 * leave one behind that is all fill.
 */
static int feed_stream(struct source *source, uint64_t size)
{

	while (source->taken < size) {
		uint64_t length = min(source->config.message_size, size - source->taken);
		uint8_t first, *payload;
		ssize_t n = read_some(source, &first, 1);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return source->taken == 0 ? empty_message(source) : 0;
		payload = source_ring_begin(&source->ring, length, true, source->stop_fd);
		if (!payload)
			return -ECANCELED;
		payload[0] = first;
		source_ring_commit(&source->ring, 1);
		n = fill_message(source, payload, 1, length);
		if (n < 0)
			return (int)n;
		source_ring_end(&source->ring);
		if ((uint64_t)n < length)
			return 0;
	}
	return 0;
}

/* A message starts when it is complete; it is built in reserved space, so nothing is copied. */
static int feed_unknown_stream(struct source *source)
{
	uint64_t size = source->config.message_size, got;
	ssize_t n;

	do {
		uint8_t *payload = source_ring_reserve(&source->ring, size, true, source->stop_fd);

		if (!payload)
			return -ECANCELED;
		n = 1;
		for (got = 0; got < size && n > 0; got += (uint64_t)n) {
			n = read_some(source, payload + got, size - got);
			if (n < 0)
				return (int)n;
		}
		if (got == 0)
			return source->taken == 0 ? empty_message(source) : 0;
		source_ring_begin(&source->ring, got, false, -1);
		source_ring_commit(&source->ring, got);
		source_ring_end(&source->ring);
	} while (n > 0);
	return 0;
}

static int feed_pattern(struct source *source)
{
	const struct source_config *config = &source->config;

	for (uint64_t i = 0; i < config->messages; i++) {
		uint64_t length = config->message_size, done = 0;
		uint8_t *payload = source_ring_begin(&source->ring, length, true, source->stop_fd);

		if (!payload)
			return -ECANCELED;
		while (done < length) {
			uint64_t n = min(PIECE, length - done);
			int rc = wait_for_input(source);

			if (rc < 0)
				return rc;
			source_pattern_fill(payload + done, config->seed, i * length + done, n);
			done += n;
			source_ring_commit(&source->ring, done);
		}
		source_ring_end(&source->ring);
	}
	return 0;
}

/*
 * What a stream has beyond stream_bytes. Only where there is a writer that a closed pipe would
 * kill; a device such as /dev/zero has none, and no end.
 */
static void discard_rest(struct source *source)
{
	static _Thread_local uint8_t scratch[65536];
	struct stat status;
	ssize_t n;

	if (fstat(source->fd, &status) < 0 ||
	    !(S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)))
		return;
	while ((n = read_some(source, scratch, sizeof(scratch))) > 0)
		__atomic_fetch_add(&source->excess, (uint64_t)n, __ATOMIC_RELAXED);
}

static int feed(struct source *source)
{
	switch (source->kind) {
	case SOURCE_FILE:
		return feed_file(source);
	case SOURCE_STREAM:
		if (source->config.stream_bytes)
			return feed_stream(source, source->config.stream_bytes);
		return source->config.open_ended ? feed_stream(source, UINT64_MAX)
						 : feed_unknown_stream(source);
	case SOURCE_PATTERN:
		return feed_pattern(source);
	}
	return -EINVAL;
}

void source_feed(struct source *source)
{
	int rc = feed(source);

	if (source->ring.in_message)
		source_ring_end(&source->ring);
	/* Who stops a source stops in the middle: that is no end that a receiver may take for
	 * complete. */
	source_ring_finish(&source->ring, rc < 0);
	source->status = rc == -ECANCELED ? 0 : rc;
	if (rc == 0 && source->kind == SOURCE_STREAM && source->config.stream_bytes)
		discard_rest(source);
}
