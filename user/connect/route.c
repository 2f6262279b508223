/* SPDX-License-Identifier: BSD-2-Clause */
#include "route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "link.h"
#include "neighbour.h"

/* What is looked for, and what for. */
struct search {
	struct netlink netlink;
	int family;
	uint8_t address[16]; /* 4 bytes used by AF_INET */
	char text[INET6_ADDRSTRLEN];
	const char *interface; /* NULL: any */
	struct error *error;
};

/* One answer of the kernel's routing table. */
struct way {
	uint8_t type; /* RTN_UNICAST, … */
	uint32_t mtu; /* that the route sets, 0 for none */
	bool has_source;
	uint8_t source[16];
	struct next_hop hop;
};

static size_t address_size(int family)
{
	return family == AF_INET ? 4 : 16;
}

static void take_address(const struct nlattr *attribute, int family, uint8_t address[16])
{
	if (mnl_attr_get_payload_len(attribute) == address_size(family))
		memcpy(address, mnl_attr_get_payload(attribute), address_size(family));
}

/* The next hop of an IPv4 route may be an IPv6 address. */
static void take_via(const struct nlattr *attribute, struct next_hop *hop)
{
	const struct rtvia *via = mnl_attr_get_payload(attribute);
	size_t length = mnl_attr_get_payload_len(attribute);

	if (length < sizeof(*via) || length - sizeof(*via) != address_size(via->rtvia_family))
		return;
	hop->family = via->rtvia_family;
	memcpy(hop->address, via->rtvia_addr, address_size(hop->family));
}

static int take_metric(const struct nlattr *attribute, void *data)
{
	struct way *way = data;

	if (mnl_attr_get_type(attribute) == RTAX_MTU && !mnl_attr_validate(attribute, MNL_TYPE_U32))
		way->mtu = mnl_attr_get_u32(attribute);
	return MNL_CB_OK;
}

static int take_way(const struct nlmsghdr *header, void *data)
{
	const struct rtmsg *message = mnl_nlmsg_get_payload(header);
	const struct nlattr *attribute;
	struct way *way = data;

	if (header->nlmsg_type != RTM_NEWROUTE ||
	    mnl_nlmsg_get_payload_len(header) < sizeof(*message))
		return MNL_CB_OK;
	way->type = message->rtm_type;
	mnl_attr_for_each(attribute, header, sizeof(*message))
	{
		switch (mnl_attr_get_type(attribute)) {
		case RTA_OIF:
			if (!mnl_attr_validate(attribute, MNL_TYPE_U32))
				way->hop.ifindex = (int)mnl_attr_get_u32(attribute);
			break;
		case RTA_GATEWAY:
			take_address(attribute, message->rtm_family, way->hop.address);
			break;
		case RTA_VIA:
			take_via(attribute, &way->hop);
			break;
		case RTA_PREFSRC:
			take_address(attribute, message->rtm_family, way->source);
			way->has_source = true;
			break;
		case RTA_METRICS:
			mnl_attr_parse_nested(attribute, take_metric, way);
			break;
		default:
			break;
		}
	}
	return MNL_CB_OK;
}

/* ifindex 0: any interface. flags: RTM_F_FIB_MATCH or 0. */
static int look_up(struct search *search, int ifindex, uint32_t flags, struct way *way)
{
	struct rtmsg *message = netlink_begin(&search->netlink, RTM_GETROUTE, 0, sizeof(*message));
	struct nlmsghdr *header = (struct nlmsghdr *)search->netlink.request;
	size_t size = address_size(search->family);

	*way = (struct way){ .hop.family = search->family };
	memcpy(way->hop.address, search->address, size);
	message->rtm_family = (uint8_t)search->family;
	message->rtm_dst_len = (uint8_t)(size * 8);
	message->rtm_flags = flags;
	mnl_attr_put(header, RTA_DST, size, search->address);
	if (ifindex)
		mnl_attr_put_u32(header, RTA_OIF, (uint32_t)ifindex);
	return netlink_ask(&search->netlink, take_way, way);
}

static int refuse_local(struct search *search)
{
	return error_set(search->error, EADDRNOTAVAIL,
			 "%s is an address of this machine: run the receiver on another host or in "
			 "another network "
			 "namespace",
			 search->text);
}

static int refuse_many(struct search *search)
{
	return error_set(search->error, EADDRNOTAVAIL,
			 "%s is a broadcast or multicast address: a queue pair has one receiver, "
			 "give its own address",
			 search->text);
}

static int refuse_unreachable(struct search *search, const char *why)
{
	return error_set(search->error, EHOSTUNREACH,
			 "no route to %s (%s): give this machine an address in its network or a "
			 "gateway, see `ip route "
			 "get %s`",
			 search->text, why, search->text);
}

/* The kinds of address that need no routing table. */
static int check_address(struct search *search, const uint8_t ip[16])
{
	const struct in6_addr *v6 = (const struct in6_addr *)ip;
	uint32_t v4 = ntohl(v6->s6_addr32[3]);
	bool is_v4 = search->family == AF_INET;

	if (is_v4 ? v4 == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(v6))
		return error_set(search->error, EADDRNOTAVAIL,
				 "%s stands for no host: give the receiver's address",
				 search->text);
	if (is_v4 ? v4 >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(v6))
		return refuse_local(search);
	if (is_v4 ? IN_MULTICAST(v4) || v4 == INADDR_BROADCAST : IN6_IS_ADDR_MULTICAST(v6))
		return refuse_many(search);
	if (!is_v4 && IN6_IS_ADDR_LINKLOCAL(v6) && !search->interface)
		return error_set(search->error, EINVAL,
				 "%s is a link-local address, which every interface may have: name "
				 "the interface too",
				 search->text);
	return 0;
}

