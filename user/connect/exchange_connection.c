/* SPDX-License-Identifier: BSD-2-Clause */
#include "exchange_connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 16

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t exchange_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
}

int exchange_wait(int fd, short events, int64_t deadline)
{
	struct pollfd pollfd = { .fd = fd, .events = events };
	int64_t left = deadline < 0 ? -1 : deadline - now_ms();
	int rc;

	if (deadline >= 0 && left < 0)
		left = 0;
	rc = poll(&pollfd, 1, left > INT_MAX ? INT_MAX : (int)left);
	if (rc < 0)
		return -errno;
	return rc ? 0 : -ETIMEDOUT;
}

int exchange_send_bytes(int fd, const void *bytes, size_t length, int64_t deadline)
{
	size_t sent = 0;

	while (sent < length) {
		ssize_t n = send(fd, (const char *)bytes + sent, length - sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		int rc = 0;

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			rc = exchange_wait(fd, POLLOUT, deadline);
		else if (errno != EINTR)
			rc = -errno;
		if (rc)
			return rc;
	}
	return 0;
}

int exchange_read_bytes(int fd, void *bytes, size_t length, size_t *have, int64_t deadline)
{
	while (*have < length) {
		ssize_t n = recv(fd, (char *)bytes + *have, length - *have, MSG_DONTWAIT);
		int rc = 0;

		if (n > 0)
			*have += (size_t)n;
		else if (n == 0)
			rc = -ECONNRESET;
		else if (errno == EAGAIN)
			rc = exchange_wait(fd, POLLIN, deadline);
		else if (errno != EINTR)
			rc = -errno;
		if (rc)
			return rc;
	}
	return 0;
}

static void name_endpoint(char *text, size_t size, const char *host, unsigned int port)
{
	snprintf(text, size, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

/* An IPv4 peer of a dual-stack listener is shown as IPv4. */
static unsigned int name_address(char *host, size_t size, const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	if (address->ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, host, (socklen_t)size);
		return ntohs(v4->sin_port);
	}
	if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, host, (socklen_t)size);
		return ntohs(v6->sin6_port);
	}
	if (address->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, host, (socklen_t)size);
		return ntohs(v6->sin6_port);
	}
	snprintf(host, size, "at the other end");
	return 0;
}

struct exchange_peer exchange_peer_of(int fd, const char *role)
{
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);
	struct exchange_peer peer = { .role = role };
	unsigned int port;

	if (getpeername(fd, (struct sockaddr *)&address, &length))
		address.ss_family = AF_UNSPEC;
	port = name_address(peer.host, sizeof(peer.host), &address);
	if (port)
		name_endpoint(peer.endpoint, sizeof(peer.endpoint), peer.host, port);
	else
		snprintf(peer.endpoint, sizeof(peer.endpoint), "%s", peer.host);
	return peer;
}

