/* SPDX-License-Identifier: BSD-2-Clause */
#include "endpoint.h"

#include <errno.h>
#include <string.h>

#include "units.h"

int parse_endpoint(const char *text, struct endpoint *endpoint, struct error *error)
{
	const char *host = text, *port = strrchr(text, ':');
	size_t length;
	uint64_t number;
	int rc;

	if (*text == '[') {
		const char *end = strchr(text, ']');

		if (!end || end == text + 1 || (end[1] && end[1] != ':'))
			return error_set(error, EINVAL, "'%s' is not [ADDR]:PORT", text);
		host = text + 1;
		length = (size_t)(end - host);
		port = end[1] ? end + 1 : NULL;
	} else {
		if (port && strchr(text, ':') != port)
			port = NULL;
		length = port ? (size_t)(port - text) : strlen(text);
	}
	if (length >= sizeof(endpoint->host))
		return error_set(error, EINVAL, "the address '%.40s…' is too long", host);
	if (port) {
		rc = parse_number(port + 1, "the port", 0, 65535, &number, error);
		if (rc)
			return rc;
		endpoint->port = (uint16_t)number;
	}
	memcpy(endpoint->host, host, length);
	endpoint->host[length] = 0;
	return 0;
}
