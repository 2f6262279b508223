/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets under the exchange: connections, waiting, and the peer's name. Internal to connect.
 */
#ifndef USER_CONNECT_EXCHANGE_CONNECTION_H
#define USER_CONNECT_EXCHANGE_CONNECTION_H

#include "exchange_message.h"

/* The time in timeout_ms from now, milliseconds of CLOCK_MONOTONIC; −1 for none. */
int64_t exchange_deadline(int timeout_ms);

/* Waits for poll events: 0, -ETIMEDOUT, -EINTR. */
int exchange_wait(int fd, short events, int64_t deadline);

/* All of it, in one segment as far as the socket takes it: 0 or a negative errno. */
int exchange_send_bytes(int fd, const void *bytes, size_t length, int64_t deadline);

/*
 * Until *have, which counts on from where an earlier call stopped, is length: 0, -ETIMEDOUT,
 * -ECONNRESET at the peer's end, or another negative errno.
 */
int exchange_read_bytes(int fd, void *bytes, size_t length, size_t *have, int64_t deadline);

/* role: who must be at the other end of the connection. */
struct exchange_peer exchange_peer_of(int fd, const char *role);

#endif
