/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "../../user/connect/route.h"
#include "netns.h"

#define RESOLVE_MS 500

struct row {
	const char *what;
	const char *remote;
	const char *interface;
	int rc;
	const char *says; /* part of the sentence; NULL when the route is found */
	const char *source;
	uint32_t mtu;
};

static void parse(const char *text, uint8_t ip[16])
{
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xff;
	if (inet_pton(AF_INET, text, ip + 12) != 1)
		cr_assert_eq(inet_pton(AF_INET6, text, ip), 1, "%s", text);
}

static void check(const struct row *row)
{
	static const uint8_t near_mac[6] = { 2, 0, 0, 0, 0, 1 }, far_mac[6] = { 2, 0, 0, 0, 0, 2 };
	struct route route = { 0 };
	struct error error = { "" };
	uint8_t ip[16], source[16];
	int rc;

	parse(row->remote, ip);
	rc = route_find(&route, ip, row->interface, RESOLVE_MS, &error);
	cr_expect_eq(rc, row->rc, "%s: %d, %s", row->what, rc, error.text);
	if (row->says) {
		cr_expect(strstr(error.text, row->says), "%s: \"%s\" lacks \"%s\"", row->what,
			  error.text, row->says);
		return;
	}
	parse(row->source, source);
	cr_expect_arr_eq(route.local_ip, source, 16, "%s: source", row->what);
	cr_expect_arr_eq(route.local_mac, near_mac, 6, "%s: local MAC", row->what);
	cr_expect_arr_eq(route.remote_mac, far_mac, 6, "%s: remote MAC", row->what);
	cr_expect_str_eq(route.interface, NETNS_NEAR, "%s", row->what);
	cr_expect_eq((unsigned int)route.ifindex, if_nametoindex(NETNS_NEAR), "%s", row->what);
	cr_expect_eq(route.mtu, row->mtu, "%s: MTU %u", row->what, route.mtu);
}

