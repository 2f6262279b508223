/* SPDX-License-Identifier: BSD-2-Clause */
/* What `xdp2roce send` was asked for. */
#ifndef USER_CLI_SEND_OPTIONS_H
#define USER_CLI_SEND_OPTIONS_H

#include "sender.h"

struct send_options {
	struct sender_options sender;
	struct source_config sources[WORKER_STREAMS];
	char host[256];
	const char *named_by; /* --to or --connect */
	bool pattern, json, quiet;
	bool immediate, segmentation, record; /* asked for by name */
	uint64_t message_size, messages, seed, stream_bytes;
	uint32_t streams; /* of the pattern */
};

/* Ends the process with a sentence and status 2 when something is wrong. */
void send_options_parse(struct send_options *options, int argc, char **argv);

#endif
