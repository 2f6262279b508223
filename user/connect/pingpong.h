/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handshake of rdma-core's ibv_rc_pingpong and ibv_uc_pingpong, as their clients have it: one
 * TCP connection for one queue pair.
 *
 *   we                                         server
 *   "LID:QPN:PSN:GID" (52 bytes)     ───▶      connects its queue pair
 *                                    ◀───      the same form
 *   "done" (5 bytes)                 ───▶
 *
 * The server has no rkey to give: it takes Sends, and RDMA Writes are refused. Nothing that it says
 * is trusted.
 */
#ifndef USER_CONNECT_PINGPONG_H
#define USER_CONNECT_PINGPONG_H

#include "exchange.h"
#include "exchange_message.h"

#define PINGPONG_PORT 18515
#define PINGPONG_LEN 52

/* All return 0 (pingpong_connect: a descriptor) or a negative errno with a sentence. */
int pingpong_connect(const char *host, uint16_t port, int timeout_ms, struct error *error);

/*
 * offer: ip, qpn and psn are told. answer: ip, qpn, psn; pmtu is the offer's, since the server does
 * not name its own; memory is one byte at address 0, which no message may touch.
 */
int pingpong_exchange(int fd, const struct exchange_offer *offer, struct exchange_answer *answer,
		      int timeout_ms, struct error *error);

/* The server may begin. */
int pingpong_ready(int fd, struct error *error);

/* The text of the handshake, without any I/O. */
void pingpong_format(char text[PINGPONG_LEN], const struct exchange_offer *offer);
int pingpong_parse(const char text[PINGPONG_LEN], const struct exchange_peer *peer,
		   struct exchange_answer *answer, struct error *error);

#endif
