/* SPDX-License-Identifier: BSD-2-Clause */
#include "exchange.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "exchange_connection.h"

#define SEND_TIMEOUT_MS                                                                            \
	10000 /* a line always fits the socket buffer: only a dead peer lets it wait */

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

/* A message's name in a sentence. */
static const char *noun(const char *kind)
{
	if (!strcmp(kind, "done"))
		return "last message";
	return strcmp(kind, "received") ? kind : "confirmation";
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
			peer->role, peer->endpoint, noun(reader->kind), timeout_ms);
	case EINTR:
		return error_set(error, code, "interrupted while waiting for the %s of %s %s",
				 noun(reader->kind), peer->role, peer->host);
	case ECONNRESET:
		return error_set(
			error, code,
			"%s %s closed the connection before its %s: look at what it printed",
			peer->role, peer->host, noun(reader->kind));
	default:
		return error_set(error, code,
				 "lost the connection to %s %s while waiting for its %s: %s",
				 peer->role, peer->host, noun(reader->kind), strerror(code));
	}
}

static int read_line(struct reader *reader, int timeout_ms, struct error *error)
{
	int64_t deadline = exchange_deadline(timeout_ms);
	int rc;

	reader->peer =
		exchange_peer_of(reader->fd, reader->role); /* a reset would take the name away */
	rc = take_some(reader);

	while (!rc) {
		rc = exchange_wait(reader->fd, POLLIN, deadline);
		if (!rc)
			rc = take_some(reader);
	}
	if (rc < 0)
		return read_failed(reader, -rc, timeout_ms, error);
	reader->length--;
	return 0;
}

/*
 * length: what formatting returned. When the peer has closed, the sentence that it left behind says
 * more than our failure to send.
 */
static int send_message(int fd, const char *line, int length, const char *role, const char *kind,
			struct error *error)
{
	struct reader reader = {
		.fd = fd, .role = role, .kind = kind, .peer = exchange_peer_of(fd, role)
	};
	struct exchange_count none;
	int rc = length;

	if (rc >= 0)
		rc = exchange_send_bytes(fd, line, (size_t)length,
					 exchange_deadline(SEND_TIMEOUT_MS));
	if (!rc)
		return 0;
	if (length >= 0 && !read_line(&reader, 0, error) &&
	    exchange_parse_count(reader.line, reader.length, &reader.peer, kind, &none, error) ==
		    -EREMOTEIO)
		return -EREMOTEIO;
	return error_set(error, -rc, "cannot send the %s to %s %s (%s): look at what it printed",
			 kind, role, reader.peer.host,
			 rc == -EPIPE ? "it closed the connection" : strerror(-rc));
}

/* Messages. */

int exchange_send_offer(int fd, const struct exchange_offer *offer, struct error *error)
{
	char line[EXCHANGE_LINE];
	int length = exchange_format_offer(line, offer);

	return send_message(fd, line, length, "receiver", "offer", error);
}

int exchange_send_answer(int fd, const struct exchange_answer *answer, struct error *error)
{
	char line[EXCHANGE_LINE];
	int length = exchange_format_answer(line, answer);

	return send_message(fd, line, length, "sender", "answer", error);
}

int exchange_send_done(int fd, const struct exchange_count *done, struct error *error)
{
	char line[EXCHANGE_LINE];
	int length = exchange_format_count(line, "done", done);

	return send_message(fd, line, length, "receiver", "count", error);
}

int exchange_send_received(int fd, const struct exchange_count *received, struct error *error)
{
	char line[EXCHANGE_LINE];
	int length = exchange_format_count(line, "received", received);

	return send_message(fd, line, length, "sender", "count", error);
}

void exchange_send_error(int fd, const char *sentence)
{
	char line[EXCHANGE_LINE];
	int length = exchange_format_error(line, sentence);

	/* Never worth a wait. */
	if (length > 0)
		exchange_send_bytes(fd, line, (size_t)length, exchange_deadline(0));
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
