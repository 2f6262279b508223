/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A UDP socket on the RoCEv2 port whose filter drops everything: with it the kernel answers no late
 * frame of a closed QP with an ICMP port unreachable.
 */
#ifndef USER_CONNECT_GUARD_H
#define USER_CONNECT_GUARD_H

#include <xdp2roce/error.h>

/*
 * Returns a descriptor to hold, or a negative errno. Serves IPv4 and IPv6. When the port is taken
 * the guard stands already (another program's RoCE stack or guard): returns -EADDRINUSE with no
 * sentence, which callers take as success.
 */
int guard_open(struct error *error);

#endif
