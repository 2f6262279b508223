/* SPDX-License-Identifier: BSD-2-Clause */
/* An unmodified `ib_write_bw` server: one connection for all streams, each a queue pair of its own.
 */
#include <errno.h>
#include <stdlib.h>

#include "../connect/perftest.h"
#include "peer.h"
#include "sender.h"

#define FINISH_NS 10000000000u
#define MIB 1048576.0

_Static_assert(WORKER_STREAMS <= PERFTEST_QPS, "every stream has a key");

/* One for all streams. */
struct sender_perftest {
	struct perftest exchange;
	struct perftest_report report;
	bool finishing;
	uint64_t deadline; /* of the server's part in the end, ns */
	int result;        /* of the end */
	struct error error;
};

static int connect_server(struct sender *sender, const char *host, struct error *error)
{
	int err;

	sender->perftest = calloc(1, sizeof(*sender->perftest));
	if (!sender->perftest)
		return error_set(error, ENOMEM, "no memory for the exchange with perftest");
	err = perftest_connect(&sender->perftest->exchange, host, sender->options->port,
			       sender->pmtu, PEER_TIMEOUT_MS, error);
	if (!err)
		sender->pmtu = sender->perftest->exchange.pmtu;
	return err;
}

static int exchange_stream(struct sender *sender, struct sender_stream *stream,
			   const struct exchange_offer *offer, struct error *error)
{
	return perftest_exchange(&sender->perftest->exchange, offer, &stream->answer,
				 PEER_TIMEOUT_MS, error);
}

static int ready(struct sender *sender, struct error *error)
{
	return perftest_ready(&sender->perftest->exchange, PEER_TIMEOUT_MS, error);
}

/* The server waits for us: there is nothing that it could have to say. */
static int watch(struct sender *sender, struct sender_stream *stream, struct error *error)
{
	(void)stream;
	if (!peer_spoke(sender->perftest->exchange.fd))
		return 0;
	return error_set(error, ECONNRESET,
			 "the perftest server ended the connection while data was on the way: look "
			 "at what it printed");
}

static bool any_in_phase(const struct sender *sender, enum sender_phase phase)
{
	for (uint32_t i = 0; i < sender->stream_count; i++)
		if (sender->streams[i].phase == phase)
			return true;
	return false;
}

/* No peak: that would be the rate of the fastest message, which is not measured. */
static void start_to_finish(struct sender *sender)
{
	struct sender_perftest *perftest = sender->perftest;
	uint64_t now = worker_now(), bytes = 0;
	double seconds = (double)(now - sender->started) / 1e9;

	for (uint32_t i = 0; i < sender->stream_count; i++) {
		perftest->report.iterations += sender->streams[i].status.messages;
		bytes += sender->streams[i].status.bytes;
	}
	perftest->report.size = sender->options->sources[0].message_size;
	perftest->report.average = (double)bytes / MIB / seconds;
	perftest->report.rate = (double)perftest->report.iterations / 1e6 / seconds;
	perftest->deadline = now + FINISH_NS;
	perftest->finishing = true;
}

static int finish_server(struct sender_perftest *perftest)
{
	struct error *error = &perftest->error;
	int err = perftest_finish(&perftest->exchange, &perftest->report, error);

	if (err == -EAGAIN && worker_now() > perftest->deadline)
		return error_set(error, ETIMEDOUT,
				 "the perftest server did not confirm the end: is it ib_write_bw, "
				 "without -b?");
	return err;
}

/*
 * The server ends with the last stream. When one has failed it is not told that all went well: the
 * end of the connection makes it fail too.
 */
static int finish(struct sender *sender, struct sender_stream *stream, struct error *error)
{
	struct sender_perftest *perftest = sender->perftest;

	(void)stream;
	if (any_in_phase(sender, SENDER_STREAMING))
		return -EAGAIN;
	if (any_in_phase(sender, SENDER_FAILED) && !perftest->result)
		return 0;
	if (!perftest->finishing)
		start_to_finish(sender);
	if (!perftest->result || perftest->result == -EAGAIN)
		perftest->result = finish_server(perftest);
	*error = perftest->error;
	return perftest->result;
}

static void close_server(struct sender *sender)
{
	if (!sender->perftest)
		return;
	perftest_close(&sender->perftest->exchange);
	free(sender->perftest);
	sender->perftest = NULL;
}

const struct peer peer_perftest = {
	.scheme = "perftest",
	.port = PERFTEST_PORT,
	.takes_writes = true,
	.access_hint = "start ib_write_bw with an -s that is not below --message-size",
	.connect = connect_server,
	.exchange = exchange_stream,
	.ready = ready,
	.watch = watch,
	.finish = finish,
	.close = close_server,
};
