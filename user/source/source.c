/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening an input, starting its thread, and stopping it. */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xdp2roce/roce.h>

#include "feed.h"

static int open_input(struct source *source, struct error *error)
{
	const char *path = source->config.path;

	if (strcmp(path, "-") == 0)
		source->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		/* A FIFO opens without waiting for its writer: the thread waits, and can be
		 * stopped. */
		source->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (source->fd < 0)
		return error_set(
			error, errno,
			"%s cannot be opened: %s; a readable file, a FIFO or - is expected",
			source->name, strerror(errno));
	return 0;
}

static int examine_input(struct source *source, struct error *error)
{
	struct stat status;
	off_t position;

	if (fstat(source->fd, &status) < 0)
		return error_set(error, errno, "%s cannot be examined: %s", source->name,
				 strerror(errno));
	if (S_ISDIR(status.st_mode))
		return error_set(error, EISDIR,
				 "%s is a directory; a file, a FIFO or - is expected",
				 source->name);
	if (!S_ISREG(status.st_mode)) {
		source->kind = SOURCE_STREAM;
		source->total = source->config.stream_bytes;
		return 0;
	}
	source->kind = SOURCE_FILE;
	position = lseek(source->fd, 0, SEEK_CUR);
	if (position >= 0 && position < status.st_size)
		source->total = (uint64_t)(status.st_size - position);
	posix_fadvise(source->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

static int open_pattern(struct source *source, struct error *error)
{
	const struct source_config *config = &source->config;

	source->kind = SOURCE_PATTERN;
	if (__builtin_mul_overflow(config->messages, config->message_size, &source->total))
		return error_set(error, EINVAL,
				 "%llu messages of %llu bytes are more than 2^64 bytes",
				 (unsigned long long)config->messages,
				 (unsigned long long)config->message_size);
	return 0;
}

static int check_message_size(const struct source_config *config, struct error *error)
{
	uint64_t smallest = config->path ? 1 : 0;

	if (config->message_size >= smallest && config->message_size <= ROCE_MAX_MESSAGE)
		return 0;
	return error_set(error, EINVAL,
			 "a message of %llu bytes is not possible: %llu to %u bytes are",
			 (unsigned long long)config->message_size, (unsigned long long)smallest,
			 ROCE_MAX_MESSAGE);
}

static int make_ring(struct source *source, struct error *error)
{
	uint64_t largest = source->config.message_size;

	if (source->kind == SOURCE_FILE && source->total < largest)
		largest = source->total;
	return source_ring_create(&source->ring, source_ring_size_for(largest), error);
}

static void *thread_main(void *argument)
{
	source_feed(argument);
	return NULL;
}

/* Signals are the main thread's. */
static int start_thread(struct source *source, struct error *error)
{
	sigset_t all, before;
	int rc;

	source->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (source->stop_fd < 0)
		return error_set(error, errno, "no eventfd for %s: %s", source->name,
				 strerror(errno));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&source->thread, NULL, thread_main, source);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return error_set(error, rc, "no thread for %s: %s", source->name, strerror(rc));
	pthread_setname_np(source->thread, "source");
	return 0;
}

static void destroy(struct source *source)
{
	source_ring_close(&source->ring);
	if (source->fd >= 0)
		close(source->fd);
	if (source->stop_fd >= 0)
		close(source->stop_fd);
	free(source->name);
	free(source);
}

static struct source *make_source(const struct source_config *config)
{
	struct source *source = calloc(1, sizeof(*source));
	const char *name = !config->path                    ? "the pattern"
			   : strcmp(config->path, "-") == 0 ? "standard input"
							    : config->path;

	if (!source)
		return NULL;
	source->config = *config;
	source->fd = source->stop_fd = -1;
	source->ring.memory_fd = source->ring.payload_fd = source->ring.space_fd = -1;
	source->name = strdup(name);
	if (!source->name) {
		free(source);
		return NULL;
	}
	return source;
}

int source_start(struct source **result, const struct source_config *config, struct error *error)
{
	struct source *source;
	int rc = check_message_size(config, error);

	*result = NULL;
	if (rc < 0)
		return rc;
	source = make_source(config);
	if (!source)
		return error_set(error, ENOMEM, "no memory for a source");
	rc = config->path ? open_input(source, error) : open_pattern(source, error);
	if (source->fd >= 0)
		rc = examine_input(source, error);
	source->config.path = NULL; /* the caller's; the name is our copy */
	if (rc == 0)
		rc = make_ring(source, error);
	if (rc == 0)
		rc = start_thread(source, error);
	if (rc < 0) {
		destroy(source);
		return rc;
	}
	*result = source;
	return 0;
}

const struct source_ring *source_ring_of(const struct source *source)
{
	return &source->ring;
}

enum source_kind source_kind(const struct source *source)
{
	return source->kind;
}

uint64_t source_total_bytes(const struct source *source)
{
	return source->total;
}

uint64_t source_excess_bytes(const struct source *source)
{
	return __atomic_load_n(&source->excess, __ATOMIC_RELAXED);
}

int source_stop(struct source *source, struct error *error)
{
	const uint64_t one = 1;
	ssize_t written;
	int status;

	if (!source)
		return 0;
	written = write(source->stop_fd, &one, sizeof(one));
	(void)written;
	pthread_join(source->thread, NULL);
	status = source->status;
	if (status < 0)
		*error = source->error;
	destroy(source);
	return status;
}
