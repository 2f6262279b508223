/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "recv_session.h"

#define OFFER_TIMEOUT_MS 10000
#define DONE_TIMEOUT_MS 5000
#define STRAGGLERS_MS 500 /* how long frames may still come after the sender is done */
#define ACCOUNT_MS 3000   /* how long a sender has to say why the queue pair failed */
#define LINGER_MS 1000    /* for a sender to stop after an error */
#define PAGE 4096u

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Can what is offered be received? */

static int check_offer(struct recv_session *session)
{
	const struct exchange_offer *offer = &session->stream->offer;
	uint32_t pmtu = offer->pmtu;

	if (pmtu < 256 || pmtu > 4096 || (pmtu & (pmtu - 1)))
		return error_set(session->error, EINVAL,
				 "the offered PMTU is %u; it must be 256, 512, 1024, 2048 or 4096",
				 pmtu);
	if (offer->uc && offer->packet_mode && !offer->record)
		return error_set(session->error, EINVAL,
				 "in UC packet mode without a record neither lost packets nor "
				 "overruns can be seen: send with --record on");
	session->answer.pmtu = pmtu;
	session->told = !offer->immediate && (offer->packet_mode || offer->record ||
					      !session->receiver->sees_plain_writes);
	session->counts = session->told || offer->packet_mode || offer->record || offer->uc;
	return session->receiver->check(session);
}

static int reserve_memory(struct recv_session *session)
{
	const struct recv_options *options = session->options;
	const struct exchange_offer *offer = &session->stream->offer;
	uint64_t size = exchange_slot_needed(offer);
	uint64_t slot = options->slot_size ? options->slot_size : (size + PAGE - 1) / PAGE * PAGE;
	bool copy = offer->uc && offer->record;
	uint64_t slots = (uint64_t)options->slots + copy, total;

	if (offer->message_size > ROCE_MAX_MESSAGE)
		return error_set(session->error, EMSGSIZE,
				 "messages of %" PRIu64 " bytes are longer than RDMA allows (%u)",
				 offer->message_size, ROCE_MAX_MESSAGE);
	if (!slot)
		slot = PAGE;
	if (size > slot)
		return error_set(session->error, EMSGSIZE,
				 "messages of up to %" PRIu64 " bytes%s do not fit the receiver's "
				 "slots of %" PRIu64 ": start it with a larger --slot-size",
				 offer->message_size,
				 offer->record ? " and their records of 64" : "", slot);
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
	session->memory_reserved = total;
	session->answer.slot_size = slot;
	session->answer.slot_count = options->slots;
	/* The copy lies behind what the sender can reach. */
	session->copies = copy;
	return receiver_memory_open(&session->memory, total, options->hugepages, session->error);
}

/* Waits for the connection, the receiver and the end: what of them is ready, or -errno. */
enum { READY_CONNECTION = 1, READY_MESSAGES = 2 };

static int wait_session(struct recv_session *session, bool connection, int timeout_ms)
{
	struct pollfd fds[3] = {
		{ .fd = session->shared->stop, .events = POLLIN },
		{ .fd = session->stream->qp_error ? -1 : session->receiver->event(session),
		  .events = POLLIN },
		{ .fd = connection ? session->stream->connection : -1, .events = POLLIN },
	};

	while (poll(fds, 3, timeout_ms) < 0)
		if (errno != EINTR)
			return error_set(session->error, errno, "cannot wait for the sender: %s",
					 strerror(errno));
	if (fds[0].revents)
		return error_set(session->error, EINTR, "the receiver was interrupted");
	return (fds[1].revents ? READY_MESSAGES : 0) | (fds[2].revents ? READY_CONNECTION : 0);
}

/* Frames that overtook each other or were delayed may still come after the sender's last word. */
static int await_messages(struct recv_session *session)
{
	struct recv_stream *stream = session->stream;
	double until = now_seconds() + STRAGGLERS_MS * 1e-3;
	int rc;

	for (;;) {
		double left = until - now_seconds();

		rc = stream->offer.immediate ? recv_write_messages(session) : 0;
		session->receiver->report(session);
		if (rc || stream->messages >= stream->done.messages || left <= 0)
			return rc;
		rc = wait_session(session, false, (int)(left * 1e3) + 1);
		if (rc < 0)
			return rc;
		if (rc && !stream->offer.immediate) {
			uint64_t ignored;

			rc = session->receiver->collect(session, &ignored);
			if (rc)
				return rc;
		}
	}
}

/* Those after the last one that came leave no gap in the numbers. */
static void count_lost(struct recv_stream *stream)
{
	uint64_t arrived = stream->messages + (stream->offer.record ? stream->overruns : 0);

	if (stream->offer.uc && stream->done.messages > arrived)
		stream->lost_messages = stream->done.messages - arrived;
}

/* Nobody tells of them, and UC may deliver some yet. */
static int await_told_messages(struct recv_session *session)
{
	struct pollfd stop = { .fd = session->shared->stop, .events = POLLIN };

	if (session->stream->offer.uc && poll(&stop, 1, STRAGGLERS_MS) > 0)
		return error_set(session->error, EINTR, "the receiver was interrupted");
	return 0;
}

