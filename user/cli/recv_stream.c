/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "recv.h"

#define OFFER_TIMEOUT_MS 10000
#define DONE_TIMEOUT_MS 5000
#define STRAGGLERS_MS 500 /* how long frames may still come after the sender is done */
#define LINGER_MS 1000    /* for a sender to stop after an error */
#define PAGE 4096u
/* IPv4, UDP, BTH, RETH, immediate, ICRC around the payload of a packet; IPv6 is 20 bytes longer. */
#define OVERHEAD_IPV4 (20 + 8 + 12 + 16 + 4 + 4)
#define OVERHEAD_IPV6 (OVERHEAD_IPV4 + 20)

/* The stream while it is served. */
struct session {
	struct recv_stream *stream;
	struct recv_shared *shared;
	const struct recv_options *options;
	struct error *error;
	struct recv_interface interface;
	struct soft *soft;
	struct soft_stream *soft_stream;
	uint8_t *memory;
	uint64_t memory_size;
	struct responder_config config;
	struct recv_output output;
	uint64_t written; /* messages that the reader is done with */
	uint64_t next_number;
	bool settled; /* the sender knows how it ended */
};

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Can what is offered be received? */

static int check_mtu(struct session *session)
{
	uint32_t pmtu = session->stream->offer.pmtu;
	uint32_t need = pmtu + (session->interface.ipv6 ? OVERHEAD_IPV6 : OVERHEAD_IPV4);

	if (pmtu < 256 || pmtu > 4096 || (pmtu & (pmtu - 1)))
		return error_set(session->error, EINVAL,
				 "the offered PMTU is %u; it must be 256, 512, 1024, 2048 or 4096",
				 pmtu);
	if (session->interface.mtu < need)
		return error_set(session->error, EMSGSIZE,
				 "PMTU %u needs an MTU of %u, but the receiver's %s has %u: raise "
				 "it there or send with a smaller PMTU",
				 pmtu, need, session->interface.name, session->interface.mtu);
	return 0;
}

static int reserve_memory(struct session *session)
{
	const struct recv_options *options = session->options;
	uint64_t size = session->stream->offer.message_size, slots = options->slots;
	uint64_t slot = options->slot_size ? options->slot_size : (size + PAGE - 1) / PAGE * PAGE;
	uint64_t total;

	if (size > ROCE_MAX_MESSAGE)
		return error_set(session->error, EMSGSIZE,
				 "messages of %" PRIu64 " bytes are longer than RDMA allows (%u)",
				 size, ROCE_MAX_MESSAGE);
	if (!slot)
		slot = PAGE;
	if (size > slot)
		return error_set(session->error, EMSGSIZE,
				 "messages of up to %" PRIu64 " bytes do not fit the receiver's "
				 "slots of %" PRIu64 ": start it with a larger --slot-size",
				 size, slot);
	pthread_mutex_lock(&session->shared->lock);
	if (__builtin_mul_overflow(slot, slots, &total) ||
	    total > options->memory - session->shared->memory_used)
		total = 0;
	session->shared->memory_used += total;
	pthread_mutex_unlock(&session->shared->lock);
	if (!total)
		return error_set(session->error, ENOMEM,
				 "%" PRIu64 " slots of %" PRIu64 " bytes are more than the "
				 "receiver's memory limit of %" PRIu64 " bytes leaves: start it "
				 "with a larger --memory or fewer --slots",
				 slots, slot, options->memory);
	session->memory_size = total;
	session->config.slot_size = slot;
	session->config.slot_count = options->slots;
	session->memory = calloc(1, total);
	return session->memory
		       ? 0
		       : error_set(session->error, ENOMEM,
				   "the receiver has no %" PRIu64 " bytes of memory left", total);
}

/* The interface's responder, started with its first stream. */
static int find_soft(struct session *session)
{
	struct recv_shared *shared = session->shared;
	struct soft_config config = {
		.ifindex = session->interface.index,
		.interface = session->interface.name,
		.faults = session->options->faults,
	};
	int rc = 0, i = 0;

	pthread_mutex_lock(&shared->lock);
	while (i < RECV_INTERFACES && shared->interfaces[i].soft &&
	       shared->interfaces[i].ifindex != session->interface.index)
		i++;
	if (i == RECV_INTERFACES)
		rc = error_set(session->error, ENOSPC, "at most %d interfaces can receive at once",
			       RECV_INTERFACES);
	else if (!shared->interfaces[i].soft)
		rc = soft_start(&shared->interfaces[i].soft, &config, session->error);
	if (!rc) {
		shared->interfaces[i].ifindex = session->interface.index;
		session->soft = shared->interfaces[i].soft;
	}
	pthread_mutex_unlock(&shared->lock);
	return rc;
}

