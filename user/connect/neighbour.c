/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "neighbour.h"

#define POLL_MS 5
#define USABLE (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP)

struct entry {
	uint16_t state; /* NUD_NONE when there is no entry */
	uint8_t mac[6];
};

static int take_entry(const struct nlmsghdr *header, void *data)
{
	const struct ndmsg *neighbour = mnl_nlmsg_get_payload(header);
	const struct nlattr *attribute;
	struct entry *entry = data;

	if (header->nlmsg_type != RTM_NEWNEIGH ||
	    mnl_nlmsg_get_payload_len(header) < sizeof(*neighbour))
		return MNL_CB_OK;
	entry->state = neighbour->ndm_state;
	mnl_attr_for_each(attribute, header, sizeof(*neighbour))
	{
		if (mnl_attr_get_type(attribute) == NDA_LLADDR &&
		    mnl_attr_get_payload_len(attribute) == 6)
			memcpy(entry->mac, mnl_attr_get_payload(attribute), 6);
	}
	return MNL_CB_OK;
}

static int ask(struct netlink *netlink, const struct next_hop *hop, uint16_t type,
	       struct entry *entry)
{
	bool resolve = type == RTM_NEWNEIGH;
	struct ndmsg *neighbour =
		netlink_begin(netlink, type, resolve ? NLM_F_CREATE : 0, sizeof(*neighbour));

	neighbour->ndm_family = (uint8_t)hop->family;
	neighbour->ndm_ifindex = hop->ifindex;
	/* NTF_USE: as if a datagram were sent there, which makes the kernel probe. */
	neighbour->ndm_flags = resolve ? NTF_USE : 0;
	neighbour->ndm_state = NUD_NONE;
	mnl_attr_put((struct nlmsghdr *)netlink->request, NDA_DST, hop->family == AF_INET ? 4 : 16,
		     hop->address);
	return netlink_ask(netlink, take_entry, entry);
}

static int look(struct netlink *netlink, const struct next_hop *hop, struct entry *entry)
{
	int rc;

	*entry = (struct entry){ .state = NUD_NONE };
	rc = ask(netlink, hop, RTM_GETNEIGH, entry);
	return rc == -ENOENT ? 0 : rc;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int neighbour_find(struct netlink *netlink, const struct next_hop *hop, int timeout_ms,
		   uint8_t mac[6])
{
	const struct timespec pause = { .tv_nsec = POLL_MS * 1000000L };
	int64_t end = now_ms() + timeout_ms;
	struct entry entry, ignored;
	int rc = look(netlink, hop, &entry);

	while (!rc && !(entry.state & USABLE)) {
		/* The kernel gives up after three probes; our caller's timeout may be longer. */
		if (entry.state != NUD_INCOMPLETE)
			rc = ask(netlink, hop, RTM_NEWNEIGH, &ignored);
		if (!rc && now_ms() >= end)
			rc = -ETIMEDOUT;
		if (!rc) {
			nanosleep(&pause, NULL);
			rc = look(netlink, hop, &entry);
		}
	}
	if (!rc)
		memcpy(mac, entry.mac, 6);
	return rc;
}
