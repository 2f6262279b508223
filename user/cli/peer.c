/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <poll.h>
#include <string.h>

const struct peer *peer_find(const char *scheme, size_t length)
{
	static const struct peer *const peers[] = { &peer_xdp2roce, &peer_perftest,
						    &peer_pingpong };

	for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++)
		if (strlen(peers[i]->scheme) == length && !memcmp(peers[i]->scheme, scheme, length))
			return peers[i];
	return NULL;
}

bool peer_spoke(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) > 0;
}
