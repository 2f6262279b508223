/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network namespace for one test, and a second one behind a veth pair. Both end with the test's
 * process: nothing here has a name outside.
 */
#ifndef TESTS_UNIT_NETNS_H
#define TESTS_UNIT_NETNS_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NETNS_NEAR "x2r0" /* the test's end of the veth pair */
#define NETNS_FAR "x2r1"
#define NETNS_NEAR_MAC "02:00:00:00:00:01"
#define NETNS_FAR_MAC "02:00:00:00:00:02"

static inline void __attribute__((format(printf, 1, 2))) netns_run(const char *format, ...)
{
	char command[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	cr_assert_eq(system(command), 0, "failed: %s", command);
}

/* Duplicate address detection keeps link-local addresses out of use for a second. */
#define NETNS_NO_DAD                                                                               \
	"test ! -d /proc/sys/net/ipv6 || echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad"

/* Moves this process into an empty namespace with loopback up, or skips the test. */
static inline void netns_enter(void)
{
	if (unshare(CLONE_NEWNET))
		cr_skip_test("cannot make a network namespace (%m): needs root");
	if (system("ip -V >/dev/null 2>&1"))
		cr_skip_test("ip (iproute2) is not installed");
	netns_run("ip link set lo up");
	netns_run(NETNS_NO_DAD);
}

/* Runs the command in the other namespace. */
#define netns_run_far(pid, format, ...)                                                            \
	netns_run("nsenter --net=/proc/%d/ns/net " format, (int)(pid)__VA_OPT__(, ) __VA_ARGS__)

/*
 * 10.77.0.1/24 and fd77::1/64 here, .2 and ::2 there, MTU 4200. Returns the pid that holds the
 * other namespace.
 */
static inline pid_t netns_pair(void)
{
	int ready[2], hold[2];
	char byte;
	pid_t far;

	netns_enter();
	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(hold, O_CLOEXEC), 0);
	far = fork();
	cr_assert_geq(far, 0);
	if (!far) {
		/* Until this end closes, with the test's process at the latest: a signal at its
		 * death would need its privilege, which a test may have given up. */
		close(hold[1]);
		if (!unshare(CLONE_NEWNET) && write(ready[1], "r", 1) == 1)
			_exit(read(hold[0], &byte, 1) != 0);
		_exit(1);
	}
	close(ready[1]);
	close(hold[0]);
	cr_assert_eq(read(ready[0], &byte, 1), 1, "the other namespace did not start");
	close(ready[0]);
	netns_run_far(far, "sh -c '" NETNS_NO_DAD "'");
	netns_run("ip link add " NETNS_NEAR " address " NETNS_NEAR_MAC
		  " mtu 4200 type veth peer name " NETNS_FAR " address " NETNS_FAR_MAC
		  " mtu 4200 netns %d",
		  (int)far);
	netns_run("ip address add 10.77.0.1/24 dev " NETNS_NEAR);
	netns_run("ip address add fd77::1/64 dev " NETNS_NEAR " nodad");
	netns_run_far(far, "ip address add 10.77.0.2/24 dev " NETNS_FAR);
	netns_run_far(far, "ip address add fd77::2/64 dev " NETNS_FAR " nodad");
	netns_run_far(far, "ip link set lo up");
	netns_run_far(far, "ip link set " NETNS_FAR " up");
	netns_run("ip link set " NETNS_NEAR " up");
	return far;
}

static inline void netns_end(pid_t far)
{
	kill(far, SIGKILL);
	waitpid(far, NULL, 0);
}

#endif
