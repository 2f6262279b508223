/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel says of an interface. Internal to connect.
 */
#ifndef USER_CONNECT_LINK_H
#define USER_CONNECT_LINK_H

#include <net/if.h>

#include "netlink.h"

struct link {
	char name[IF_NAMESIZE];
	uint32_t mtu; /* bytes of IP packet */
	uint8_t mac[6];
};

/* Refused with the cure: absent, down, no carrier, not Ethernet. */
int link_find(struct netlink *netlink, int ifindex, struct link *link, struct error *error);

#endif
