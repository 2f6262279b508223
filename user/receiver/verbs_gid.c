/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs_gid.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_ipv4(const uint8_t ip[16])
{
	static const uint8_t prefix[12] = { [10] = 0xFF, [11] = 0xFF };

	return !memcmp(ip, prefix, sizeof(prefix));
}

static int check_index(const struct verbs_gid *row, const struct verbs_gid_wish *wish)
{
	if (row->type != VERBS_GID_ROCE_V2)
		return -EPROTONOSUPPORT;
	return is_ipv4(row->gid) == is_ipv4(wish->ip) ? 0 : -EAFNOSUPPORT;
}

static int choose_by_index(const struct verbs_gid *table, size_t count,
			   const struct verbs_gid_wish *wish)
{
	for (size_t i = 0; i < count; i++) {
		int rc;

		if (table[i].index != wish->index || (wish->port && table[i].port != wish->port))
			continue;
		rc = check_index(&table[i], wish);
		return rc ? rc : (int)i;
	}
	return -ENOENT;
}

int verbs_gid_choose(const struct verbs_gid *table, size_t count, const struct verbs_gid_wish *wish)
{
	bool port_seen = !wish->port;
	int best = -EADDRNOTAVAIL;

	if (wish->index >= 0)
		return choose_by_index(table, count, wish);
	for (size_t i = 0; i < count; i++) {
		if (wish->port && table[i].port != wish->port)
			continue;
		port_seen = true;
		if (memcmp(table[i].gid, wish->ip, 16))
			continue;
		if (table[i].type == VERBS_GID_ROCE_V2 && wish->ifindex == table[i].ifindex)
			return (int)i;
		if (table[i].type == VERBS_GID_ROCE_V2 && best < 0)
			best = (int)i;
		else if (best == -EADDRNOTAVAIL)
			best = -EPROTONOSUPPORT;
	}
	return port_seen ? best : -ENOENT;
}
