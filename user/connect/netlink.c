/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>

#include "netlink.h"

int netlink_open(struct netlink *netlink, struct error *error)
{
	netlink->sequence = 0;
	netlink->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (netlink->socket && !mnl_socket_bind(netlink->socket, 0, MNL_SOCKET_AUTOPID))
		return 0;
	error_set(error, errno, "cannot ask the kernel for routes: %s", strerror(errno));
	netlink_close(netlink);
	return -EIO;
}

void netlink_close(struct netlink *netlink)
{
	if (netlink->socket)
		mnl_socket_close(netlink->socket);
	netlink->socket = NULL;
}

void *netlink_begin(struct netlink *netlink, uint16_t type, uint16_t flags, size_t size)
{
	struct nlmsghdr *header = mnl_nlmsg_put_header(netlink->request);

	header->nlmsg_type = type;
	header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	header->nlmsg_seq = ++netlink->sequence;
	return mnl_nlmsg_put_extra_header(header, size);
}

int netlink_ask(struct netlink *netlink, mnl_cb_t answer, void *data)
{
	struct nlmsghdr *header = (struct nlmsghdr *)netlink->request;
	unsigned int port = mnl_socket_get_portid(netlink->socket);
	char buffer[8192];
	ssize_t n;
	int rc;

	if (mnl_socket_sendto(netlink->socket, header, header->nlmsg_len) < 0)
		return -errno;
	do {
		n = mnl_socket_recvfrom(netlink->socket, buffer, sizeof(buffer));
		if (n < 0)
			return -errno;
		rc = mnl_cb_run(buffer, (size_t)n, netlink->sequence, port, answer, data);
	} while (rc > MNL_CB_STOP);
	return rc < 0 ? -errno : 0;
}
