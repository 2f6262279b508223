/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of perftest's exchange: formatting and parsing, without any I/O. Internal to
 * connect. All have a fixed length and nothing that says where one ends.
 */
#ifndef USER_CONNECT_PERFTEST_MESSAGE_H
#define USER_CONNECT_PERFTEST_MESSAGE_H

#include "exchange_message.h"

#define PERFTEST_VERSION_LEN 16
#define PERFTEST_NUMBER_LEN 4 /* cycle buffer, cache line: big-endian */
#define PERFTEST_MTU_LEN 2
#define PERFTEST_KEY_LEN 108
#define PERFTEST_FIGURES 5
#define PERFTEST_FIGURE_LEN 8

/*
 * What we say we are. A server refuses what is older than 5.70; from 6.28 on both ends would also
 * swap a struct of the device's attributes whose layout differs from build to build.
 */
#define PERFTEST_OUR_VERSION "6.20"

/* A queue pair in the key exchange. */
struct perftest_key {
	uint32_t qpn;
	uint32_t psn; /* first PSN that its owner sends */
	uint32_t rkey;
	uint64_t address;
	uint8_t gid[16];
};

/* The results as a client reports them, for the server to print. */
struct perftest_report {
	uint64_t size;        /* bytes of a message */
	uint64_t iterations;  /* messages, of all queue pairs */
	double peak, average; /* MiB/s */
	double rate;          /* million messages/s */
};

void perftest_format_version(char text[PERFTEST_VERSION_LEN]);
void perftest_format_mtu(char text[PERFTEST_MTU_LEN], uint32_t pmtu);
void perftest_format_key(char text[PERFTEST_KEY_LEN], const struct perftest_key *key);
/* which: 0…PERFTEST_FIGURES − 1, in the order of the exchange. */
void perftest_format_figure(uint8_t bytes[PERFTEST_FIGURE_LEN],
			    const struct perftest_report *report, unsigned int which);

/* -EPROTO with a sentence for what a perftest server of version 5.70 or later does not say. */
int perftest_check_version(const char text[PERFTEST_VERSION_LEN], const struct exchange_peer *peer,
			   struct error *error);
int perftest_parse_mtu(const char text[PERFTEST_MTU_LEN], const struct exchange_peer *peer,
		       uint32_t *pmtu, struct error *error);
int perftest_parse_key(const char text[PERFTEST_KEY_LEN], const struct exchange_peer *peer,
		       struct perftest_key *key, struct error *error);
bool perftest_same_key(const struct perftest_key *a, const struct perftest_key *b);

#endif
