/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "worker.h"

int stream_open(struct stream *stream, const struct qp_config *config, uint8_t *umem,
		uint64_t umem_offset, const struct source_ring *source,
		const struct xdp_program *program, uint32_t worker, const uint8_t local_ip[16],
		const uint8_t remote_ip[16], uint64_t now, struct error *error)
{
	struct qp_line *line;
	int err;

	memset(stream, 0, sizeof(*stream));
	stream->index = qpn_index(config->local_qpn);
	stream->generation = qpn_generation(config->local_qpn);
	stream->umem_offset = umem_offset;
	stream->qp_line = line = &program->qp[stream->index];
	stream->ack_line = &program->ack[stream->index];

	err = source_ring_attach(&stream->source, source, error);
	if (err)
		return err;
	err = qp_open(&stream->qp, config, umem + umem_offset, now, error);
	if (err) {
		source_ring_close(&stream->source);
		return err;
	}

	__atomic_store_n(&line->open, 0, __ATOMIC_RELEASE);
	memset(stream->ack_line, 0, sizeof(*stream->ack_line));
	line->worker = worker;
	line->start_psn = config->start_psn;
	line->highest_psn = qp_highest_psn(&stream->qp);
	memcpy(line->local_ip, local_ip, 16);
	memcpy(line->remote_ip, remote_ip, 16);
	__atomic_store_n(&line->open, QP_OPEN | stream->generation, __ATOMIC_RELEASE);
	stream_publish_status(stream);
	return 0;
}

void stream_close(struct stream *stream)
{
	if (stream->qp_line)
		__atomic_store_n(&stream->qp_line->open, 0, __ATOMIC_RELEASE);
	qp_close(&stream->qp);
	source_ring_close(&stream->source);
	stream->qp_line = NULL;
}

/* Is the word new, and of this life of the QP? */
static bool take_word(const struct stream *stream, const __u64 *shared, uint64_t *seen)
{
	uint64_t word = __atomic_load_n(shared, __ATOMIC_ACQUIRE);

	if (word == *seen || ack_word_generation(word) != stream->generation)
		return false;
	*seen = word;
	return true;
}

void stream_read_acks(struct stream *stream)
{
	const struct ack_line *line = stream->ack_line;
	struct qp *qp = &stream->qp;
	bool ack = take_word(stream, &line->ack, &stream->seen_ack);
	bool rnr = take_word(stream, &line->rnr, &stream->seen_rnr);
	bool nak = take_word(stream, &line->nak, &stream->seen_nak);
	/* After the words: an RNR wait that started before its NAK came would end too early. */
	uint64_t now = worker_now();

	if (ack)
		qp_receive(qp, now, ack_word_psn(stream->seen_ack),
			   ack_word_syndrome(stream->seen_ack), ack_word_low24(stream->seen_ack));
	/* RNR first: during its wait the sequence NAK that the packets behind it drew is ignored.
	 */
	if (rnr)
		qp_receive(qp, now, ack_word_psn(stream->seen_rnr),
			   ack_word_syndrome(stream->seen_rnr), 0);
	if (nak)
		qp_receive(qp, now, ack_word_psn(stream->seen_nak),
			   ack_word_syndrome(stream->seen_nak), 0);
	stream->cnps = __atomic_load_n(&line->cnps, __ATOMIC_RELAXED);
}

/* What the receiver's clocks can be compared with. */
static uint64_t tai_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_TAI, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void stream_feed(struct stream *stream, bool drain)
{
	struct qp *qp = &stream->qp;
	struct source_view view;
	enum source_ring_state state;

	if (stream->end != STREAM_RUNNING)
		return;
	if (stream->taken && !qp_message_open(qp)) {
		source_ring_release(&stream->source);
		stream->taken = false;
		stream->seen_available = 0;
	}
	if (drain && !stream->taken)
		return;
	state = source_ring_peek(&stream->source, &view);
	stream->source_over = state != SOURCE_RING_MESSAGE && state != SOURCE_RING_EMPTY;
	if (state == SOURCE_RING_BROKEN)
		stream->end = STREAM_SOURCE_BROKEN;
	if (state != SOURCE_RING_MESSAGE)
		return;
	if (!stream->taken) {
		int err = qp_message(qp, view.length);

		if (err) {
			stream->end = err == -EMSGSIZE ? STREAM_TOO_LONG : STREAM_QP_ERROR;
			return;
		}
		stream->taken = true;
		if (qp->packetizer.record)
			qp_stamp(qp, tai_now());
	}
	qp_payload(qp, view.payload, view.available, view.ended);
	stream->seen_available = view.available;
}