static const struct row rows[] = {
	{ "neighbour", "10.77.0.2", NULL, 0, NULL, "10.77.0.1", 4200 },
	{ "neighbour, known by now", "10.77.0.2", NULL, 0, NULL, "10.77.0.1", 4200 },
	{ "neighbour at the interface named", "10.77.0.2", NETNS_NEAR, 0, NULL, "10.77.0.1", 4200 },
	{ "IPv6 neighbour", "fd77::2", NULL, 0, NULL, "fd77::1", 4200 },
	{ "behind a gateway", "10.88.0.9", NULL, 0, NULL, "10.77.0.1", 4200 },
	{ "behind an IPv6 gateway", "fd88::9", NULL, 0, NULL, "fd77::1", 4200 },
	{ "IPv4 behind an IPv6 gateway", "10.104.0.9", NULL, 0, NULL, "10.77.0.1", 4200 },
	{ "route with a smaller MTU", "10.105.0.9", NULL, 0, NULL, "10.77.0.1", 1500 },
	{ "route with a larger MTU", "10.106.0.9", NULL, 0, NULL, "10.77.0.1", 4200 },
	{ "route with a source", "10.107.0.9", NULL, 0, NULL, "10.77.0.111", 4200 },
	{ "second route, interface named", "10.66.0.9", NETNS_NEAR, 0, NULL, "10.77.0.1", 4200 },

	{ "no route", "192.0.2.1", NULL, -EHOSTUNREACH, "no route to 192.0.2.1", NULL, 0 },
	{ "no IPv6 route", "2001:db8::1", NULL, -EHOSTUNREACH, "no route to 2001:db8::1", NULL, 0 },
	{ "own address", "10.77.0.1", NULL, -EADDRNOTAVAIL,
	  "10.77.0.1 is an address of this machine", NULL, 0 },
	{ "own address, interface named", "10.77.0.1", NETNS_NEAR, -EADDRNOTAVAIL,
	  "of this machine", NULL, 0 },
	{ "own address elsewhere", "10.66.0.1", NETNS_NEAR, -EADDRNOTAVAIL, "of this machine", NULL,
	  0 },
	{ "own IPv6 address", "fd77::1", NULL, -EADDRNOTAVAIL, "of this machine", NULL, 0 },
	{ "loopback", "127.0.0.1", NULL, -EADDRNOTAVAIL, "of this machine", NULL, 0 },
	{ "IPv6 loopback", "::1", NULL, -EADDRNOTAVAIL, "of this machine", NULL, 0 },
	{ "no address", "0.0.0.0", NULL, -EADDRNOTAVAIL, "stands for no host", NULL, 0 },
	{ "no IPv6 address", "::", NULL, -EADDRNOTAVAIL, "stands for no host", NULL, 0 },
	{ "broadcast", "255.255.255.255", NULL, -EADDRNOTAVAIL, "broadcast or multicast", NULL, 0 },
	{ "subnet broadcast", "10.77.0.255", NULL, -EADDRNOTAVAIL, "broadcast or multicast", NULL,
	  0 },
	{ "multicast", "239.1.2.3", NULL, -EADDRNOTAVAIL, "broadcast or multicast", NULL, 0 },
	{ "IPv6 multicast", "ff05::1", NULL, -EADDRNOTAVAIL, "broadcast or multicast", NULL, 0 },
	{ "link-local", "fe80::1", NULL, -EINVAL, "name the interface", NULL, 0 },
	{ "blackhole", "10.100.0.1", NULL, -EHOSTUNREACH, "no route to 10.100.0.1", NULL, 0 },
	{ "unreachable", "10.101.0.1", NULL, -EHOSTUNREACH, "no route to 10.101.0.1", NULL, 0 },
	{ "prohibited", "10.102.0.1", NULL, -EHOSTUNREACH, "no route to 10.102.0.1", NULL, 0 },
	{ "IPv6 blackhole", "fd99:1::1", NULL, -EHOSTUNREACH, "no route to fd99:1::1", NULL, 0 },
	{ "IPv6 unreachable", "fd99:2::1", NULL, -EHOSTUNREACH, "no route to fd99:2::1", NULL, 0 },
	{ "IPv6 prohibited", "fd99:3::1", NULL, -EHOSTUNREACH, "no route to fd99:3::1", NULL, 0 },
	{ "not Ethernet", "10.103.0.1", NULL, -EPROTONOSUPPORT, "interface lo is not Ethernet",
	  NULL, 0 },
	{ "no such interface", "10.77.0.2", "nosuch0", -ENODEV, "no interface nosuch0", NULL, 0 },
	{ "loopback named", "10.77.0.2", "lo", -EPROTONOSUPPORT, "lo is not Ethernet", NULL, 0 },
	{ "interface named is down", "10.77.0.2", "idle0", -ENETDOWN,
	  "idle0 is down: `ip link set idle0 up`", NULL, 0 },
	{ "other interface", "10.77.0.2", "side0", -EHOSTUNREACH,
	  "leaves through x2r0 and not through side0", NULL, 0 },
	{ "other interface, IPv6", "fd77::2", "side0", -EHOSTUNREACH,
	  "leaves through x2r0 and not through side0", NULL, 0 },
	{ "silent neighbour", "10.77.0.66", NULL, -EHOSTUNREACH,
	  "10.77.0.66 does not answer ARP on x2r0", NULL, 0 },
	{ "silent IPv6 neighbour", "fd77::66", NULL, -EHOSTUNREACH,
	  "fd77::66 does not answer neighbour discovery", NULL, 0 },
	{ "silent gateway", "10.99.0.9", NULL, -EHOSTUNREACH, "it is the gateway to 10.99.0.9",
	  NULL, 0 },
};

