/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "../../user/connect/owner.h"
#include "netns.h"

static void expect_busy(int ifindex, pid_t pid)
{
	struct error error = { "" };
	char expected[160];

	snprintf(
		expected, sizeof(expected),
		"interface eth9 is in use by xdp2roce, pid %d: stop it or choose another interface",
		(int)pid);
	cr_expect_eq(owner_claim(ifindex, "eth9", &error), -EBUSY);
	cr_expect_str_eq(error.text, expected);
}

/* A process that holds the claim until it is killed. */
static pid_t start_owner(int ifindex)
{
	int ready[2];
	char byte;
	pid_t owner;

	cr_assert_eq(pipe(ready), 0);
	owner = fork();
	if (!owner) {
		struct error error;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (owner_claim(ifindex, "eth9", &error) >= 0 && write(ready[1], "r", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1, "the owner did not start");
	close(ready[0]);
	return owner;
}

Test(owner, names_the_pid_each_time)
{
	pid_t owner;

	netns_enter();
	owner = start_owner(7);
	for (int i = 0; i < 200; i++)
		expect_busy(7, owner);
	netns_end(owner);
}

Test(owner, claims_are_per_interface)
{
	struct error error = { "" };
	pid_t owner;

	netns_enter();
	owner = start_owner(7);
	cr_expect_geq(owner_claim(8, "eth8", &error), 0, "%s", error.text);
	cr_expect_geq(owner_claim(77, "eth77", &error), 0, "%s", error.text);
	netns_end(owner);
}

Test(owner, claims_are_per_network_namespace)
{
	struct error error = { "" };
	pid_t owner;

	netns_enter();
	owner = start_owner(7);
	netns_enter();
	cr_expect_geq(owner_claim(7, "eth9", &error), 0, "%s", error.text);
	netns_end(owner);
}

Test(owner, gone_with_a_killed_owner)
{
	struct error error = { "" };

	netns_enter();
	netns_end(start_owner(7));
	cr_expect_geq(owner_claim(7, "eth9", &error), 0, "%s", error.text);
}

Test(owner, gone_when_closed)
{
	struct error error = { "" };
	int fd;

	netns_enter();
	for (int i = 0; i < 3; i++) {
		fd = owner_claim(7, "eth9", &error);
		cr_assert_geq(fd, 0, "%s", error.text);
		expect_busy(7, getpid());
		close(fd);
	}
}