/* Everything that was started is delivered: is there no more, or is no more wanted? */
static enum stream_end end_when_idle(struct stream *stream, bool drain)
{
	struct source_view view;

	switch (source_ring_peek(&stream->source, &view)) {
	case SOURCE_RING_CLOSED:
		return STREAM_DELIVERED;
	case SOURCE_RING_FAILED:
		return STREAM_SOURCE_FAILED;
	case SOURCE_RING_BROKEN:
		return STREAM_SOURCE_BROKEN;
	default:
		return drain ? STREAM_STOPPED : STREAM_RUNNING;
	}
}

void stream_advance(struct stream *stream, bool drain)
{
	struct qp *qp = &stream->qp;

	if (stream->end != STREAM_RUNNING)
		return;
	if (qp_state(qp) == QP_ERROR)
		stream->end = STREAM_QP_ERROR;
	else if (qp_idle(qp) && !stream->taken)
		stream->end = end_when_idle(stream, drain);
	if (stream->end != STREAM_RUNNING)
		stream_publish_status(stream);
}

bool stream_arm(struct stream *stream, bool drain)
{
	/* What the stream waits for is not the source: it is over, not wanted, or here already. */
	if (stream->end != STREAM_RUNNING || stream->source_over ||
	    (stream->taken ? stream->qp.packetizer.ended : drain))
		return true;
	return source_ring_arm(&stream->source, stream->seen_available);
}

void stream_publish_status(struct stream *stream)
{
	const struct qp *qp = &stream->qp;
	const struct requester *requester = &qp->requester;
	uint32_t version = stream->version;

	__atomic_store_n(&stream->version, version + 1, __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_release);
	stream->status = (struct stream_status){
		.end = stream->end,
		.state = qp_state(qp),
		.una_psn = qp->ring.una,
		.next_psn = qp->ring.next,
		.msn = requester->msn,
		.credits = qp->credits.unlimited ? UINT32_MAX : credits_left(&qp->credits),
		.messages = requester->counters.messages,
		.bytes = requester->counters.bytes,
		.started_messages = qp->packetizer.message + qp->packetizer.in_message,
		.frames = qp->counters.frames,
		.retransmitted_frames = qp->counters.retransmitted_frames,
		.short_messages = qp->counters.short_messages,
		.acks = requester->counters.acks,
		.naks = requester->counters.naks,
		.rnr_naks = requester->counters.rnr_naks,
		.cnps = stream->cnps,
		.timeouts = requester->counters.timeouts,
		.stale_acks = requester->counters.stale_acks,
		.rnr_wait_ns = requester->counters.rnr_wait_ns,
		.credit_wait_ns = qp->counters.credit_wait_ns,
		.window_wait_ns = qp->counters.window_wait_ns,
		.source_wait_ns = qp->counters.source_wait_ns,
		.error = requester->error,
	};
	__atomic_store_n(&stream->version, version + 2, __ATOMIC_RELEASE);
}

void stream_read_status(const struct stream *stream, struct stream_status *status)
{
	uint32_t before, after;

	do {
		before = __atomic_load_n(&stream->version, __ATOMIC_ACQUIRE);
		*status = stream->status;
		atomic_thread_fence(memory_order_acquire);
		after = __atomic_load_n(&stream->version, __ATOMIC_RELAXED);
	} while (before != after || before & 1);
}
