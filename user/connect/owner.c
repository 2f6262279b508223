/* SPDX-License-Identifier: BSD-2-Clause */
#include "owner.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define TRIES 16 /* a failed one: the owner ended since, or is between bind and listen */

static socklen_t name_socket(struct sockaddr_un *address, int ifindex)
{
	/* A leading NUL: the abstract name space, which network namespaces have one each of. */
	int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
			      "xdp2roce/interface/%d", ifindex);

	address->sun_family = AF_UNIX;
	address->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int claim(const struct sockaddr_un *address, socklen_t length)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)address, length) || listen(fd, SOMAXCONN))
		rc = -errno;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/*
 * The owner's pid, 0 when another pid namespace hides it, or a negative errno: -ECONNREFUSED when
 * there is no owner any more. The connection is never accepted; the kernel knows who listens.
 */
static pid_t owner_pid(const struct sockaddr_un *address, socklen_t length)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred owner = { 0 };
	socklen_t size = sizeof(owner);
	pid_t pid;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, length) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &size))
		pid = -errno;
	else
		pid = owner.pid;
	close(fd);
	return pid;
}

static int refuse(const char *interface, pid_t pid, struct error *error)
{
	char who[80];

	if (pid > 0)
		snprintf(who, sizeof(who), "xdp2roce, pid %d", pid);
	else
		snprintf(who, sizeof(who), "an xdp2roce in another pid namespace");
	return error_set(error, EBUSY,
			 "interface %s is in use by %s: stop it or choose another interface",
			 interface, who);
}

int owner_claim(int ifindex, const char *interface, struct error *error)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct sockaddr_un address;
	socklen_t length = name_socket(&address, ifindex);
	int rc = -EADDRINUSE;

	for (int i = 0; i < TRIES && rc == -EADDRINUSE; i++) {
		pid_t pid;

		rc = claim(&address, length);
		if (rc != -EADDRINUSE)
			break;
		pid = owner_pid(&address, length);
		if (pid >= 0 || pid == -EAGAIN)
			return refuse(interface, pid, error);
		nanosleep(&pause, NULL);
	}
	if (rc >= 0)
		return rc;
	return error_set(error, -rc, "cannot claim interface %s: %s", interface, strerror(-rc));
}
