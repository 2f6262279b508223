/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing: the UMEM, its registration, the bind, and a sentence for each way they can
 * fail. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "socket.h"

/* The kernel takes a closed socket's queue back later, 3 to 20 ms as measured. */
#define BUSY_RETRIES 60
#define BUSY_RETRY_NS 5000000

#define FILL_ENTRIES 64

/* Queues that the interface has now, 0 when its driver does not say. */
static uint32_t count_queues(int fd, struct ifreq *request)
{
	struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };
	uint32_t separate;
	int rc;

	request->ifr_data = (char *)&channels;
	rc = ioctl(fd, SIOCETHTOOL, request);
	request->ifr_data = NULL;
	if (rc < 0)
		return 0;
	separate = channels.rx_count > channels.tx_count ? channels.rx_count : channels.tx_count;
	return channels.combined_count + separate;
}

static int check_link_type(int fd, struct ifreq *request, struct error *error)
{
	if (ioctl(fd, SIOCGIFHWADDR, request) < 0)
		return error_set(error, errno, "interface %s cannot be examined: %s",
				 request->ifr_name, strerror(errno));
	if (request->ifr_hwaddr.sa_family == ARPHRD_ETHER ||
	    request->ifr_hwaddr.sa_family == ARPHRD_LOOPBACK)
		return 0;
	return error_set(error, EOPNOTSUPP,
			 "interface %s does not carry Ethernet frames (link type %u): choose an "
			 "Ethernet interface",
			 request->ifr_name, request->ifr_hwaddr.sa_family);
}

/* What can be said before the bind; afterwards all of it is the same EINVAL. */
static int check_interface(const struct xsk_config *config, uint32_t *queues, struct error *error)
{
	struct ifreq request = { 0 };
	int fd, rc;

	if (if_nametoindex(config->interface) == 0)
		return error_set(
			error, ENODEV,
			"there is no interface %s in this network namespace (see: ip link)",
			config->interface);
	strncpy(request.ifr_name, config->interface, sizeof(request.ifr_name) - 1);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(error, errno, "interface %s cannot be examined: %s",
				 config->interface, strerror(errno));
	rc = check_link_type(fd, &request, error);
	*queues = count_queues(fd, &request);
	close(fd);
	if (rc == 0 && *queues > 0 && config->queue >= *queues)
		rc = error_set(error, ENODEV,
			       "interface %s has no queue %u: it has %u, numbered from 0 (see: "
			       "ethtool -l %s)",
			       config->interface, config->queue, *queues, config->interface);
	return rc;
}

static int check_config(const struct xsk_config *config, struct error *error)
{
	if (config->umem_bytes == 0 || config->umem_bytes % XSK_CHUNK != 0)
		return error_set(error, EINVAL, "a UMEM of %zu bytes is not a multiple of %u bytes",
				 config->umem_bytes, XSK_CHUNK);
	/* Two descriptors for one frame must be possible; 2^20 keeps the rings below 32 MiB. */
	if (config->tx_entries < 2 || config->tx_entries > 1u << 20 ||
	    (config->tx_entries & (config->tx_entries - 1)) != 0)
		return error_set(error, EINVAL,
				 "a TX ring of %u entries is not a power of two from 2 to 1048576",
				 config->tx_entries);
	return 0;
}

static int explain_registration(const struct xsk_config *config, int code, struct error *error)
{
	struct rlimit limit = { 0 };

	switch (code) {
	case EPERM:
		return error_set(error, code,
				 "AF_XDP on %s needs CAP_NET_RAW, which this process does not "
				 "have: run it as root",
				 config->interface);
	case EAFNOSUPPORT:
		return error_set(error, code,
				 "this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS): use one "
				 "that has them");
	case ENOBUFS:
	case ENOMEM:
		if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
			break;
		return error_set(
			error, code,
			"the kernel did not lock the %zu KiB of the UMEM: RLIMIT_MEMLOCK is "
			"%llu KiB for all processes of this user; raise it to at least %zu "
			"KiB (ulimit -l, LimitMEMLOCK=) or run with CAP_IPC_LOCK",
			config->umem_bytes >> 10, (unsigned long long)limit.rlim_cur >> 10,
			config->umem_bytes >> 10);
	}
	return error_set(error, code, "the UMEM of %zu KiB for %s could not be registered: %s",
			 config->umem_bytes >> 10, config->interface, strerror(code));
}

