/* SPDX-License-Identifier: BSD-2-Clause */
/* Hosts and ports as people write them. */
#include <criterion/criterion.h>
#include <string.h>

#include "../../user/cli/endpoint.h"

#define DEFAULT 18515

Test(endpoint, forms)
{
	static const struct {
		const char *text, *host;
		int port; /* −1: refused */
	} rows[] = {
		{ "host", "host", DEFAULT },
		{ "host:1", "host", 1 },
		{ "192.0.2.2", "192.0.2.2", DEFAULT },
		{ "192.0.2.2:65535", "192.0.2.2", 65535 },
		{ ":7", "", 7 },
		{ "", "", DEFAULT },
		{ "fd00::2", "fd00::2", DEFAULT },
		{ "::", "::", DEFAULT },
		{ "::1:2", "::1:2", DEFAULT },
		{ "[fd00::2]", "fd00::2", DEFAULT },
		{ "[fd00::2]:1", "fd00::2", 1 },
		{ "[fd00::2]:0", "fd00::2", 0 },
		{ "[host]:1", "host", 1 },
		{ "host:", NULL, -1 },
		{ "host:x", NULL, -1 },
		{ "host:65536", NULL, -1 },
		{ "host:-1", NULL, -1 },
		{ "[fd00::2", NULL, -1 },
		{ "[fd00::2]1", NULL, -1 },
		{ "[fd00::2]:", NULL, -1 },
		{ "[]:1", NULL, -1 },
		{ "[", NULL, -1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct endpoint endpoint = { .port = DEFAULT };
		struct error error = { "" };
		int rc = parse_endpoint(rows[i].text, &endpoint, &error);

		if (rows[i].port < 0) {
			cr_expect(rc < 0 && error.text[0], "'%s' was taken", rows[i].text);
			continue;
		}
		cr_assert_eq(rc, 0, "'%s': %s", rows[i].text, error.text);
		cr_expect_str_eq(endpoint.host, rows[i].host, "'%s'", rows[i].text);
		cr_expect_eq(endpoint.port, rows[i].port, "'%s'", rows[i].text);
	}
}

Test(endpoint, longest_host)
{
	struct endpoint endpoint = { .port = DEFAULT };
	struct error error = { "" };
	char text[300];

	memset(text, 'a', sizeof(text));
	text[255] = 0;
	cr_expect_eq(parse_endpoint(text, &endpoint, &error), 0);
	cr_expect_eq(strlen(endpoint.host), 255);
	text[255] = 'a';
	text[256] = 0;
	cr_expect(parse_endpoint(text, &endpoint, &error) < 0);
}
