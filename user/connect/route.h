/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way to a receiver, as the kernel's routing and neighbour tables know it.
 */
#ifndef USER_CONNECT_ROUTE_H
#define USER_CONNECT_ROUTE_H

#include <net/if.h>
#include <stdint.h>

#include <xdp2roce/error.h>

struct route {
	char interface[IF_NAMESIZE];
	int ifindex;
	uint32_t mtu; /* of the interface, or of the route where that is less: bytes of IP packet */
	uint8_t local_mac[6];
	uint8_t remote_mac[6]; /* of the next hop */
	uint8_t local_ip[16]; /* source address that the kernel would choose; IPv4 as ::ffff:a.b.c.d
			       */
};

/*
 * Finds the route to remote_ip (16 bytes, IPv4-mapped or IPv6) and resolves the next hop's MAC,
 * asking the kernel to resolve it when it is not known, for at most timeout_ms. No datagram is sent
 * by us. interface (may be NULL): the route must leave there. Refused, each with its cure: no
 * route; an address of this machine; multicast and broadcast; interface down, absent, without
 * Ethernet (loopback, tunnels); next hop that does not answer; route through another interface than
 * the one asked for.
 */
int route_find(struct route *route, const uint8_t remote_ip[16], const char *interface,
	       int timeout_ms, struct error *error);

#endif
