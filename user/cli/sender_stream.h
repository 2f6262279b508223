/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One stream of a run: its queue pair, and what its end means. Internal to the sender.
 */
#ifndef USER_CLI_SENDER_STREAM_H
#define USER_CLI_SENDER_STREAM_H

#include "sender.h"

/* Exchanges with the receiver, and opens the queue pair. */
int sender_open_stream(struct sender *sender, uint32_t index, struct error *error);

/* What an error of the queue pair means, and what to look at: into stream->error. */
void sender_explain_qp_error(const struct sender *sender, struct sender_stream *stream);

/* A stream whose length was named and was not kept is not what the user wanted. */
int sender_check_source(struct sender_stream *stream);

#endif
