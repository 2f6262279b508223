/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xdp2roce/roce.h>

#include "guard.h"

/* The filter comes before bind: not even one datagram may reach the receive queue. */
static int drop_everything(int fd)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { .len = 1, .filter = &drop };
	int bytes = 1; /* the kernel rounds up to its minimum */

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)))
		return -errno;
	return 0;
}

static int bind_port(int fd, int family, int v6_only)
{
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT) };
	struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT) };
	int rc;

	if (family == AF_INET) {
		rc = bind(fd, (struct sockaddr *)&any4, sizeof(any4));
	} else {
		rc = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only));
		if (!rc)
			rc = bind(fd, (struct sockaddr *)&any6, sizeof(any6));
	}
	return rc ? -errno : 0;
}

static int open_one(int family, int v6_only)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc;

	if (fd < 0)
		return -errno;
	rc = drop_everything(fd);
	if (!rc)
		rc = bind_port(fd, family, v6_only);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

int guard_open(struct error *error)
{
	/* Both families by one socket; or, where one is taken by another program or missing, the
	 * other. */
	static const struct {
		int family;
		int v6_only;
	} tries[] = { { AF_INET6, 0 }, { AF_INET6, 1 }, { AF_INET, 0 } };
	int fd = 0;

	error->text[0] = '\0';
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		fd = open_one(tries[i].family, tries[i].v6_only);
		if (fd >= 0)
			return fd;
	}
	if (fd == -EADDRINUSE)
		return fd;
	return error_set(error, -fd,
			 "cannot bind UDP port %d, which keeps the kernel from answering late "
			 "frames with ICMP: %s",
			 ROCE_UDP_PORT, strerror(-fd));
}
