/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Questions to the kernel's routing tables, one at a time. Internal to connect.
 */
#ifndef USER_CONNECT_NETLINK_H
#define USER_CONNECT_NETLINK_H

#include <libmnl/libmnl.h>
#include <stdint.h>

#include <xdp2roce/error.h>

struct netlink {
	struct mnl_socket *socket;
	uint32_t sequence;
	char request[512]; /* built in place: netlink_begin, mnl_attr_put…, netlink_ask */
};

int netlink_open(struct netlink *netlink, struct error *error);
void netlink_close(struct netlink *netlink);

/* Starts a request whose fixed header has `size` bytes (zeroed) and returns it. */
void *netlink_begin(struct netlink *netlink, uint16_t type, uint16_t flags, size_t size);

/* Sends it and calls `answer` for each message that comes back. 0, or the kernel's negative errno.
 */
int netlink_ask(struct netlink *netlink, mnl_cb_t answer, void *data);

#endif
