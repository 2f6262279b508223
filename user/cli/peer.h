/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is at the other end, and how both ends connect: `xdp2roce recv` with the exchange of our own,
 * or a program that knows nothing of xdp2roce, with its own. What the sender does in between is the
 * same for all.
 */
#ifndef USER_CLI_PEER_H
#define USER_CLI_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#include "../connect/exchange.h"

struct sender;
struct sender_stream;

/* All return 0 or a negative errno with a sentence. Where NULL is allowed, there is nothing to do.
 */
struct peer {
	const char *scheme;      /* SCHEME://HOST[:PORT] */
	uint16_t port;           /* by default */
	bool takes_writes;       /* else one empty message is sent, and its refusal is the answer */
	bool takes_immediate;    /* posts receives */
	bool takes_record;       /* and packet mode: knows what a record is */
	const char *access_hint; /* why it would refuse access to its memory, or what to do */

	/* Reaches the receiver, before there are queue pairs. May lower sender->pmtu. */
	int (*connect)(struct sender *sender, const char *host, struct error *error);
	/* Tells of a stream's queue pair and learns of the receiver's: stream->answer. */
	int (*exchange)(struct sender *sender, struct sender_stream *stream,
			const struct exchange_offer *offer, struct error *error);
	/* All queue pairs are exchanged: returns when the receiver takes frames. May be NULL. */
	int (*ready)(struct sender *sender, struct error *error);
	/*
	 * While frames are on the way. -EREMOTEIO: the receiver says that it fails; another error:
	 * the connection is gone, and what became of the receiver will be seen. May be NULL.
	 */
	int (*watch)(struct sender *sender, struct sender_stream *stream, struct error *error);
	/* Everything is acknowledged. Never waits: -EAGAIN, to be called again. May be NULL. */
	int (*finish)(struct sender *sender, struct sender_stream *stream, struct error *error);
	/* Best effort: the sentence for the receiver. May be NULL. */
	void (*fail)(struct sender *sender, struct sender_stream *stream, const char *sentence);
	/* Wherever connect or exchange stopped. */
	void (*close)(struct sender *sender);
};

#define PEER_TIMEOUT_MS 5000 /* for an answer that takes the receiver no work */

extern const struct peer peer_xdp2roce, peer_perftest, peer_pingpong;

/* NULL when there is none. */
const struct peer *peer_find(const char *scheme, size_t length);

bool peer_spoke(int fd);

#endif
