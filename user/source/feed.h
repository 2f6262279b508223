/* SPDX-License-Identifier: BSD-2-Clause */
/* A source from the inside: what source.c opens and feed.c reads from; private to this room. */
#ifndef USER_SOURCE_FEED_H
#define USER_SOURCE_FEED_H

#include <pthread.h>

#include "source.h"

struct source {
	struct source_config config;
	enum source_kind kind;
	char *name;     /* the input, as sentences call it */
	uint64_t total; /* payload bytes, 0 when not known (or when there are none) */
	int fd;         /* the input, -1 for a pattern */
	int stop_fd;    /* eventfd: readable when the thread shall end */
	struct source_ring ring;
	pthread_t thread;
	/* The thread's, until it is joined. */
	uint64_t taken; /* bytes read from the input */
	struct error error;
	int status;
	/* Written by the thread, read by anyone. */
	uint64_t excess;
};

/*
 * The body of the thread: messages until the input ends, then the end of the ring. Sets status and
 * error; being stopped is not an error.
 */
void source_feed(struct source *source);

#endif
