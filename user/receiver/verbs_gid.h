/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which row of the GID tables receives a stream. A RoCEv2 GID is the IP address that frames go to,
 * so the right row is the one whose GID is the address that the sender was told. No I/O.
 */
#ifndef USER_RECEIVER_VERBS_GID_H
#define USER_RECEIVER_VERBS_GID_H

#include <stddef.h>
#include <stdint.h>

enum verbs_gid_type { VERBS_GID_INFINIBAND, VERBS_GID_ROCE_V1, VERBS_GID_ROCE_V2 };

struct verbs_gid {
	uint32_t device; /* the caller's number of it */
	uint32_t port;   /* from 1 */
	uint32_t index;
	enum verbs_gid_type type;
	uint32_t ifindex; /* of the network interface behind it; 0: not known */
	uint8_t gid[16];  /* IPv4 as ::ffff:a.b.c.d */
};

struct verbs_gid_wish {
	uint32_t port;    /* 0: any */
	int64_t index;    /* −1: the one that has the address */
	uint8_t ip[16];   /* with an index only its family counts */
	uint32_t ifindex; /* preferred where several devices have the address; 0: none */
};

/*
 * The position in the table, or a negative errno: -ENOENT there is no such port or index,
 * -EADDRNOTAVAIL no row has the address, -EPROTONOSUPPORT one has, but not for RoCEv2,
 * -EAFNOSUPPORT the row of that index is of the other address family.
 */
int verbs_gid_choose(const struct verbs_gid *table, size_t count,
		     const struct verbs_gid_wish *wish);

#endif
