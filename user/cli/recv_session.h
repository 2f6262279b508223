/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream while it is served, and what receives it: software (recv_soft.c) or an RDMA device
 * (recv_verbs.c). recv_stream.c leads; everything here runs in the stream's thread.
 */
#ifndef USER_CLI_RECV_SESSION_H
#define USER_CLI_RECV_SESSION_H

#include "../receiver/memory.h"
#include "../receiver/message.h"
#include "../receiver/record.h"
#include "recv.h"

struct recv_session;

/* Functions that can fail return a negative errno, with a sentence in the session's error. */
struct recv_receiver {
	/* Can it take what is offered? Nothing is opened or reserved yet. */
	int (*check)(struct recv_session *session);
	/* Opens the queue pair on the session's memory and completes the answer. */
	int (*open)(struct recv_session *session);
	/* A descriptor that is readable when collect has something to do; −1 before open. */
	int (*event)(const struct recv_session *session);
	/*
	 * Takes in what has happened, without waiting: *completed is the number of messages since
	 * open. Fails when the queue pair did: what was completed still counts, and nothing more
	 * comes.
	 */
	int (*collect)(struct recv_session *session, uint64_t *completed);
	struct receiver_message (*message)(const struct recv_session *session, uint64_t n);
	/* The messages before the n-th are written out. */
	void (*release)(struct recv_session *session, uint64_t n);
	/* Brings the stream's figures up to date. */
	void (*report)(struct recv_session *session);
	void (*close)(struct recv_session *session); /* not called before open */
	/* Messages without an immediate are seen. Otherwise they are known by the sender's word
	 * alone. */
	bool sees_plain_writes;
};

extern const struct recv_receiver recv_soft_receiver, recv_verbs_receiver;

struct recv_session {
	struct recv_stream *stream;
	struct recv_shared *shared;
	const struct recv_options *options;
	struct error *error;
	const struct recv_receiver *receiver;
	bool open;
	struct soft *soft;
	struct soft_stream *soft_stream;
	struct verbs *verbs;
	struct recv_interface interface;
	struct exchange_answer answer;
	struct receiver_memory memory;
	uint64_t memory_reserved;
	struct recv_output output;
	uint64_t written; /* messages that the reader is done with */
	uint64_t next_number;
	bool told; /* nobody sees the messages arrive: the sender's last word tells of them */
	/* Messages are counted here: the receiver counts what the transport calls one, and those
	 * that are late or come twice. */
	bool counts;
	bool copies;                 /* behind the slots there is room for a copy of one */
	enum record_fault bad_fault; /* of the first bad record */
	uint64_t bad_number;
	bool settled; /* the sender knows how it ended */
};

/* Writes what is complete and releases its slots one by one. */
int recv_write_messages(struct recv_session *session);
/*
 * Without immediates nothing holds the sender back, so a slot counts only when the sender is done,
 * and only when none was used twice.
 */
int recv_write_plain_messages(struct recv_session *session);

#endif