static int explain_bind(const struct xsk_config *config, uint32_t queues, int code,
			struct error *error)
{
	switch (code) {
	case EBUSY:
		return error_set(
			error, code,
			"queue %u of %s is in use by another AF_XDP socket: end that program or "
			"choose another queue",
			config->queue, config->interface);
	case EINVAL:
		if (config->multi_buffer && queues > 0)
			return error_set(error, code,
					 "kernel 6.6 or later is needed for PMTU 4096 (the bind to "
					 "queue %u of "
					 "%s refused XDP_USE_SG): use PMTU 2048 or less",
					 config->queue, config->interface);
		return error_set(
			error, code,
			"%s refused an AF_XDP socket on queue %u: the queue does not exist%s",
			config->interface, config->queue,
			config->multi_buffer
				? ", or the kernel is older than 6.6, which PMTU 4096 needs"
				: "");
	case EOPNOTSUPP:
		return error_set(error, code,
				 "the driver of %s cannot do AF_XDP: choose another interface",
				 config->interface);
	case ENETDOWN:
		return error_set(error, code, "interface %s is down: ip link set %s up",
				 config->interface, config->interface);
	case EPERM:
		return explain_registration(config, code, error);
	default:
		return error_set(error, code, "AF_XDP socket on queue %u of %s: %s", config->queue,
				 config->interface, strerror(code));
	}
}

static int register_umem(struct xsk *xsk, const struct xsk_config *config, struct error *error)
{
	struct xsk_umem_config umem = {
		.fill_size = FILL_ENTRIES,
		.comp_size = xsk->entries,
		.frame_size = XSK_CHUNK,
	};
	int rc;

	/* libxdp leaves the completion ring's cached indices as it finds them. */
	memset(&xsk->fill, 0, sizeof(xsk->fill));
	memset(&xsk->completion, 0, sizeof(xsk->completion));
	memset(&xsk->tx, 0, sizeof(xsk->tx));
	rc = xsk_umem__create(&xsk->registration, xsk->umem, xsk->umem_bytes, &xsk->fill,
			      &xsk->completion, &umem);
	if (rc < 0) {
		xsk->registration = NULL;
		return explain_registration(config, -rc, error);
	}
	return 0;
}

static void unbind(struct xsk *xsk)
{
	if (xsk->socket)
		xsk_socket__delete(xsk->socket);
	if (xsk->registration)
		xsk_umem__delete(xsk->registration);
	xsk->socket = NULL;
	xsk->registration = NULL;
}

static int bind_once(struct xsk *xsk, const struct xsk_config *config, uint32_t queues,
		     struct error *error)
{
	struct xsk_socket_config socket_config = {
		.tx_size = xsk->entries,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags =
			XDP_COPY | XDP_USE_NEED_WAKEUP | (config->multi_buffer ? XDP_USE_SG : 0),
	};
	int rc = register_umem(xsk, config, error);

	if (rc < 0)
		return rc;
	rc = xsk_socket__create(&xsk->socket, config->interface, config->queue, xsk->registration,
				NULL, &xsk->tx, &socket_config);
	if (rc == 0) {
		xsk->fd = xsk_socket__fd(xsk->socket);
		return 0;
	}
	/* The registration is used up by a failed bind. */
	xsk->socket = NULL;
	unbind(xsk);
	return explain_bind(config, queues, -rc, error);
}

static int map_umem(struct xsk *xsk, size_t bytes, struct error *error)
{
	/* Populated now: a page fault in the middle of a stream would cost more than the frame. */
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		return error_set(error, errno, "no memory for a UMEM of %zu KiB: %s", bytes >> 10,
				 strerror(errno));
	xsk->umem = memory;
	xsk->umem_bytes = bytes;
	return 0;
}

int xsk_open(struct xsk **result, const struct xsk_config *config, struct error *error)
{
	const struct timespec pause = { .tv_nsec = BUSY_RETRY_NS };
	uint32_t queues = 0;
	struct xsk *xsk;
	int rc;

	*result = NULL;
	rc = check_config(config, error);
	if (rc < 0)
		return rc;
	rc = check_interface(config, &queues, error);
	if (rc < 0)
		return rc;
	xsk = calloc(1, sizeof(*xsk));
	if (!xsk)
		return error_set(error, ENOMEM, "no memory for an AF_XDP socket");
	xsk->entries = config->tx_entries;
	xsk->multi_buffer = config->multi_buffer;
	rc = map_umem(xsk, config->umem_bytes, error);
	if (rc == 0)
		rc = bind_once(xsk, config, queues, error);
	for (int i = 0; rc == -EBUSY && i < BUSY_RETRIES; i++) {
		nanosleep(&pause, NULL);
		rc = bind_once(xsk, config, queues, error);
	}
	if (rc < 0) {
		xsk_close(xsk);
		return rc;
	}
	error->text[0] = '\0';
	*result = xsk;
	return 0;
}

void xsk_close(struct xsk *xsk)
{
	if (!xsk)
		return;
	unbind(xsk);
	if (xsk->umem)
		munmap(xsk->umem, xsk->umem_bytes);
	free(xsk);
}
