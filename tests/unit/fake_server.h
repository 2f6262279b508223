/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server's side of an exchange of messages without framing, as a script of steps. Like the real
 * ones it takes each message with a single read, and so checks that the client sends it in one
 * piece and none before its time.
 */
#ifndef TESTS_UNIT_FAKE_SERVER_H
#define TESTS_UNIT_FAKE_SERVER_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "netns.h"

#define FAKE_HOST "127.0.0.1"
#define FAKE_PORT 18515

struct fake_step {
	const void *expected; /* exactly this */
	size_t length;
	const void *reply; /* NULL: none */
	size_t reply_length;
};

struct fake_server {
	const struct fake_step *steps;
	size_t count;
	bool closes; /* after the last step; else it waits for the client to close */
	int listener;
	pthread_t thread;
	char problem[256];
	size_t done; /* steps */
};

static inline void fake_server_step(struct fake_server *server, int fd)
{
	const struct fake_step *step = &server->steps[server->done];
	char bytes[512];
	ssize_t n = recv(fd, bytes, step->length, 0);

	if (n < 0 || (size_t)n != step->length)
		snprintf(server->problem, sizeof(server->problem),
			 "step %zu: read %zd bytes, expected %zu", server->done, n, step->length);
	else if (memcmp(bytes, step->expected, step->length))
		snprintf(server->problem, sizeof(server->problem), "step %zu: found '%.*s'",
			 server->done, (int)step->length, bytes);
	else if (step->reply_length && recv(fd, bytes, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
		snprintf(server->problem, sizeof(server->problem),
			 "step %zu: more than one message at a time", server->done);
	else if (send(fd, step->reply, step->reply_length, MSG_NOSIGNAL) !=
		 (ssize_t)step->reply_length)
		snprintf(server->problem, sizeof(server->problem), "step %zu: %s", server->done,
			 strerror(errno));
	server->done += !server->problem[0];
}

static inline void *fake_server_run(void *data)
{
	struct fake_server *server = data;
	int fd = accept(server->listener, NULL, NULL);
	char byte;

	while (fd >= 0 && server->done < server->count && !server->problem[0])
		fake_server_step(server, fd);
	if (!server->closes && !server->problem[0] && recv(fd, &byte, 1, 0) > 0)
		snprintf(server->problem, sizeof(server->problem), "more after the last step");
	close(fd);
	return NULL;
}

/* In a network namespace of this test's own. */
static inline void fake_server_start(struct fake_server *server, const struct fake_step *steps,
				     size_t count)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(FAKE_PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int on = 1;

	server->steps = steps;
	server->count = count;
	server->done = 0;
	server->problem[0] = 0;
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	cr_assert_eq(bind(server->listener, (const struct sockaddr *)&address, sizeof(address)), 0,
		     "%s", strerror(errno));
	cr_assert_eq(listen(server->listener, 1), 0);
	cr_assert_eq(pthread_create(&server->thread, NULL, fake_server_run, server), 0);
}

/* After the client has closed. */
static inline void fake_server_end(struct fake_server *server)
{
	pthread_join(server->thread, NULL);
	close(server->listener);
	cr_expect_str_empty(server->problem);
	cr_expect_eq(server->done, server->count, "%zu steps done, expected %zu", server->done,
		     server->count);
}

#endif
