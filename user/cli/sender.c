/* SPDX-License-Identifier: BSD-2-Clause */
#include "sender.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../connect/guard.h"
#include "../connect/owner.h"

#define CONNECT_MS 5000
#define RECEIVED_NS 60000000000u /* for the receiver to write out what it has */
#define SETTLE_NS 100000000u     /* for a status from after the loss */
#define LOST_NS 10000000000u     /* without the control connection a stream may go on so long */

static const uint8_t mapped_prefix[12] = { [10] = 0xFF, [11] = 0xFF };

int sender_check_kernel(const char *release, uint32_t pmtu, struct error *error)
{
	unsigned int major = 0, minor = 0;

	if (sscanf(release, "%u.%u", &major, &minor) != 2)
		return 0; /* no release that we know how to read: let the calls themselves tell */
	if (major < 6 || (major == 6 && minor < 1))
		return error_set(error, ENOSYS, "xdp2roce needs Linux 6.1 or later, found %s",
				 release);
	if (pmtu > 2048 && major == 6 && minor < 6)
		return error_set(error, ENOSYS,
				 "PMTU 4096 needs Linux 6.6 or later (a frame of two descriptors), "
				 "found %s: use --pmtu 2048",
				 release);
	return 0;
}

static int resolve(struct sender *sender, char host[INET_ADDRSTRLEN], struct error *error)
{
	const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	struct in_addr address;
	int err = getaddrinfo(sender->options->host, NULL, &hints, &found);

	if (err)
		return error_set(
			error, EHOSTUNREACH,
			"'%s' has no IPv4 address (%s): name a host or an address that the "
			"receiver listens on",
			sender->options->host, gai_strerror(err));
	address = ((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_addr;
	freeaddrinfo(found);
	memcpy(sender->remote_ip, mapped_prefix, sizeof(mapped_prefix));
	memcpy(sender->remote_ip + 12, &address, 4);
	inet_ntop(AF_INET, &address, host, INET_ADDRSTRLEN);
	return 0;
}

/* The largest PMTU that the interface carries, or the one asked for, if it does. */
static int choose_pmtu(struct sender *sender, struct error *error)
{
	uint32_t wanted = sender->options->pmtu, mtu = sender->route.mtu, pmtu = 4096;
	uint32_t overhead = framer_ip_overhead(!framer_is_ipv4(sender->remote_ip));
	struct utsname system;

	uname(&system);
	if (!wanted)
		while (pmtu > 256 &&
		       (pmtu + overhead > mtu || sender_check_kernel(system.release, pmtu, error)))
			pmtu /= 2;
	else
		pmtu = wanted;
	if (pmtu + overhead > mtu)
		return error_set(
			error, EMSGSIZE,
			"PMTU %u needs an MTU of %u on %s, found %u: raise it (ip link set %s "
			"mtu %u) or choose a smaller --pmtu",
			pmtu, pmtu + overhead, sender->route.interface, mtu,
			sender->route.interface, pmtu + overhead);
	sender->pmtu = pmtu;
	return sender_check_kernel(system.release, pmtu, error);
}

static const char *source_name(const struct source_config *config)
{
	const char *slash;

	if (!config->path)
		return "pattern";
	if (!strcmp(config->path, "-"))
		return "stdin";
	slash = strrchr(config->path, '/');
	return slash ? slash + 1 : config->path;
}

static int open_sources(struct sender *sender, struct error *error)
{
	for (uint32_t i = 0; i < sender->options->source_count; i++) {
		const struct source_config *config = &sender->options->sources[i];
		struct sender_stream *stream = &sender->streams[i];
		int err = source_start(&stream->source, config, error);

		if (err)
			return err;
		snprintf(stream->name, sizeof(stream->name), "%s", source_name(config));
		stream->total_bytes = source_total_bytes(stream->source);
	}
	return 0;
}

static int connect_all(struct sender *sender, const char *host, struct error *error)
{
	for (uint32_t i = 0; i < sender->stream_count; i++) {
		int fd = exchange_connect(host, sender->options->port, CONNECT_MS, error);

		if (fd < 0)
			return fd;
		sender->streams[i].control = fd;
	}
	return 0;
}

static int open_program(struct sender *sender, struct error *error)
{
	int err = xdp_program_open(&sender->program, sender->route.ifindex, sender->route.interface,
				   ACK_MAP_QPS, 1, error);

	if (err)
		return err;
	sender->program_open = true;
	sender->guard = guard_open(error);
	if (sender->guard < 0 && sender->guard != -EADDRINUSE)
		return sender->guard;
	return 0;
}

static int open_worker(struct sender *sender, struct error *error)
{
	const struct worker_config config = {
		.program = &sender->program,
		.interface = sender->route.interface,
		.queue = sender->options->queue,
		.streams = sender->stream_count,
		.umem_bytes = sender->stream_count *
			      worker_stream_bytes(sender->pmtu, sender->options->ring),
		.multi_buffer = sender->pmtu > 2048,
	};
	int err = worker_open(&sender->worker, &config, error);

	sender->worker_open = !err;
	return err;
}

static int check_answer(const struct sender *sender, const struct exchange_offer *offer,
			const struct exchange_answer *answer, struct error *error)
{
	if (memcmp(answer->ip, sender->remote_ip, 16))
		return error_set(
			error, EPROTO,
			"the receiver answers for another address than %s: name the address "
			"that its RDMA device has",
			sender->options->host);
	if (answer->pmtu != offer->pmtu)
		return error_set(error, EPROTO,
				 "the receiver takes PMTU %u, offered was %u: use --pmtu %u",
				 answer->pmtu, offer->pmtu, answer->pmtu);
	if (answer->slot_size < offer->message_size)
		return error_set(
			error, EMSGSIZE,
			"messages of %llu bytes do not fit the receiver's slots of %llu: use "
			"--message-size %llu or a larger --slot-size there",
			(unsigned long long)offer->message_size,
			(unsigned long long)answer->slot_size,
			(unsigned long long)answer->slot_size);
	if (offer->immediate && answer->slot_count < 2)
		return error_set(
			error, EPROTO,
			"the receiver has %u slot, expected at least 2: one is always kept back",
			answer->slot_count);
	return 0;
}

static int exchange(struct sender *sender, uint32_t i, struct error *error)
{
	const struct sender_options *options = sender->options;
	struct sender_stream *stream = &sender->streams[i];
	struct exchange_answer *answer = &stream->answer;
	struct exchange_offer offer = {
		.qpn = worker_next_qpn(&sender->worker),
		.psn = options->start_psn,
		.uc = options->uc,
		.immediate = options->immediate,
		.pmtu = sender->pmtu,
		.message_size = options->sources[i].message_size,
	};
	struct qp_config qp;
	int err;

	if (!options->fixed_start_psn && getrandom(&offer.psn, sizeof(offer.psn), 0) < 0)
		return error_set(error, errno, "no random numbers from the kernel: %s",
				 strerror(errno));
	offer.psn &= ROCE_PSN_MASK;
	memcpy(offer.name, stream->name, sizeof(offer.name));
	memcpy(offer.ip, sender->route.local_ip, 16);
	err = exchange_send_offer(stream->control, &offer, error);
	if (!err)
		err = exchange_read_answer(stream->control, answer, CONNECT_MS, error);
	if (!err)
		err = check_answer(sender, &offer, answer, error);
	if (err)
		return err;

	qp = (struct qp_config){
		.framer = { .ttl = 64 },
		.remote_qpn = answer->qpn,
		.start_psn = offer.psn,
		.rkey = answer->rkey,
		.remote_address = answer->address,
		.slot_size = answer->slot_size,
		.slot_count = answer->slot_count,
		.pmtu = sender->pmtu,
		.uc = options->uc,
		.immediate = options->immediate,
		.ring = options->ring,
		.ack_timeout = options->ack_timeout,
		.retry = options->retry,
		.rnr_retry = options->rnr_retry,
	};
	memcpy(qp.framer.local_mac, sender->route.local_mac, 6);
	memcpy(qp.framer.remote_mac, sender->route.remote_mac, 6);
	memcpy(qp.framer.local_ip, sender->route.local_ip, 16);
	memcpy(qp.framer.remote_ip, sender->remote_ip, 16);
	return worker_add(&sender->worker, &qp, source_ring_of(stream->source),
			  sender->route.local_ip, sender->remote_ip, error);
}

int sender_open(struct sender *sender, const struct sender_options *options, struct error *error)
{
	char host[INET_ADDRSTRLEN];
	int err;

	memset(sender, 0, sizeof(*sender));
	sender->options = options;
	sender->claim = sender->guard = -1;
	sender->streams = calloc(options->source_count, sizeof(*sender->streams));
	if (!sender->streams)
		return error_set(error, ENOMEM, "no memory for %u streams", options->source_count);
	sender->stream_count = options->source_count;
	for (uint32_t i = 0; i < sender->stream_count; i++)
		sender->streams[i].control = -1;

	err = open_sources(sender, error);
	if (!err)
		err = resolve(sender, host, error);
	if (!err)
		err = route_find(&sender->route, sender->remote_ip, options->interface, CONNECT_MS,
				 error);
	if (!err)
		err = choose_pmtu(sender, error);
	if (!err) {
		sender->claim = owner_claim(sender->route.ifindex, sender->route.interface, error);
		err = sender->claim < 0 ? sender->claim : 0;
	}
	if (!err)
		err = connect_all(sender, host, error);
	if (!err)
		err = open_program(sender, error);
	if (!err)
		err = open_worker(sender, error);
	for (uint32_t i = 0; !err && i < sender->stream_count; i++)
		err = exchange(sender, i, error);
	for (uint32_t i = 0; err && i < sender->stream_count; i++)
		if (sender->streams[i].control >= 0)
			exchange_send_error(sender->streams[i].control, error->text);
	return err;
}

int sender_start(struct sender *sender, struct error *error)
{
	sender->started = worker_now();
	return worker_start(&sender->worker, error);
}

/* What an error of the queue pair means, and what to look at. */
static void explain_qp_error(struct sender_stream *stream)
{
	const struct requester_error *qp = &stream->status.error;
	char last[32] = "none was received", *text = stream->error.text;
	size_t room = sizeof(stream->error.text);

	if (qp->syndrome <= 0xFF)
		snprintf(last, sizeof(last), "last syndrome 0x%02x", qp->syndrome);
	switch (qp->failure) {
	case REQUESTER_RETRY_EXCEEDED:
		snprintf(text, room,
			 "the receiver does not answer: PSN 0x%06x was sent %u times (%s); is the "
			 "receiver still running, and does the path carry PMTU frames?",
			 qp->psn, qp->tries, last);
		break;
	case REQUESTER_RNR_RETRY_EXCEEDED:
		snprintf(text, room,
			 "the receiver was not ready for PSN 0x%06x, asked %u times (%s); its "
			 "reader "
			 "is too slow, or raise --rnr-retry",
			 qp->psn, qp->tries, last);
		break;
	case REQUESTER_INVALID_REQUEST:
		snprintf(text, room,
			 "the receiver refused PSN 0x%06x as invalid (%s, sent %u times); compare "
			 "PMTU and message size at both ends",
			 qp->psn, last, qp->tries);
		break;
	case REQUESTER_REMOTE_ACCESS:
		snprintf(text, room,
			 "the receiver refused access at PSN 0x%06x (%s, sent %u times); rkey, "
			 "address or size do not match its memory",
			 qp->psn, last, qp->tries);
		break;
	default:
		snprintf(text, room,
			 "the receiver failed at PSN 0x%06x (%s, sent %u times); its own log says "
			 "why",
			 qp->psn, last, qp->tries);
	}
}

/* The connection stays until the worker has stopped: its end tells the receiver that no frame
 * follows.
 */
static void fail(struct sender_stream *stream)
{
	stream->phase = SENDER_FAILED;
	if (stream->control >= 0)
		exchange_send_error(stream->control, stream->error.text);
}

static void send_done(struct sender_stream *stream)
{
	const struct exchange_count done = {
		.messages = stream->status.messages,
		.bytes = stream->status.bytes,
	};

	if (stream->control < 0) {
		error_set(&stream->error, ECONNRESET,
			  "the receiver closed the connection before it confirmed the stream");
		fail(stream);
	} else if (exchange_send_done(stream->control, &done, &stream->error)) {
		fail(stream);
	} else {
		stream->phase = SENDER_DONE_SENT;
		stream->deadline = worker_now() + RECEIVED_NS;
	}
}

static void end_streaming(struct sender_stream *stream)
{
	switch (stream->status.end) {
	case STREAM_RUNNING:
		return;
	case STREAM_DELIVERED:
		send_done(stream);
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
		explain_qp_error(stream);
		break;
	default:
		error_set(&stream->error, EINTR,
			  "stopped before its end; what was started is "
			  "delivered");
	}
	fail(stream);
}

static bool readable(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) > 0;
}

/* Before the end the receiver only ever speaks to say that it fails. */
static void watch_control(struct sender_stream *stream)
{
	struct exchange_count none;
	uint64_t now = worker_now();

	if (stream->control >= 0 && readable(stream->control)) {
		if (exchange_read_received(stream->control, &none, 0, &stream->error) ==
		    -EREMOTEIO) {
			fail(stream);
			return;
		}
		close(stream->control);
		stream->control = -1;
		stream->control_lost = true;
		stream->lost_at = now;
	}
	/* The status that is at hand may be from before the stream began. */
	if (!stream->control_lost || now - stream->lost_at < SETTLE_NS)
		return;
	/* A queue pair that is sending reports itself what became of the receiver. */
	if (stream->status.state == QP_SENDING && now - stream->lost_at < LOST_NS)
		return;
	fail(stream);
}

/* A stream whose length was named and was not kept is not what the user wanted. */
static int check_source(struct sender_stream *stream)
{
	uint64_t excess = source_excess_bytes(stream->source);

	if (stream->status.short_messages)
		return error_set(&stream->error, ENODATA,
				 "the input ended before the %llu bytes that --size promised; the "
				 "rest of its last message was sent as zeros",
				 (unsigned long long)stream->total_bytes);
	if (stream->status.bytes < stream->total_bytes)
		return error_set(
			&stream->error, ENODATA,
			"the input ended after %llu of the %llu bytes that --size promised",
			(unsigned long long)stream->status.bytes,
			(unsigned long long)stream->total_bytes);
	if (excess)
		return error_set(
			&stream->error, EOVERFLOW,
			"the input had %llu bytes more than the %llu that --size promised; "
			"they were not sent",
			(unsigned long long)excess, (unsigned long long)stream->total_bytes);
	return 0;
}

static void await_received(struct sender_stream *stream)
{
	struct exchange_count received;
	int err;

	if (!readable(stream->control)) {
		if (worker_now() < stream->deadline)
			return;
		error_set(&stream->error, ETIMEDOUT,
			  "the receiver did not confirm the stream within a minute");
		fail(stream);
		return;
	}
	err = exchange_read_received(stream->control, &received, CONNECT_MS, &stream->error);
	if (!err && (received.messages != stream->status.messages ||
		     received.bytes != stream->status.bytes))
		err = error_set(
			&stream->error, EBADMSG,
			"the receiver counted %llu messages with %llu bytes, sent were %llu "
			"with %llu",
			(unsigned long long)received.messages, (unsigned long long)received.bytes,
			(unsigned long long)stream->status.messages,
			(unsigned long long)stream->status.bytes);
	if (err) {
		fail(stream);
		return;
	}
	close(stream->control);
	stream->control = -1;
	stream->phase = check_source(stream) ? SENDER_FAILED : SENDER_FINISHED;
}

uint32_t sender_poll(struct sender *sender)
{
	uint32_t running = 0;

	for (uint32_t i = 0; i < sender->stream_count; i++) {
		struct sender_stream *stream = &sender->streams[i];

		stream_read_status(&sender->worker.streams[i], &stream->status);
		if (stream->phase == SENDER_STREAMING)
			end_streaming(stream);
		if (stream->phase == SENDER_STREAMING)
			watch_control(stream);
		if (stream->phase == SENDER_DONE_SENT)
			await_received(stream);
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
		fail(stream);
	}
	sender->finished = worker_now();
}

void sender_close(struct sender *sender)
{
	if (sender->worker_open)
		worker_close(&sender->worker);
	for (uint32_t i = 0; i < sender->stream_count; i++) {
		struct sender_stream *stream = &sender->streams[i];
		struct error ignored;

		if (stream->control >= 0)
			close(stream->control);
		if (stream->source)
			source_stop(stream->source, &ignored);
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
