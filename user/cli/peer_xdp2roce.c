/* SPDX-License-Identifier: BSD-2-Clause */
/* `xdp2roce recv`: a connection for each stream, which ends with the receiver's own count. */
#include <errno.h>
#include <unistd.h>

#include "peer.h"
#include "sender.h"

#define RECEIVED_NS 60000000000u /* for the receiver to write out what it has */

static int connect_streams(struct sender *sender, const char *host, struct error *error)
{
	for (uint32_t i = 0; i < sender->stream_count; i++) {
		int fd = exchange_connect(host, sender->options->port, PEER_TIMEOUT_MS, error);

		if (fd < 0)
			return fd;
		sender->streams[i].control = fd;
	}
	return 0;
}

static int exchange_stream(struct sender *sender, struct sender_stream *stream,
			   const struct exchange_offer *offer, struct error *error)
{
	int err = exchange_send_offer(stream->control, offer, error);

	(void)sender;
	return err ? err
		   : exchange_read_answer(stream->control, &stream->answer, PEER_TIMEOUT_MS, error);
}

static void close_control(struct sender_stream *stream)
{
	if (stream->control >= 0)
		close(stream->control);
	stream->control = -1;
}

/* Before the end the receiver only ever speaks to say that it fails. */
static int watch(struct sender *sender, struct sender_stream *stream, struct error *error)
{
	struct exchange_count none;
	int err;

	(void)sender;
	if (!peer_spoke(stream->control))
		return 0;
	err = exchange_read_received(stream->control, &none, 0, error);
	if (!err)
		err = error_set(error, EPROTO,
				"the receiver confirmed the stream before it had ended");
	if (err != -EREMOTEIO)
		close_control(stream);
	return err;
}

static int send_done(struct sender_stream *stream, struct error *error)
{
	const struct exchange_count done = {
		.messages = stream->status.messages,
		.bytes = stream->status.bytes,
	};

	if (stream->control < 0)
		return error_set(
			error, ECONNRESET,
			"the receiver closed the connection before it confirmed the stream");
	stream->done_sent = true;
	stream->deadline = worker_now() + RECEIVED_NS;
	return exchange_send_done(stream->control, &done, error);
}

static int check_received(const struct sender_stream *stream, const struct exchange_count *received,
			  struct error *error)
{
	const struct stream_status *status = &stream->status;

	if (received->messages == status->messages && received->bytes == status->bytes)
		return 0;
	return error_set(error, EBADMSG,
			 "the receiver counted %llu messages with %llu bytes, sent were %llu "
			 "with %llu",
			 (unsigned long long)received->messages,
			 (unsigned long long)received->bytes, (unsigned long long)status->messages,
			 (unsigned long long)status->bytes);
}

static int finish(struct sender *sender, struct sender_stream *stream, struct error *error)
{
	struct exchange_count received;
	int err = stream->done_sent ? 0 : send_done(stream, error);

	(void)sender;
	if (err)
		return err;
	if (!peer_spoke(stream->control)) {
		if (worker_now() < stream->deadline)
			return -EAGAIN;
		return error_set(error, ETIMEDOUT,
				 "the receiver did not confirm the stream within a minute");
	}
	err = exchange_read_received(stream->control, &received, PEER_TIMEOUT_MS, error);
	if (!err)
		err = check_received(stream, &received, error);
	if (!err)
		close_control(stream);
	return err;
}

static void fail(struct sender *sender, struct sender_stream *stream, const char *sentence)
{
	(void)sender;
	if (stream->control >= 0)
		exchange_send_error(stream->control, sentence);
}

static void close_streams(struct sender *sender)
{
	for (uint32_t i = 0; i < sender->stream_count; i++)
		close_control(&sender->streams[i]);
}

const struct peer peer_xdp2roce = {
	.scheme = "xdp2roce",
	.port = EXCHANGE_PORT,
	.takes_writes = true,
	.takes_immediate = true,
	.takes_record = true,
	.access_hint = "rkey, address or size do not match its memory",
	.connect = connect_streams,
	.exchange = exchange_stream,
	.watch = watch,
	.finish = finish,
	.fail = fail,
	.close = close_streams,
};