/* A peer whose machine is gone is noticed within about 11 s, also while nothing is said. */
static void set_options(int fd)
{
	static const struct {
		int level;
		int name;
		int value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },  { SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 5 }, { IPPROTO_TCP, TCP_KEEPINTVL, 2 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

static int resolve(const char *host, uint16_t port, int flags, int family, struct addrinfo **list,
		   struct error *error)
{
	struct addrinfo hints = {
		.ai_family = family,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = flags | AI_NUMERICSERV,
	};
	char service[8];
	int rc;

	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(host, service, &hints, list);
	if (!rc)
		return 0;
	return error_set(error, ENOENT,
			 "host %s is not known (%s): check the name or give an IP address",
			 host ? host : "any",
			 rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
}

static int connect_one(const struct addrinfo *address, int64_t deadline)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t length = sizeof(int);
	int rc = 0, pending = 0;

	if (fd < 0)
		return -errno;
	set_options(fd);
	if (connect(fd, address->ai_addr, address->ai_addrlen))
		rc = -errno;
	if (rc == -EINPROGRESS) {
		rc = exchange_wait(fd, POLLOUT, deadline);
		if (!rc && getsockopt(fd, SOL_SOCKET, SO_ERROR, &pending, &length))
			rc = -errno;
		else if (!rc)
			rc = -pending;
	}
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static int connect_failed(const char *endpoint, int code, int waited_ms, struct error *error)
{
	switch (code) {
	case ECONNREFUSED:
		return error_set(
			error, code,
			"nothing listens at %s: start `xdp2roce recv --soft --listen …` there",
			endpoint);
	case ETIMEDOUT:
		return error_set(error, code,
				 "%s did not answer within %d ms: check the address, the cable and "
				 "the firewall",
				 endpoint, waited_ms);
	case EINTR:
		return error_set(error, code, "interrupted while connecting to %s", endpoint);
	case ENETUNREACH:
		return error_set(
			error, code,
			"no route to %s: give this machine an address in its network or a gateway",
			endpoint);
	default:
		return error_set(error, code,
				 "cannot connect to %s (%s): check the address and the network",
				 endpoint, strerror(code));
	}
}

int exchange_connect(const char *host, uint16_t port, int timeout_ms, struct error *error)
{
	struct addrinfo *list;
	int64_t start = now_ms(), deadline = exchange_deadline(timeout_ms);
	char endpoint[320];
	int left = 0;
	int rc = resolve(host, port, 0, AF_UNSPEC, &list, error);

	if (rc)
		return rc;
	for (struct addrinfo *address = list; address; address = address->ai_next)
		left++;
	/* Every address gets its share of the time: one that swallows packets must not hide the
	 * next. */
	for (struct addrinfo *address = list; address; address = address->ai_next, left--) {
		int64_t share = deadline < 0 ? -1 : now_ms() + (deadline - now_ms()) / left;

		rc = connect_one(address, share);
		if (rc >= 0 || rc == -EINTR)
			break;
	}
	freeaddrinfo(list);
	if (rc >= 0)
		return rc;
	name_endpoint(endpoint, sizeof(endpoint), host, port);
	return connect_failed(endpoint, -rc, (int)(now_ms() - start), error);
}

static int listen_one(const struct addrinfo *address)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0, rc = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, address->ai_addr, address->ai_addrlen) || listen(fd, BACKLOG))
		rc = -errno;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static int listen_failed(const char *host, uint16_t port, int code, struct error *error)
{
	char endpoint[320];

	name_endpoint(endpoint, sizeof(endpoint), host ? host : "*", port);
	switch (code) {
	case EADDRINUSE:
		return error_set(
			error, code,
			"%s is in use: stop the program that listens there or choose another port",
			endpoint);
	case EADDRNOTAVAIL:
		return error_set(
			error, code,
			"%s is not an address of this machine: choose one that `ip address` shows",
			host ? host : "*");
	case EACCES:
		return error_set(error, code,
				 "listening at port %u needs root: choose a port above 1023", port);
	default:
		return error_set(error, code, "cannot listen at %s: %s", endpoint, strerror(code));
	}
}

int exchange_listen(const char *host, uint16_t port, struct error *error)
{
	/* Any: one IPv6 socket takes both families; where there is no IPv6, IPv4 alone. */
	int families[2] = { host ? AF_UNSPEC : AF_INET6, AF_INET };
	struct addrinfo *list;
	int rc = 0;

	for (int i = 0; i < (host ? 1 : 2); i++) {
		rc = resolve(host, port, AI_PASSIVE, families[i], &list, error);
		if (rc)
			return rc;
		for (struct addrinfo *address = list; address; address = address->ai_next) {
			rc = listen_one(address);
			if (rc >= 0)
				break;
		}
		freeaddrinfo(list);
		if (rc >= 0)
			return rc;
	}
	return listen_failed(host, port, -rc, error);
}

int exchange_accept(int listener, char peer[64], struct error *error)
{
	struct sockaddr_storage address = { 0 };
	socklen_t length;
	int fd, rc;

	do {
		length = sizeof(address);
		rc = exchange_wait(listener, POLLIN, -1);
		if (rc)
			return error_set(error, -rc, "interrupted while waiting for a sender");
		fd = accept4(listener, (struct sockaddr *)&address, &length,
			     SOCK_CLOEXEC | SOCK_NONBLOCK);
	} while (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EPROTO));
	if (fd < 0)
		return error_set(error, errno, "cannot accept a sender's connection: %s",
				 strerror(errno));
	set_options(fd);
	name_address(peer, 64, &address);
	return fd;
}