static int open_queue_pair(struct session *session)
{
	const struct exchange_offer *offer = &session->stream->offer;
	struct responder_config *config = &session->config;
	struct {
		uint64_t address;
		uint32_t rkey;
	} random;

	if (getrandom(&random, sizeof(random), 0) < 0)
		return error_set(session->error, errno, "no random numbers: %s", strerror(errno));
	config->peer_qpn = offer->qpn;
	config->psn = offer->psn;
	memcpy(config->ip, session->interface.ip, 16);
	memcpy(config->peer_ip, offer->ip, 16);
	config->uc = offer->uc;
	config->immediate = offer->immediate;
	config->pmtu = offer->pmtu;
	/* Like a user space address: page-aligned, below 2^47, so that no slot wraps. */
	config->address = random.address >> 17 & ~(uint64_t)(PAGE - 1);
	config->rkey = random.rkey;
	config->memory = session->memory;
	config->credits = session->options->credits;
	config->rnr_timer = session->options->rnr_timer;
	return soft_open(session->soft, config, &session->soft_stream, session->error);
}

static int send_answer(struct session *session)
{
	struct exchange_answer answer = {
		.qpn = session->config.qpn,
		.pmtu = session->config.pmtu,
		.rkey = session->config.rkey,
		.address = session->config.address,
		.slot_size = session->config.slot_size,
		.slot_count = session->config.slot_count,
	};

	if (getrandom(&answer.psn, sizeof(answer.psn), 0) < 0)
		return error_set(session->error, errno, "no random numbers: %s", strerror(errno));
	answer.psn &= ROCE_PSN_MASK;
	memcpy(answer.ip, session->interface.ip, 16);
	return exchange_send_answer(session->stream->connection, &answer, session->error);
}

/* Waits for the connection, the responder and the end: what of them is ready, or -errno. */
enum { READY_CONNECTION = 1, READY_MESSAGES = 2 };

static int wait_session(struct session *session, bool connection, int timeout_ms)
{
	struct pollfd fds[3] = {
		{ .fd = session->shared->stop, .events = POLLIN },
		{ .fd = session->soft_stream ? soft_event(session->soft_stream) : -1,
		  .events = POLLIN },
		{ .fd = connection ? session->stream->connection : -1, .events = POLLIN },
	};
	uint64_t count;

	while (poll(fds, 3, timeout_ms) < 0)
		if (errno != EINTR)
			return error_set(session->error, errno, "cannot wait for the sender: %s",
					 strerror(errno));
	if (fds[0].revents)
		return error_set(session->error, EINTR, "the receiver was interrupted");
	if (fds[1].revents && read(fds[1].fd, &count, sizeof(count)) < 0)
		fds[1].revents = 0;
	return (fds[1].revents ? READY_MESSAGES : 0) | (fds[2].revents ? READY_CONNECTION : 0);
}

static int delay_reader(struct session *session)
{
	uint64_t delay = session->options->reader_delay_ns;
	struct pollfd stop = { .fd = session->shared->stop, .events = POLLIN };
	struct timespec wait = {
		.tv_sec = (time_t)(delay / 1000000000),
		.tv_nsec = (long)(delay % 1000000000),
	};

	if (delay && ppoll(&stop, 1, &wait, NULL) > 0)
		return error_set(session->error, EINTR, "the receiver was interrupted");
	return 0;
}

/* RC numbers its messages without a gap, UC loses some. */
static int check_message(struct session *session, const struct responder_message *message)
{
	bool first = !session->written;

	if (message->length > session->config.slot_size)
		return error_set(session->error, EMSGSIZE,
				 "message %" PRIu64 " of %u bytes is longer than its slot of "
				 "%" PRIu64,
				 message->number, message->length, session->config.slot_size);
	if (!first && message->number != session->next_number && !session->config.uc)
		return error_set(session->error, EPROTO,
				 "the immediate of a message is %u where %u was expected: the "
				 "sender must number its messages",
				 (uint32_t)message->number, (uint32_t)session->next_number);
	if (!first && message->number > session->next_number)
		session->stream->lost_messages += message->number - session->next_number;
	session->next_number = message->number + 1;
	return 0;
}

static int write_message(struct session *session, uint64_t n)
{
	struct responder_message message =
		responder_reader_message(soft_qp(session->soft_stream), n);
	int rc = check_message(session, &message);

	if (!rc)
		rc = recv_output_write(&session->output,
				       session->memory + message.slot * session->config.slot_size,
				       message.length, session->shared->stop, session->error);
	if (!rc)
		rc = delay_reader(session);
	return rc;
}

/* Writes what is complete and releases its slots one by one. */
static int write_messages(struct session *session)
{
	struct responder_qp *qp = soft_qp(session->soft_stream);

	while (session->written != responder_reader_completed(qp)) {
		int rc = write_message(session, session->written);

		if (rc)
			return rc;
		responder_reader_release(qp, ++session->written);
	}
	return 0;
}

/*
 * Without immediates nothing holds the sender back, so a slot counts only when the sender is done,
 * and only when none was used twice.
 */
static int write_plain_messages(struct session *session)
{
	uint64_t completed = responder_reader_completed(soft_qp(session->soft_stream));

	if (session->output.fd >= 0 && completed > session->config.slot_count)
		return error_set(session->error, EOVERFLOW,
				 "%" PRIu64 " messages went into %u slots without immediates, so "
				 "overwritten ones cannot be told: send with --immediate, or "
				 "receive with more --slots",
				 completed, session->config.slot_count);
	return completed > session->config.slot_count ? 0 : write_messages(session);
}

