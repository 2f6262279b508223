/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recv.h"

#define FIFO_RETRY_MS 50
#define COPIES 1000 /* NAME, NAME.1, … NAME.999 */

/* The last component of the sender's name, without anything that a path or a terminal would read.
 */
static void safe_name(char *safe, size_t size, const char *name)
{
	const char *slash = strrchr(name, '/');
	size_t length = 0;

	name = slash ? slash + 1 : name;
	while (*name == '.')
		name++;
	for (; *name && length < size - 1; name++)
		safe[length++] =
			isalnum((unsigned char)*name) || strchr("._-+@=, ", *name) || (*name & 0x80)
				? *name
				: '_';
	safe[length] = 0;
	if (!length)
		snprintf(safe, size, "stream");
}

/* Nothing that is there already is opened, be it a file or a link to somewhere else. */
static int open_in_directory(const char *path, const char *name, struct error *error)
{
	int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char safe[200], copy[NAME_MAX + 1];
	int fd = -1;

	if (directory < 0)
		return error_set(error, errno, "cannot open the directory %s: %s", path,
				 strerror(errno));
	safe_name(safe, sizeof(safe), name);
	for (int i = 0; i < COPIES && fd < 0; i++) {
		if (i)
			snprintf(copy, sizeof(copy), "%s.%d", safe, i);
		else
			snprintf(copy, sizeof(copy), "%s", safe);
		fd = openat(directory, copy, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0666);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		fd = error_set(error, errno, "cannot create %s in %s: %s", safe, path,
			       strerror(errno));
	close(directory);
	return fd;
}

/* A FIFO is opened as soon as it has a reader; to wait for one inside open() could not be ended. */
static int open_path(const char *path, int stop, struct error *error)
{
	struct pollfd end = { .fd = stop, .events = POLLIN };
	int fd;

	for (;;) {
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != ENXIO)
			return fd;
		if (poll(&end, 1, FIFO_RETRY_MS) > 0)
			return error_set(error, EINTR, "interrupted before %s had a reader", path);
	}
}

int recv_output_open(struct recv_output *output, const char *path, const char *name, int stop,
		     struct error *error)
{
	struct stat status;

	output->fd = -1;
	if (!path)
		return 0;
	if (!strcmp(path, "-"))
		output->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	else if (!stat(path, &status) && S_ISDIR(status.st_mode))
		output->fd = open_in_directory(path, name, error);
	else
		output->fd = open_path(path, stop, error);
	if (output->fd < -1)
		return output->fd;
	if (output->fd < 0)
		return error_set(error, errno, "cannot write to %s: %s", path, strerror(errno));
	output->regular = !fstat(output->fd, &status) && S_ISREG(status.st_mode);
	return 0;
}

/* Pipes take PIPE_BUF bytes without blocking once poll() says so, and can be left meanwhile. */
static int wait_for_room(int fd, int stop, struct error *error)
{
	struct pollfd fds[2] = {
		{ .fd = fd, .events = POLLOUT },
		{ .fd = stop, .events = POLLIN },
	};

	while (poll(fds, 2, -1) < 0)
		if (errno != EINTR)
			return error_set(error, errno, "cannot wait for the output: %s",
					 strerror(errno));
	return fds[1].revents ? error_set(error, EINTR, "interrupted") : 0;
}

int recv_output_write(struct recv_output *output, const uint8_t *data, uint64_t length, int stop,
		      struct error *error)
{
	while (output->fd >= 0 && length) {
		size_t chunk = !output->regular && length > PIPE_BUF ? PIPE_BUF : length;
		ssize_t written;
		int rc = output->regular ? 0 : wait_for_room(output->fd, stop, error);

		if (rc)
			return rc;
		written = write(output->fd, data, chunk);
		if (written < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (written < 0)
			return error_set(error, errno, "cannot write the output: %s",
					 strerror(errno));
		data += written;
		length -= (uint64_t)written;
	}
	return 0;
}

int recv_output_close(struct recv_output *output, struct error *error)
{
	int fd = output->fd;

	output->fd = -1;
	if (fd >= 0 && close(fd))
		return error_set(error, errno, "cannot finish the output: %s", strerror(errno));
	return 0;
}
