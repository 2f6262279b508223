/* SPDX-License-Identifier: BSD-2-Clause */
/* HOST and PORT as people write them on a command line. */
#ifndef USER_CLI_ENDPOINT_H
#define USER_CLI_ENDPOINT_H

#include <stdint.h>

#include <xdp2roce/error.h>

struct endpoint {
	char host[256]; /* without brackets; may be empty */
	uint16_t port;
};

/*
 * HOST, HOST:PORT, :PORT, [IPv6], [IPv6]:PORT, IPv6; an IPv6 address without brackets has no port.
 * A port that is not named is left as it was. -EINVAL or -ERANGE with a sentence.
 */
int parse_endpoint(const char *text, struct endpoint *endpoint, struct error *error);

#endif
