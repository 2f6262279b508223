/* SPDX-License-Identifier: BSD-2-Clause */
/* What a message is and whether it is right, and its way out of its slot. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include <xdp2roce/xdp2roce.h>

#include "recv_session.h"

static int delay_reader(struct recv_session *session)
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

/*
 * RC numbers its messages without a gap. UC loses some, and may deliver one late or twice, which
 * cannot be told apart: what is behind is left out, so that the output is in order. Sets *behind.
 */
static int check_number(struct recv_session *session, const struct receiver_message *message,
			bool *behind)
{
	struct recv_stream *stream = session->stream;
	bool first = !session->written;

	if (message->length > session->answer.slot_size) {
		stream->long_messages++;
		return error_set(session->error, EMSGSIZE,
				 "message %" PRIu64 " of %u bytes is longer than its slot of "
				 "%" PRIu64,
				 message->number, message->length, session->answer.slot_size);
	}
	if (!first && message->number != session->next_number && !stream->offer.uc)
		return error_set(session->error, EPROTO,
				 "the immediate of a message is %u where %u was expected: the "
				 "sender must number its messages",
				 (uint32_t)message->number, (uint32_t)session->next_number);
	*behind = !first && message->number < session->next_number;
	if (*behind)
		return 0;
	if (!first)
		stream->lost_messages += message->number - session->next_number;
	session->next_number = message->number + 1;
	return 0;
}

/* Payload that is right and may be written out; bytes NULL when there is none. */
struct payload {
	const uint8_t *bytes;
	uint64_t length;
};

/*
 * In packet mode the receive tells of the last packet alone, so a message's length can only be the
 * one that was offered.
 */
static int check_fixed_size(struct recv_session *session, const struct receiver_message *message,
			    struct payload *payload)
{
	const struct exchange_offer *offer = &session->stream->offer;
	uint64_t size = offer->message_size;
	uint32_t last = size ? (uint32_t)((size - 1) % offer->pmtu) + 1 : 0;

	payload->length = size;
	if (message->length == last)
		return 0;
	return error_set(session->error, EPROTO,
			 "message %" PRIu64 " ends with a packet of %u bytes, where messages of "
			 "%" PRIu64 " end with one of %u: in packet mode without a record every "
			 "message must have the offered size; send with --record on",
			 message->number, message->length, size, last);
}

/* Has a message that goes to the same slot come, or must it have been sent, since this one? */
static bool is_overrun(const struct recv_session *session, const struct receiver_message *message,
		       uint64_t completed)
{
	struct receiver_message newest = session->receiver->message(session, completed - 1);

	return newest.number > message->number &&
	       newest.number - message->number >= session->answer.slot_count;
}

/* UC goes on, and leaves the message out; of RC nothing can be lost, so the sender is at fault. */
static int refuse_record(struct recv_session *session, const struct receiver_message *message,
			 enum record_fault fault, bool overrun)
{
	struct recv_stream *stream = session->stream;
	bool bad = fault != RECORD_ABSENT && fault != RECORD_CRC && !overrun;

	if (stream->offer.uc && !bad) {
		stream->overruns += overrun;
		stream->lost_messages += !overrun;
		return 0;
	}
	if (!stream->bad_records++) {
		session->bad_fault = fault;
		session->bad_number = message->number;
	}
	stream->lost_messages += stream->offer.uc;
	return stream->offer.uc ? 0
				: error_set(session->error, EBADMSG,
					    "the record of message %" PRIu64 " is bad: %s",
					    message->number, record_fault_text(fault));
}

/*
 * A slot of UC may be overwritten while it is read: the record and the payload are copied out, and
 * only the copies are looked at.
 */
static int take_recorded(struct recv_session *session, const struct receiver_message *message,
			 struct payload *payload)
{
	const struct exchange_answer *answer = &session->answer;
	const uint8_t *slot = payload->bytes;
	struct record record;
	enum record_fault fault =
		record_read(&record, slot, answer->slot_size, message->number, answer->slot_count);
	bool overrun = fault == RECORD_MESSAGE && record.message > message->number &&
		       record.message % answer->slot_count == message->slot;
	uint64_t completed;

