/* SPDX-License-Identifier: BSD-2-Clause */
#include "link.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <stdbool.h>
#include <string.h>

struct answer {
	struct link *link;
	uint32_t flags;
	uint16_t type; /* ARPHRD_ETHER, … */
	bool has_mac;
};

static int take_link(const struct nlmsghdr *header, void *data)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(header);
	const struct nlattr *attribute;
	struct answer *answer = data;

	if (header->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(header) < sizeof(*info))
		return MNL_CB_OK;
	answer->flags = info->ifi_flags;
	answer->type = info->ifi_type;
	mnl_attr_for_each(attribute, header, sizeof(*info))
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (type == IFLA_MTU && !mnl_attr_validate(attribute, MNL_TYPE_U32)) {
			answer->link->mtu = mnl_attr_get_u32(attribute);
		} else if (type == IFLA_IFNAME &&
			   !mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING)) {
			snprintf(answer->link->name, sizeof(answer->link->name), "%s",
				 mnl_attr_get_str(attribute));
		} else if (type == IFLA_ADDRESS && mnl_attr_get_payload_len(attribute) == 6) {
			memcpy(answer->link->mac, mnl_attr_get_payload(attribute), 6);
			answer->has_mac = true;
		}
	}
	return MNL_CB_OK;
}

int link_find(struct netlink *netlink, int ifindex, struct link *link, struct error *error)
{
	struct answer answer = { .link = link };
	struct ifinfomsg *info = netlink_begin(netlink, RTM_GETLINK, 0, sizeof(*info));
	int rc;

	*link = (struct link){ 0 };
	info->ifi_index = ifindex;
	rc = netlink_ask(netlink, take_link, &answer);
	if (rc)
		return error_set(error, -rc, "interface number %d is not there any more: %s",
				 ifindex, strerror(-rc));
	if (answer.type != ARPHRD_ETHER || !answer.has_mac)
		return error_set(error, EPROTONOSUPPORT,
				 "interface %s is not Ethernet, which RoCEv2 frames need: choose "
				 "an interface with a MAC address",
				 link->name);
	if (!(answer.flags & IFF_UP))
		return error_set(error, ENETDOWN, "interface %s is down: `ip link set %s up`",
				 link->name, link->name);
	if (!(answer.flags & IFF_LOWER_UP))
		return error_set(error, ENOLINK,
				 "interface %s has no carrier: check the cable, and that the other "
				 "end is up",
				 link->name);
	return 0;
}
