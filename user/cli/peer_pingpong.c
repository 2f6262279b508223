/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_rc_pingpong or ibv_uc_pingpong: the handshake, and then one empty RDMA Write. Their queue
 * pairs take Sends only, so that the best answer is a NAK, which proves both ways all the same.
 */
#include <unistd.h>

#include "../connect/pingpong.h"
#include "peer.h"
#include "sender.h"

static int connect_server(struct sender *sender, const char *host, struct error *error)
{
	int fd = pingpong_connect(host, sender->options->port, PEER_TIMEOUT_MS, error);

	if (fd < 0)
		return fd;
	sender->streams[0].control = fd;
	return 0;
}

static int exchange_stream(struct sender *sender, struct sender_stream *stream,
			   const struct exchange_offer *offer, struct error *error)
{
	(void)sender;
	return pingpong_exchange(stream->control, offer, &stream->answer, PEER_TIMEOUT_MS, error);
}

static int ready(struct sender *sender, struct error *error)
{
	return pingpong_ready(sender->streams[0].control, error);
}

static void close_server(struct sender *sender)
{
	if (sender->streams[0].control >= 0)
		close(sender->streams[0].control);
	sender->streams[0].control = -1;
}

const struct peer peer_pingpong = {
	.scheme = "pingpong",
	.port = PINGPONG_PORT,
	.access_hint = "it takes no RDMA Writes",
	.connect = connect_server,
	.exchange = exchange_stream,
	.ready = ready,
	.close = close_server,
};