	payload->length = record.length;
	if (!fault && session->copies) {
		uint8_t *copy = session->memory.bytes + answer->slot_size * answer->slot_count;

		memcpy(copy, slot, record.length);
		payload->bytes = copy;
	}
	if (!fault)
		fault = record_check(&record, payload->bytes);
	if (!fault)
		return 0;
	payload->bytes = NULL;
	if (fault == RECORD_CRC && !session->told) {
		/* What the receiver says of itself is seen by the next look at it. */
		session->receiver->collect(session, &completed);
		overrun = is_overrun(session, message, completed);
	}
	return refuse_record(session, message, fault, overrun);
}

static int find_payload(struct recv_session *session, const struct receiver_message *message,
			struct payload *payload)
{
	const struct exchange_offer *offer = &session->stream->offer;

	*payload = (struct payload){
		.bytes = session->memory.bytes + message->slot * session->answer.slot_size,
		.length = message->length,
	};
	if (offer->record)
		return take_recorded(session, message, payload);
	return offer->packet_mode && !session->told ? check_fixed_size(session, message, payload)
						    : 0;
}

static int write_message(struct recv_session *session, const struct receiver_message *message)
{
	struct recv_stream *stream = session->stream;
	struct payload payload = { 0 };
	bool behind = false;
	int rc = check_number(session, message, &behind);

	if (!rc && !behind)
		rc = find_payload(session, message, &payload);
	if (!rc && payload.bytes)
		rc = recv_output_write(&session->output, payload.bytes, payload.length,
				       session->shared->stop, session->error);
	if (!rc)
		rc = delay_reader(session);
	if (!rc && payload.bytes && session->counts) {
		stream->messages++;
		stream->bytes += payload.length;
	}
	return rc;
}

int recv_write_messages(struct recv_session *session)
{
	const struct recv_receiver *receiver = session->receiver;
	uint64_t completed;
	int failure = receiver->collect(session, &completed);

	while (session->written != completed) {
		struct receiver_message message = receiver->message(session, session->written);
		int rc = write_message(session, &message);

		if (rc)
			return rc;
		failure = receiver->collect(session, &completed);
		/* Without a record what was written may be of either; with one it was checked. */
		if (!session->stream->offer.record)
			session->stream->overruns += is_overrun(session, &message, completed);
		receiver->release(session, ++session->written);
	}
	return failure;
}

/*
 * Nobody saw them, so the lengths follow from their records, or from the sender's count: all
 * messages but the last are of the offered size.
 */
static int write_told_messages(struct recv_session *session)
{
	struct recv_stream *stream = session->stream;
	uint64_t messages = stream->done.messages, left = stream->done.bytes;
	uint64_t size = stream->offer.message_size;
	int rc = 0;

	if (!stream->offer.record && messages &&
	    (left > messages * size || (messages > 1 && left <= (messages - 1) * size)))
		return error_set(session->error, EPROTO,
				 "%" PRIu64 " messages of up to %" PRIu64 " bytes with %" PRIu64
				 " bytes in all cannot be told apart without immediates: send with "
				 "--immediate on",
				 messages, size, left);
	for (uint64_t n = 0; n < messages && !rc; n++) {
		const struct receiver_message message = {
			.number = n,
			.slot = (uint32_t)n,
			.length = stream->offer.record ? XDP2ROCE_RECORD_SIZE
						       : (uint32_t)(n + 1 < messages ? size : left),
		};

		rc = write_message(session, &message);
		left -= message.length;
		session->written++;
	}
	return rc;
}

int recv_write_plain_messages(struct recv_session *session)
{
	const struct recv_receiver *receiver = session->receiver;
	struct recv_stream *stream = session->stream;
	bool must_look = session->output.fd >= 0 || (session->told && stream->offer.uc);
	uint64_t messages = 0;
	int rc = receiver->sees_plain_writes ? receiver->collect(session, &messages) : 0;

	if (rc)
		return rc;
	if (session->told)
		messages = stream->done.messages;
	if (messages <= session->answer.slot_count)
		return session->told ? write_told_messages(session) : recv_write_messages(session);
	if (must_look)
		return error_set(session->error, EOVERFLOW,
				 "%" PRIu64 " messages went into %u slots without immediates, so "
				 "overwritten ones cannot be told: send with --immediate, or "
				 "receive with more --slots",
				 messages, session->answer.slot_count);
	/* RC's acknowledgements vouch for what the sender says. */
	if (session->told) {
		stream->messages = stream->done.messages;
		stream->bytes = stream->done.bytes;
	}
	return 0;
}
