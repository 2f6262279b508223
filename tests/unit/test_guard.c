/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <xdp2roce/roce.h>

#include "../../user/connect/guard.h"
#include "netns.h"

/* Sends a datagram to the port from the other namespace's point of view: true when ICMP came back.
 */
static bool draws_icmp(int family, uint16_t port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr *address =
		family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t length = family == AF_INET ? sizeof(v4) : sizeof(v6);
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd pollfd = { .fd = fd };
	bool drawn;

	inet_pton(AF_INET, "127.0.0.1", &v4.sin_addr);
	inet_pton(AF_INET6, "::1", &v6.sin6_addr);
	cr_assert_eq(connect(fd, address, length), 0);
	cr_assert_eq(send(fd, "late", 4, 0), 4);
	/* ICMP of a connected socket shows as POLLERR; over loopback it comes at once. */
	drawn = poll(&pollfd, 1, 100) == 1 && (pollfd.revents & POLLERR);
	close(fd);
	return drawn;
}

Test(guard, keeps_icmp_off_both_families)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct error error = { "" };
	int fd;

	netns_enter();
	for (size_t i = 0; i < 2; i++)
		cr_assert(draws_icmp(families[i], ROCE_UDP_PORT),
			  "no ICMP without a guard: the test sees nothing");
	fd = guard_open(&error);
	cr_assert_geq(fd, 0, "%s", error.text);
	for (size_t i = 0; i < 2; i++) {
		cr_expect(!draws_icmp(families[i], ROCE_UDP_PORT),
			  "ICMP in spite of the guard, family %d", families[i]);
		cr_expect(draws_icmp(families[i], ROCE_UDP_PORT + 1),
			  "no ICMP from the next port, family %d", families[i]);
	}
	close(fd);
}

Test(guard, receives_nothing)
{
	struct error error = { "" };
	int fd, queued = -1;

	netns_enter();
	fd = guard_open(&error);
	cr_assert_geq(fd, 0, "%s", error.text);
	draws_icmp(AF_INET, ROCE_UDP_PORT);
	draws_icmp(AF_INET6, ROCE_UDP_PORT);
	cr_assert_eq(ioctl(fd, FIONREAD, &queued), 0);
	cr_expect_eq(queued, 0);
	close(fd);
}

Test(guard, taken_port_is_no_error)
{
	struct error first = { "" }, second = { "" };

	netns_enter();
	cr_assert_geq(guard_open(&first), 0, "%s", first.text);
	cr_expect_eq(guard_open(&second), -EADDRINUSE);
	cr_expect_str_eq(second.text, "");
}

Test(guard, takes_the_family_that_is_left)
{
	struct sockaddr_in taken = { .sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT) };
	struct error error = { "" };
	int other, fd;

	netns_enter();
	other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(other, (struct sockaddr *)&taken, sizeof(taken)), 0);
	fd = guard_open(&error);
	cr_assert_geq(fd, 0, "%s", error.text);
	cr_expect(!draws_icmp(AF_INET6, ROCE_UDP_PORT));
	close(fd);
	close(other);
}

Test(guard, works_without_ipv6)
{
	struct error error = { "" };

	netns_enter();
	netns_run(
		"test ! -d /proc/sys/net/ipv6 || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6");
	cr_assert_geq(guard_open(&error), 0, "%s", error.text);
	cr_expect(!draws_icmp(AF_INET, ROCE_UDP_PORT));
	cr_expect(draws_icmp(AF_INET, ROCE_UDP_PORT + 1));
}