static const char *const setup[] = {
	"ip link add side0 up type veth peer name side1",
	"ip link set side1 up",
	"ip link add idle0 type veth peer name idle1",
	"ip address add 10.66.0.1/24 dev side0",
	("ip address add 10.77.0.111/24 dev " NETNS_NEAR),
	"ip route add 10.66.0.0/24 via 10.77.0.2 metric 500",
	"ip route add 10.88.0.0/16 via 10.77.0.2",
	"ip route add fd88::/64 via fd77::2",
	"ip route add 10.99.0.0/16 via 10.77.0.77",
	"ip route add blackhole 10.100.0.0/16",
	"ip route add unreachable 10.101.0.0/16",
	"ip route add prohibit 10.102.0.0/16",
	"ip -6 route add blackhole fd99:1::/64",
	"ip -6 route add unreachable fd99:2::/64",
	"ip -6 route add prohibit fd99:3::/64",
	"ip route add 10.103.0.0/16 dev lo",
	"ip route add 10.104.0.0/16 via inet6 fd77::2",
	"ip route add 10.105.0.0/16 via 10.77.0.2 mtu 1500",
	"ip route add 10.106.0.0/16 via 10.77.0.2 mtu 9000",
	"ip route add 10.107.0.0/16 via 10.77.0.2 src 10.77.0.111",
};

Test(route, table)
{
	pid_t far = netns_pair();

	for (size_t i = 0; i < sizeof(setup) / sizeof(setup[0]); i++)
		netns_run("%s", setup[i]);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(&rows[i]);
	netns_end(far);
}

Test(route, timeout_bounds_the_wait)
{
	pid_t far = netns_pair();
	struct timespec start, end;
	struct error error = { "" };
	struct route route;
	uint8_t ip[16];
	int64_t ms;

	parse("10.77.0.66", ip);
	clock_gettime(CLOCK_MONOTONIC, &start);
	cr_expect_eq(route_find(&route, ip, NULL, 200, &error), -EHOSTUNREACH);
	clock_gettime(CLOCK_MONOTONIC, &end);
	ms = (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
	cr_expect(ms >= 195 && ms < 900, "waited %d ms", (int)ms);
	netns_end(far);
}

Test(route, down_and_no_carrier)
{
	pid_t far = netns_pair();
	struct row row = { "other end down",      "10.77.0.2", NULL, -ENOLINK,
			   "x2r0 has no carrier", NULL,        0 };

	netns_run_far(far, "ip link set " NETNS_FAR " down");
	check(&row);
	row.interface = NETNS_NEAR;
	check(&row);
	netns_run("ip link set " NETNS_NEAR " down");
	row = (struct row){ "down", "10.77.0.2", NETNS_NEAR, -ENETDOWN, "x2r0 is down", NULL, 0 };
	check(&row);
	row =
		(struct row){ "down, not named", "10.77.0.2", NULL, -EHOSTUNREACH,
			      "no route",        NULL,        0 };
	check(&row);
	netns_end(far);
}

Test(route, no_source_address)
{
	static const struct row row = { "no IPv4 address",
					"192.0.2.9",
					NULL,
					-EADDRNOTAVAIL,
					"this machine has no address",
					NULL,
					0 };

	netns_enter();
	netns_run("ip link add side0 up type veth peer name side1");
	netns_run("ip link set side1 up");
	netns_run("ip route add 192.0.2.0/24 dev side0");
	check(&row);
}

Test(route, resolving_needs_privilege)
{
	pid_t far = netns_pair();
	struct row row = { "unknown neighbour",          "10.77.0.2", NULL, -EPERM,
			   "needs root (CAP_NET_ADMIN)", NULL,        0 };

	cr_assert_eq(setuid(65534), 0);
	check(&row);
	(void)far; /* not ours to end any more; it ends with this process */
}

Test(route, known_neighbour_needs_no_privilege)
{
	static const struct row row = { "permanent neighbour", "10.77.0.2", NULL, 0, NULL,
					"10.77.0.1",           4200 };

	netns_pair();
	netns_run("ip neighbour add 10.77.0.2 lladdr " NETNS_FAR_MAC
		  " nud permanent dev " NETNS_NEAR);
	cr_assert_eq(setuid(65534), 0);
	check(&row);
}
