/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One xdp2roce per interface. The claim is a listening Unix socket in the abstract name space of
 * the network namespace: it names its owner (SO_PEERCRED) and is gone when the process is, kill -9
 * included.
 */
#ifndef USER_CONNECT_OWNER_H
#define USER_CONNECT_OWNER_H

#include <xdp2roce/error.h>

/* Returns a descriptor that holds the claim until closed, or -EBUSY naming the owner's pid. */
int owner_claim(int ifindex, const char *interface, struct error *error);

#endif
