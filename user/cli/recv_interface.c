/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "recv.h"

static bool to_ip16(const struct sockaddr *address, uint8_t ip[16])
{
	memset(ip, 0, 16);
	if (address && address->sa_family == AF_INET) {
		memset(ip + 10, 0xFF, 2);
		memcpy(ip + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
		return true;
	}
	if (address && address->sa_family == AF_INET6) {
		memcpy(ip, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
		return true;
	}
	return false;
}

static int read_mtu(struct recv_interface *interface, int connection, struct error *error)
{
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface->name);
	if (ioctl(connection, SIOCGIFMTU, &request))
		return error_set(error, errno, "cannot read the MTU of %s: %s", interface->name,
				 strerror(errno));
	interface->mtu = (uint32_t)request.ifr_mtu;
	return 0;
}

/* Fills in the name. 0, or a negative errno; *loopback is set only with 0. */
static int find_name(struct recv_interface *interface, bool *loopback)
{
	struct ifaddrs *list;
	int rc = -EADDRNOTAVAIL;

	if (getifaddrs(&list))
		return -errno;
	for (const struct ifaddrs *entry = list; entry && rc; entry = entry->ifa_next) {
		uint8_t ip[16];

		if (!to_ip16(entry->ifa_addr, ip) || memcmp(ip, interface->ip, 16))
			continue;
		snprintf(interface->name, sizeof(interface->name), "%s", entry->ifa_name);
		*loopback = entry->ifa_flags & IFF_LOOPBACK;
		rc = 0;
	}
	freeifaddrs(list);
	return rc;
}

/* The text of the address is for the sentences. */
static int find_owner(struct recv_interface *interface, const char *text, struct error *error)
{
	bool loopback = false;
	int rc = find_name(interface, &loopback);

	if (rc)
		return error_set(error, -rc, "no interface with the address %s was found: %s", text,
				 strerror(-rc));
	if (loopback)
		return error_set(error, EADDRNOTAVAIL,
				 "%s is an address of %s, where RoCEv2 frames cannot be exchanged: "
				 "connect to an address of an Ethernet interface",
				 text, interface->name);
	interface->index = (int)if_nametoindex(interface->name);
	return 0;
}

int recv_interface_find(struct recv_interface *interface, int connection, struct error *error)
{
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);
	char text[INET6_ADDRSTRLEN];
	int rc;

	if (getsockname(connection, (struct sockaddr *)&address, &length) ||
	    !to_ip16((struct sockaddr *)&address, interface->ip))
		return error_set(error, EAFNOSUPPORT,
				 "the connection has no IP address to receive at");
	interface->ipv6 = !IN6_IS_ADDR_V4MAPPED((struct in6_addr *)interface->ip);
	if (interface->ipv6)
		inet_ntop(AF_INET6, interface->ip, text, sizeof(text));
	else
		inet_ntop(AF_INET, interface->ip + 12, text, sizeof(text));
	rc = find_owner(interface, text, error);
	return rc ? rc : read_mtu(interface, connection, error);
}