/* The sender says how much it was. Frames that overtook each other or were delayed may still come.
 */
static int finish(struct session *session)
{
	struct recv_stream *stream = session->stream;
	struct exchange_count received;
	double until = now_seconds() + STRAGGLERS_MS * 1e-3;
	int rc = exchange_read_done(stream->connection, &stream->done, DONE_TIMEOUT_MS,
				    session->error);

	if (rc)
		return rc;
	for (;;) {
		double left = until - now_seconds();

		rc = session->config.immediate ? write_messages(session) : 0;
		soft_report(session->soft, session->soft_stream, &stream->report);
		if (rc || stream->report.counters.messages >= stream->done.messages || left <= 0)
			break;
		rc = wait_session(session, false, (int)(left * 1e3) + 1);
		if (rc < 0)
			break;
	}
	if (rc < 0)
		return rc;
	rc = session->config.immediate ? write_messages(session) : write_plain_messages(session);
	if (!rc)
		rc = recv_output_close(&session->output, session->error);
	if (rc)
		return rc;
	received.messages = stream->report.counters.messages;
	received.bytes = stream->report.counters.bytes;
	rc = exchange_send_received(stream->connection, &received, session->error);
	if (rc)
		return rc;
	session->settled = true;
	if (received.messages != stream->done.messages || received.bytes != stream->done.bytes)
		return error_set(session->error, EIO,
				 "the sender sent %" PRIu64 " messages with %" PRIu64 " bytes, but "
				 "%" PRIu64 " messages with %" PRIu64 " bytes arrived",
				 stream->done.messages, stream->done.bytes, received.messages,
				 received.bytes);
	return 0;
}

static int prepare(struct session *session)
{
	struct recv_stream *stream = session->stream;
	int rc = wait_session(session, true, OFFER_TIMEOUT_MS);

	if (rc >= 0)
		rc = exchange_read_offer(stream->connection, &stream->offer, OFFER_TIMEOUT_MS,
					 session->error);
	if (!rc)
		rc = recv_interface_find(&session->interface, stream->connection, session->error);
	if (!rc)
		rc = check_mtu(session);
	if (!rc)
		rc = reserve_memory(session);
	if (!rc)
		rc = find_soft(session);
	if (!rc)
		rc = recv_output_open(&session->output, session->options->output,
				      stream->offer.name, session->shared->stop, session->error);
	if (!rc)
		rc = open_queue_pair(session);
	return rc;
}

static int serve(struct session *session)
{
	int rc = prepare(session);

	if (rc)
		return rc;
	rc = send_answer(session);
	if (rc)
		return rc;
	session->stream->started = true;
	for (;;) {
		int ready = wait_session(session, true, -1);

		if (ready < 0)
			return ready;
		if (ready & READY_CONNECTION)
			return finish(session);
		rc = session->config.immediate ? write_messages(session) : 0;
		if (rc)
			return rc;
	}
}

static void clean_up(struct session *session)
{
	struct error ignored;

	if (session->soft_stream) {
		soft_report(session->soft, session->soft_stream, &session->stream->report);
		soft_close(session->soft, session->soft_stream);
	}
	recv_output_close(&session->output, &ignored);
	free(session->memory);
	pthread_mutex_lock(&session->shared->lock);
	session->shared->memory_used -= session->memory_size;
	pthread_mutex_unlock(&session->shared->lock);
	close(session->stream->connection);
}

/*
 * The sender stops when it has read why, and closes the connection when no frame follows. Until
 * then its frames must meet the responder, or the kernel answers them with ICMP.
 */
static void await_sender_end(int connection)
{
	struct pollfd poll_fd = { .fd = connection, .events = POLLIN };
	double until = now_seconds() + LINGER_MS * 1e-3, left;
	char ignored[256];

	while ((left = until - now_seconds()) > 0)
		if (poll(&poll_fd, 1, (int)(left * 1e3) + 1) <= 0 ||
		    read(connection, ignored, sizeof(ignored)) <= 0)
			return;
}

static void *stream_thread(void *context)
{
	struct recv_stream *stream = context;
	struct session session = {
		.stream = stream,
		.shared = stream->shared,
		.options = &stream->shared->options,
		.error = &stream->error,
		.output = { .fd = -1 },
	};
	double start = now_seconds();
	uint64_t one = 1;
	int rc = serve(&session);

	if (rc && !session.settled)
		exchange_send_error(stream->connection, stream->error.text);
	if (rc && stream->started)
		await_sender_end(stream->connection);
	stream->complete = !rc;
	stream->seconds = now_seconds() - start;
	clean_up(&session);
	atomic_store(&stream->ended, true);
	if (write(stream->shared->finished, &one, sizeof(one)) < 0)
		return NULL;
	return NULL;
}

int recv_stream_start(struct recv_stream *stream, struct error *error)
{
	int rc = pthread_create(&stream->thread, NULL, stream_thread, stream);

	return rc ? error_set(error, rc, "no thread for a sender: %s", strerror(rc)) : 0;
}