/* The way that the kernel itself would take; with an interface named, a way must exist there. */
static int find_way(struct search *search, int ifindex, struct way *way)
{
	struct way through;
	char name[IF_NAMESIZE] = "";
	int rc = look_up(search, 0, 0, way);

	if (rc == -EINVAL)
		return refuse_unreachable(search, "a blackhole route covers it");
	if (rc)
		return refuse_unreachable(search, strerror(-rc));
	if (!ifindex || way->hop.ifindex == ifindex || way->type == RTN_LOCAL)
		return 0;
	/* Without FIB_MATCH the kernel takes any IPv4 address for directly reachable there. */
	if (!look_up(search, ifindex, RTM_F_FIB_MATCH, &through) && through.type == RTN_UNICAST &&
	    through.hop.ifindex == ifindex)
		return look_up(search, ifindex, 0, way);
	if_indextoname((unsigned int)way->hop.ifindex, name);
	return error_set(search->error, EHOSTUNREACH,
			 "the route to %s leaves through %s and not through %s: name that "
			 "interface, or add a route",
			 search->text, name, search->interface);
}

static int check_type(struct search *search, const struct way *way)
{
	switch (way->type) {
	case RTN_UNICAST:
		break;
	case RTN_LOCAL:
		return refuse_local(search);
	case RTN_BROADCAST:
	case RTN_ANYCAST:
	case RTN_MULTICAST:
		return refuse_many(search);
	case RTN_BLACKHOLE:
		return refuse_unreachable(search, "a blackhole route covers it");
	case RTN_PROHIBIT:
		return refuse_unreachable(search, "a prohibit route covers it");
	case RTN_UNREACHABLE:
		return refuse_unreachable(search, "an unreachable route covers it");
	default:
		return refuse_unreachable(search, "its route is of a kind that carries no frames");
	}
	if (way->has_source)
		return 0;
	return error_set(search->error, EADDRNOTAVAIL,
			 "this machine has no address to reach %s from: give its interface an "
			 "address of that family",
			 search->text);
}

static int find_neighbour(struct search *search, const struct way *way, const char *interface,
			  int timeout_ms, uint8_t mac[6])
{
	char hop[INET6_ADDRSTRLEN];
	int rc = neighbour_find(&search->netlink, &way->hop, timeout_ms, mac);

	inet_ntop(way->hop.family, way->hop.address, hop, sizeof(hop));
	switch (-rc) {
	case 0:
		return 0;
	case ETIMEDOUT:
		return error_set(search->error, EHOSTUNREACH,
				 "%s does not answer %s on %s: check that it is up and in the same "
				 "network%s%s",
				 hop, way->hop.family == AF_INET ? "ARP" : "neighbour discovery",
				 interface,
				 strcmp(hop, search->text) ? ", it is the gateway to " : "",
				 strcmp(hop, search->text) ? search->text : "");
	case EPERM:
		return error_set(search->error, EPERM,
				 "the MAC address of %s is not known yet, and asking for it needs "
				 "root (CAP_NET_ADMIN)",
				 hop);
	default:
		return error_set(search->error, -rc, "cannot find the MAC address of %s on %s: %s",
				 hop, interface, strerror(-rc));
	}
}

static void put_mapped(uint8_t ip[16], int family, const uint8_t address[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	if (family == AF_INET)
		memcpy(ip, prefix, 12);
	memcpy(ip + 16 - address_size(family), address, address_size(family));
}

static int find_all(struct search *search, const uint8_t ip[16], int timeout_ms,
		    struct route *route)
{
	struct link link;
	struct way way;
	int ifindex = 0;
	int rc = check_address(search, ip);

	if (!rc && search->interface) {
		ifindex = (int)if_nametoindex(search->interface);
		if (!ifindex)
			return error_set(
				search->error, ENODEV,
				"there is no interface %s: choose one that `ip link` shows",
				search->interface);
		/* Before the routes: those of an interface that is down are gone, and say nothing
		 * of why. */
		rc = link_find(&search->netlink, ifindex, &link, search->error);
	}
	if (!rc)
		rc = find_way(search, ifindex, &way);
	if (!rc)
		rc = check_type(search, &way);
	if (!rc)
		rc = link_find(&search->netlink, way.hop.ifindex, &link, search->error);
	if (!rc)
		rc = find_neighbour(search, &way, link.name, timeout_ms, route->remote_mac);
	if (rc)
		return rc;
	memcpy(route->interface, link.name, sizeof(link.name));
	route->ifindex = way.hop.ifindex;
	route->mtu = way.mtu && way.mtu < link.mtu ? way.mtu : link.mtu;
	memcpy(route->local_mac, link.mac, sizeof(link.mac));
	put_mapped(route->local_ip, search->family, way.source);
	return 0;
}

int route_find(struct route *route, const uint8_t remote_ip[16], const char *interface,
	       int timeout_ms, struct error *error)
{
	struct search search = { .interface = interface, .error = error };
	bool is_v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)remote_ip);
	int rc;

	search.family = is_v4 ? AF_INET : AF_INET6;
	memcpy(search.address, remote_ip + (is_v4 ? 12 : 0), address_size(search.family));
	inet_ntop(search.family, search.address, search.text, sizeof(search.text));
	rc = netlink_open(&search.netlink, error);
	if (rc)
		return rc;
	rc = find_all(&search, remote_ip, timeout_ms, route);
	netlink_close(&search.netlink);
	return rc;
}