/* What became of the messages that are missing, as far as records tell. */
static void name_losses(struct recv_session *session)
{
	const struct recv_stream *stream = session->stream;
	char *text = session->error->text;
	size_t used = strlen(text), room = sizeof(session->error->text);

	if (!stream->offer.record)
		return;
	used += (size_t)snprintf(text + used, room - used,
				 "; %" PRIu64 " were lost, %" PRIu64
				 " overwritten before they were written out",
				 stream->lost_messages, stream->overruns);
	if (stream->bad_records && used < room)
		snprintf(text + used, room - used, ", the record of message %" PRIu64 " is bad: %s",
			 session->bad_number, record_fault_text(session->bad_fault));
}

/* Tells the sender what has arrived, and both what is missing. */
static int settle(struct recv_session *session)
{
	struct recv_stream *stream = session->stream;
	struct exchange_count received = { .messages = stream->messages, .bytes = stream->bytes };
	int rc = exchange_send_received(stream->connection, &received, session->error);

	if (rc)
		return rc;
	session->settled = true;
	if (received.messages == stream->done.messages && received.bytes == stream->done.bytes)
		return 0;
	rc = error_set(session->error, EIO,
		       "the sender sent %" PRIu64 " messages with %" PRIu64 " bytes, but "
		       "%" PRIu64 " messages with %" PRIu64 " bytes arrived",
		       stream->done.messages, stream->done.bytes, received.messages,
		       received.bytes);
	name_losses(session);
	return rc;
}

/* The sender says how much it was. */
static int finish(struct recv_session *session)
{
	struct recv_stream *stream = session->stream;
	int rc = exchange_read_done(stream->connection, &stream->done, DONE_TIMEOUT_MS,
				    session->error);

	if (!rc)
		rc = session->told ? await_told_messages(session) : await_messages(session);
	if (!rc && !stream->offer.immediate)
		rc = recv_write_plain_messages(session);
	count_lost(stream);
	if (!rc)
		rc = recv_output_close(&session->output, session->error);
	/* With records what was overwritten is left out, and settled as lost. */
	if (!rc && stream->overruns && !stream->offer.record)
		rc = error_set(session->error, EOVERFLOW,
			       "the slots of %" PRIu64 " messages were used again before they were "
			       "written out; UC does not wait for the reader: receive with more "
			       "--slots, or send with --record on, which tells what is right",
			       stream->overruns);
	return rc ? rc : settle(session);
}

/* The sender learns of it by a NAK or by silence, and its account tells more than ours. */
static int lose_queue_pair(struct recv_session *session, int failure)
{
	struct error own = *session->error;
	int ready = wait_session(session, true, ACCOUNT_MS);
	struct exchange_count ignored;

	if (ready < 0)
		return ready;
	if (ready && exchange_read_done(session->stream->connection, &ignored, DONE_TIMEOUT_MS,
					session->error))
		return failure;
	*session->error = own;
	return failure;
}

static int prepare(struct recv_session *session)
{
	struct recv_stream *stream = session->stream;
	int rc = wait_session(session, true, OFFER_TIMEOUT_MS);

	if (rc >= 0)
		rc = exchange_read_offer(stream->connection, &stream->offer, OFFER_TIMEOUT_MS,
					 session->error);
	if (!rc)
		rc = check_offer(session);
	if (!rc)
		rc = reserve_memory(session);
	if (!rc)
		rc = recv_output_open(&session->output, session->options->output,
				      stream->offer.name, session->shared->stop, session->error);
	if (!rc)
		rc = session->receiver->open(session);
	session->open = !rc;
	return rc;
}

static int serve(struct recv_session *session)
{
	struct recv_stream *stream = session->stream;
	int rc = prepare(session);
	uint64_t ignored;

	if (!rc)
		rc = exchange_send_answer(stream->connection, &session->answer, session->error);
	if (rc < 0)
		return rc;
	stream->started = true;
	for (;;) {
		int ready = wait_session(session, true, -1);

		if (ready < 0)
			return ready;
		if (ready & READY_CONNECTION)
			return finish(session);
		rc = stream->offer.immediate ? recv_write_messages(session)
					     : session->receiver->collect(session, &ignored);
		if (rc)
			return stream->qp_error ? lose_queue_pair(session, rc) : rc;
	}
}

static void clean_up(struct recv_session *session)
{
	struct error ignored;

	if (session->open) {
		session->receiver->report(session);
		session->receiver->close(session);
	}
	recv_output_close(&session->output, &ignored);
	receiver_memory_close(&session->memory);
	pthread_mutex_lock(&session->shared->lock);
	session->shared->memory_used -= session->memory_reserved;
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

/* A sender that only went away may have done so because the queue pair failed. */
static void name_failure(struct recv_session *session)
{
	struct error *told = session->error, own;
	size_t used = strlen(told->text);
	uint64_t ignored;

	session->receiver->report(session);
	session->error = &own;
	if (session->receiver->collect(session, &ignored) && !strstr(told->text, own.text))
		snprintf(told->text + used, sizeof(told->text) - used, "; %s", own.text);
	session->error = told;
}

static void *stream_thread(void *context)
{
	struct recv_stream *stream = context;
	struct recv_session session = {
		.stream = stream,
		.shared = stream->shared,
		.options = &stream->shared->options,
		.error = &stream->error,
		.receiver =
			stream->shared->options.soft ? &recv_soft_receiver : &recv_verbs_receiver,
		.output = { .fd = -1 },
	};
	double start = now_seconds();
	uint64_t one = 1;
	int rc = serve(&session);

	if (rc && !session.settled)
		exchange_send_error(stream->connection, stream->error.text);
	if (rc && stream->started)
		await_sender_end(stream->connection);
	if (rc && session.open)
		name_failure(&session);
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
