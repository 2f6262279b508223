/* SPDX-License-Identifier: BSD-2-Clause */
/* Which kernel releases `xdp2roce send` refuses, and in which words. No old kernel is booted for
 * it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "../../user/cli/sender.h"

static const struct {
	const char *release;
	uint32_t pmtu;
	const char *refused; /* what the sentence must say, NULL: taken */
} rows[] = {
	{ "6.1.0", 1024, NULL },
	{ "6.1.0-49-amd64", 2048, NULL },
	{ "6.5.13", 2048, NULL },
	{ "6.6.0", 4096, NULL },
	{ "6.12.57+deb13-amd64", 4096, NULL },
	{ "6.10.3", 4096, NULL }, /* 10 is more than 6, as a number */
	{ "7.0", 4096, NULL },
	{ "10.0.1", 4096, NULL },
	{ "unheard of", 4096, NULL }, /* then the calls themselves tell */
	{ "6.0.19", 1024, "Linux 6.1" },
	{ "5.10.0-30-amd64", 256, "Linux 6.1" },
	{ "5.15.0", 2048, "Linux 6.1" },
	{ "4.19.0", 1024, "Linux 6.1" },
	{ "6.5.13", 4096, "--pmtu 2048" },
	{ "6.1.0-49-amd64", 4096, "Linux 6.6" },
};

Test(kernel_check, releases)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error error = { "" };
		int rc = sender_check_kernel(rows[i].release, rows[i].pmtu, &error);

		cr_assert_eq(rc, rows[i].refused ? -ENOSYS : 0, "%s with PMTU %u: %d",
			     rows[i].release, rows[i].pmtu, rc);
		if (!rows[i].refused)
			continue;
		cr_assert(strstr(error.text, rows[i].refused), "%s: %s", rows[i].release,
			  error.text);
		cr_assert(strstr(error.text, rows[i].release), "%s is not named: %s",
			  rows[i].release, error.text);
	}
}

Test(kernel_check, pmtu_2048_is_no_cure_on_a_kernel_too_old_for_it)
{
	struct error error = { "" };

	cr_assert_eq(sender_check_kernel("5.15.0", 4096, &error), -ENOSYS);
	cr_assert(strstr(error.text, "Linux 6.1"), "%s", error.text);
}
