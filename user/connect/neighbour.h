/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The MAC address of a next hop, as the kernel's neighbour table knows it. Internal to connect.
 */
#ifndef USER_CONNECT_NEIGHBOUR_H
#define USER_CONNECT_NEIGHBOUR_H

#include "netlink.h"

struct next_hop {
	int family;          /* AF_INET or AF_INET6 */
	uint8_t address[16]; /* network byte order; 4 bytes used by AF_INET */
	int ifindex;
};

/*
 * Takes the MAC of a usable entry; otherwise has the kernel resolve it (ARP, neighbour discovery)
 * and waits at most timeout_ms: -ETIMEDOUT when there is no answer, -EPERM without
 * CAP_NET_ADMIN.
 */
int neighbour_find(struct netlink *netlink, const struct next_hop *hop, int timeout_ms,
		   uint8_t mac[6]);

#endif
