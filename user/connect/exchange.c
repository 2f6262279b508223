/* SPDX-License-Identifier: BSD-2-Clause */
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

#include "exchange_message.h"

#define SEND_TIMEOUT_MS                                                                            \
	10000 /* a line always fits the socket buffer: only a dead peer lets it wait */
#define BACKLOG 16

/* Deadlines in milliseconds of CLOCK_MONOTONIC; −1 is none. */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t deadline_in(int timeout_ms)
{
	return timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
}

/* Waits for events until the deadline: 0, -ETIMEDOUT, -EINTR. */
static int wait_for(int fd, short events, int64_t deadline)
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

/* Names. */

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

static struct exchange_peer peer_of(int fd, const char *role)
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

/* Connections. */

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
		rc = wait_for(fd, POLLOUT, deadline);
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

static int connect_failed(const char *endpoint, int code, int timeout_ms, struct error *error)
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
				 endpoint, timeout_ms);
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
	int64_t deadline = deadline_in(timeout_ms);
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
	return connect_failed(endpoint, -rc, timeout_ms, error);
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
	struct sockaddr_storage address;
	socklen_t length;
	int fd, rc;

	do {
		length = sizeof(address);
		rc = wait_for(listener, POLLIN, -1);
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

/* Lines. */

static int send_line(int fd, const char *line, size_t length, int64_t deadline)
{
	size_t sent = 0;

	while (sent < length) {
		ssize_t n = send(fd, line + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		int rc = 0;

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			rc = wait_for(fd, POLLOUT, deadline);
		else if (errno != EINTR)
			rc = -errno;
		if (rc)
			return rc;
	}
	return 0;
}

/* length: what formatting returned. role and kind: for the sentence. */
static int send_message(int fd, const char *line, int length, const char *role, const char *kind,
			struct error *error)
{
	struct exchange_peer peer;
	int rc = length;

	if (rc >= 0)
		rc = send_line(fd, line, (size_t)length, deadline_in(SEND_TIMEOUT_MS));
	if (!rc)
		return 0;
	peer = peer_of(fd, role);
	return error_set(error, -rc, "cannot send the %s to %s %s (%s): look at what it printed",
			 kind, role, peer.host,
			 rc == -EPIPE ? "it closed the connection" : strerror(-rc));
}

struct reader {
	int fd;
	const char *role; /* who must be at the other end */
	const char *kind; /* what is expected of it */
	char line[EXCHANGE_LINE];
	size_t length;
	struct exchange_peer peer;
};

/*
 * Takes what is there of the line and nothing after its newline: a look first, then the bytes up to
 * there. 1 when the line is whole, 0 when more is needed, or a negative errno.
 */
static int take_some(struct reader *reader)
{
	char *free_space = reader->line + reader->length;
	ssize_t seen = recv(reader->fd, free_space, sizeof(reader->line) - reader->length,
			    MSG_PEEK | MSG_DONTWAIT);
	char *newline;

	if (seen == 0)
		return -ECONNRESET;
	if (seen < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	newline = memchr(free_space, '\n', (size_t)seen);
	if (newline)
		seen = newline + 1 - free_space;
	seen = recv(reader->fd, free_space, (size_t)seen, MSG_DONTWAIT);
	if (seen <= 0)
		return seen ? -errno : -ECONNRESET;
	reader->length += (size_t)seen;
	/* No need to wait for the end of what cannot become one of our lines. */
	if (reader->line[0] != '{')
		return -EPROTO;
	if (newline)
		return 1;
	return reader->length < sizeof(reader->line) ? 0 : -EMSGSIZE;
}

static int read_failed(struct reader *reader, int code, int timeout_ms, struct error *error)
{
	const struct exchange_peer *peer = &reader->peer;

	switch (code) {
	case EPROTO:
		return exchange_foreign(peer, error);
	case EMSGSIZE:
		return error_set(error, EPROTO,
				 "%s %s sent a line longer than %d bytes: is it xdp2roce?",
				 peer->role, peer->endpoint, EXCHANGE_LINE);
	case ETIMEDOUT:
		return error_set(
			error, code,
			"%s %s sent no %s within %d ms: check that it is xdp2roce and not stopped",
			peer->role, peer->endpoint, reader->kind, timeout_ms);
	case EINTR:
		return error_set(error, code, "interrupted while waiting for the %s of %s %s",
				 reader->kind, peer->role, peer->host);
	case ECONNRESET:
		return error_set(
			error, code,
			"%s %s closed the connection before its %s: look at what it printed",
			peer->role, peer->host, reader->kind);
	default:
		return error_set(error, code,
				 "lost the connection to %s %s while waiting for its %s: %s",
				 peer->role, peer->host, reader->kind, strerror(code));
	}
}

static int read_line(struct reader *reader, int timeout_ms, struct error *error)
{
	int64_t deadline = deadline_in(timeout_ms);
	int rc = take_some(reader);

	while (!rc) {
		rc = wait_for(reader->fd, POLLIN, deadline);
		if (!rc)
			rc = take_some(reader);
	}
	reader->peer = peer_of(reader->fd, reader->role);
	if (rc < 0)
		return read_failed(reader, -rc, timeout_ms, error);
	reader->length--;
	return 0;
}

/* Messages. */

int exchange_send_offer(int fd, const struct exchange_offer *offer, struct error *error)
{
	char line[EXCHANGE_LINE];

	return send_message(fd, line, exchange_format_offer(line, offer), "receiver", "offer",
			    error);
}

int exchange_send_answer(int fd, const struct exchange_answer *answer, struct error *error)
{
	char line[EXCHANGE_LINE];

	return send_message(fd, line, exchange_format_answer(line, answer), "sender", "answer",
			    error);
}

int exchange_send_done(int fd, const struct exchange_count *done, struct error *error)
{
	char line[EXCHANGE_LINE];

	return send_message(fd, line, exchange_format_count(line, "done", done), "receiver",
			    "count", error);
}

int exchange_send_received(int fd, const struct exchange_count *received, struct error *error)
{
	char line[EXCHANGE_LINE];

	return send_message(fd, line, exchange_format_count(line, "received", received), "sender",
			    "count", error);
}

void exchange_send_error(int fd, const char *sentence)
{
	char line[EXCHANGE_LINE];
	int length = exchange_format_error(line, sentence);

	/* Never worth a wait. */
	if (length > 0)
		send_line(fd, line, (size_t)length, now_ms());
}

int exchange_read_offer(int fd, struct exchange_offer *offer, int timeout_ms, struct error *error)
{
	struct reader reader = { .fd = fd, .role = "sender", .kind = "offer" };
	int rc = read_line(&reader, timeout_ms, error);

	return rc ? rc
		  : exchange_parse_offer(reader.line, reader.length, &reader.peer, offer, error);
}

int exchange_read_answer(int fd, struct exchange_answer *answer, int timeout_ms,
			 struct error *error)
{
	struct reader reader = { .fd = fd, .role = "receiver", .kind = "answer" };
	int rc = read_line(&reader, timeout_ms, error);

	return rc ? rc
		  : exchange_parse_answer(reader.line, reader.length, &reader.peer, answer, error);
}

int exchange_read_done(int fd, struct exchange_count *done, int timeout_ms, struct error *error)
{
	struct reader reader = { .fd = fd, .role = "sender", .kind = "done" };
	int rc = read_line(&reader, timeout_ms, error);

	return rc ? rc
		  : exchange_parse_count(reader.line, reader.length, &reader.peer, "done", done,
					 error);
}

int exchange_read_received(int fd, struct exchange_count *received, int timeout_ms,
			   struct error *error)
{
	struct reader reader = { .fd = fd, .role = "receiver", .kind = "received" };
	int rc = read_line(&reader, timeout_ms, error);

	return rc ? rc
		  : exchange_parse_count(reader.line, reader.length, &reader.peer, "received",
					 received, error);
}
