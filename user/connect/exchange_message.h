/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lines of the exchange as text: formatting and parsing, without any I/O. Internal to connect.
 */
#ifndef USER_CONNECT_EXCHANGE_MESSAGE_H
#define USER_CONNECT_EXCHANGE_MESSAGE_H

#include <stddef.h>

#include <xdp2roce/error.h>

#include "exchange.h"

/* The other end, as sentences name it. */
struct exchange_peer {
	const char *role; /* what it must be: "sender" or "receiver" */
	char host[64];
	char endpoint[80]; /* HOST:PORT, [HOST]:PORT for IPv6 */
};

/* These write a line with its newline, and return its length or a negative errno. */
int exchange_format_offer(char line[EXCHANGE_LINE], const struct exchange_offer *offer);
int exchange_format_answer(char line[EXCHANGE_LINE], const struct exchange_answer *answer);
/* kind: "done" or "received". */
int exchange_format_count(char line[EXCHANGE_LINE], const char *kind,
			  const struct exchange_count *count);
int exchange_format_error(char line[EXCHANGE_LINE], const char *sentence);

/* The sentence for a peer that speaks another protocol; returns -EPROTO. */
int exchange_foreign(const struct exchange_peer *peer, struct error *error);

/* length: without the newline. The result is untouched unless 0 is returned. */
int exchange_parse_offer(const char *line, size_t length, const struct exchange_peer *peer,
			 struct exchange_offer *offer, struct error *error);
int exchange_parse_answer(const char *line, size_t length, const struct exchange_peer *peer,
			  struct exchange_answer *answer, struct error *error);
int exchange_parse_count(const char *line, size_t length, const struct exchange_peer *peer,
			 const char *kind, struct exchange_count *count, struct error *error);

#endif
