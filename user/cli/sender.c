/* SPDX-License-Identifier: BSD-2-Clause */
#include "sender.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"
#include "sender_setup.h"
#include "sender_stream.h"

#define SETTLE_NS 100000000u /* for a status from after the loss */
#define LOST_NS 10000000000u /* without the receiver's connection a stream may go on so long */

static int prepare(struct sender *sender, const struct sender_options *options, struct error *error)
{
	memset(sender, 0, sizeof(*sender));
	sender->options = options;
	sender->claim = sender->guard = -1;
	sender->streams = calloc(options->source_count, sizeof(*sender->streams));
	if (!sender->streams)
		return error_set(error, ENOMEM, "no memory for %u streams", options->source_count);
	sender->stream_count = options->source_count;
	for (uint32_t i = 0; i < sender->stream_count; i++)
		sender->streams[i].control = -1;
	return 0;
}

static int open_streams(struct sender *sender, struct error *error)
{
	const struct peer *peer = sender->options->peer;

	for (uint32_t i = 0; i < sender->stream_count; i++) {
		int err = sender_open_stream(sender, i, error);

		if (err)
			return err;
	}
	return peer->ready ? peer->ready(sender, error) : 0;
}

static void tell_failure(struct sender *sender, struct sender_stream *stream, const char *sentence)
{
	if (sender->options->peer->fail)
		sender->options->peer->fail(sender, stream, sentence);
}

int sender_open(struct sender *sender, const struct sender_options *options, struct error *error)
{
	char host[INET6_ADDRSTRLEN];
	int err = prepare(sender, options, error);

	if (!err)
		err = sender_open_sources(sender, error);
	if (!err)
		err = sender_find_path(sender, host, error);
	if (!err)
		err = sender_claim_interface(sender, error);
	if (!err)
		err = options->peer->connect(sender, host, error);
	if (!err)
		err = sender_open_datapath(sender, error);
	if (!err)
		err = open_streams(sender, error);
	for (uint32_t i = 0; err && i < sender->stream_count; i++)
		tell_failure(sender, &sender->streams[i], error->text);
	return err;
}

int sender_start(struct sender *sender, struct error *error)
{
	sender->started = worker_now();
	return worker_start(&sender->worker, error);
}

/* The connection stays until the worker has stopped: its end tells the receiver that no frame
 * follows.
 */
static void fail(struct sender *sender, struct sender_stream *stream)
{
	stream->phase = SENDER_FAILED;
	tell_failure(sender, stream, stream->error.text);
}

/* A NAK from a receiver that takes no RDMA Writes is the answer that was asked for. */
static bool refused(const struct sender *sender, const struct sender_stream *stream)
{
	enum requester_failure failure = stream->status.error.failure;

	return !sender->options->peer->takes_writes &&
	       (failure == REQUESTER_INVALID_REQUEST || failure == REQUESTER_REMOTE_ACCESS);
}

static void end_streaming(struct sender *sender, struct sender_stream *stream)
{
	switch (stream->status.end) {
	case STREAM_RUNNING:
		return;
	case STREAM_DELIVERED:
		stream->phase = SENDER_DELIVERED;
		return;
	case STREAM_SOURCE_FAILED:
		source_stop(stream->source, &stream->error);
		stream->source = NULL;
		break;
	case STREAM_SOURCE_BROKEN:
		error_set(&stream->error, EPROTO, "the source ring is damaged");
		break;
	case STREAM_TOO_LONG:
		error_set(&stream->error, EMSGSIZE,
			  "a message is longer than the receiver's slots of %llu bytes",
			  (unsigned long long)stream->answer.slot_size);
		break;
	case STREAM_QP_ERROR:
		sender_explain_qp_error(sender, stream);
		stream->refused = refused(sender, stream);
		break;
	default:
		error_set(&stream->error, EINTR,
			  "stopped before its end; what was started is "
			  "delivered");
	}
	if (stream->refused)
		stream->phase = SENDER_FINISHED;
	else
		fail(sender, stream);
}

static void watch(struct sender *sender, struct sender_stream *stream)
{
	const struct peer *peer = sender->options->peer;
	uint64_t now = worker_now();

	if (peer->watch && !stream->control_lost) {
		int err = peer->watch(sender, stream, &stream->error);

		if (err == -EREMOTEIO) {
			fail(sender, stream);
			return;
		}
		stream->control_lost = err != 0;
		stream->lost_at = now;
	}
	/* The status that is at hand may be from before the stream began. */
	if (!stream->control_lost || now - stream->lost_at < SETTLE_NS)
		return;
	/* A queue pair that is sending reports itself what became of the receiver. */
	if (stream->status.state == QP_SENDING && now - stream->lost_at < LOST_NS)
		return;
	fail(sender, stream);
}

static void finish(struct sender *sender, struct sender_stream *stream)
{
	const struct peer *peer = sender->options->peer;
	int err = peer->finish ? peer->finish(sender, stream, &stream->error) : 0;

	if (err == -EAGAIN)
		return;
	/* What the source did explains what the receiver counted. */
	if (sender_check_source(stream))
		stream->phase = SENDER_FAILED;
	else if (err)
		fail(sender, stream);
	else
		stream->phase = SENDER_FINISHED;
}

uint32_t sender_poll(struct sender *sender)
{
	uint32_t running = 0;

	for (uint32_t i = 0; i < sender->stream_count; i++) {
		struct sender_stream *stream = &sender->streams[i];

		stream_read_status(&sender->worker.streams[i], &stream->status);
		if (stream->phase == SENDER_STREAMING)
			end_streaming(sender, stream);
		if (stream->phase == SENDER_STREAMING)
			watch(sender, stream);
		if (stream->phase == SENDER_DELIVERED)
			finish(sender, stream);
		if (stream->phase == SENDER_FAILED)
			worker_abandon(&sender->worker, i);
		running += stream->phase < SENDER_FINISHED;
	}
	if (!running && !sender->finished)
		sender->finished = worker_now();
	return running;
}

void sender_drain(struct sender *sender)
{
	sender->draining = true;
	worker_drain(&sender->worker);
}

void sender_stop(struct sender *sender)
{
	for (uint32_t i = 0; i < sender->stream_count; i++) {
		struct sender_stream *stream = &sender->streams[i];
		const struct stream_status *status = &stream->status;

		if (stream->phase >= SENDER_FINISHED)
			continue;
		stream_read_status(&sender->worker.streams[i], &stream->status);
		error_set(&stream->error, EINTR,
			  "stopped: %llu of %llu messages that were started are delivered",
			  (unsigned long long)status->messages,
			  (unsigned long long)status->started_messages);
		fail(sender, stream);
	}
	sender->finished = worker_now();
}

void sender_close(struct sender *sender)
{
	if (!sender->streams)
		return;
	if (sender->worker_open)
		worker_close(&sender->worker);
	sender->options->peer->close(sender);
	for (uint32_t i = 0; i < sender->stream_count; i++) {
		struct error ignored;

		if (sender->streams[i].source)
			source_stop(sender->streams[i].source, &ignored);
	}
	if (sender->program_open)
		xdp_program_close(&sender->program);
	if (sender->guard >= 0)
		close(sender->guard);
	if (sender->claim >= 0)
		close(sender->claim);
	free(sender->streams);
	sender->streams = NULL;
}
