/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rig around one queue pair: virtual time, a source of known bytes, and a check of every single
 * frame against the wire format and against what the test asked to send.
 *
 * Each packet sent for the first time must be exactly the next packet of the next message, each
 * replay must be the bytes that were sent before. Tests give PSNs relative to the start PSN.
 */
#ifndef TESTS_UNIT_ENGINE_RIG_H
#define TESTS_UNIT_ENGINE_RIG_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../user/engine/qp.h"
#include "engine_frame.h"

#define RIG_QUEUE 4096u
#define RIG_LOG 65536u
#define RIG_START_TIME 1000000007ull
#define RIG_TIMEOUT 1000000ull /* ns: the ACK timeout unless a test sets another */
#define RIG_WHOLE UINT64_MAX
#define RIG_ADDRESS 0x7f1234567000ull
#define RIG_RKEY 0x89ABCDEFu
#define RIG_REMOTE_QPN 0xABC012u

struct sent {
	uint32_t psn; /* relative to the start PSN */
	uint8_t opcode;
	bool ackreq, replay;
	uint32_t length;
};

struct rig {
	struct qp qp;
	struct qp_config config;
	uint8_t *memory;
	uint8_t *copies; /* every frame as it was sent first */
	uint8_t *pattern;
	uint64_t pattern_size;
	uint64_t now;
	enum qp_wait wait; /* last answer of qp_transmit */
	bool late;         /* completions are given by the test, not at once */
	bool fast;         /* looks at the ICRC of one frame in 256 only */
	uint64_t checked;

	struct {
		uint64_t length, available;
	} queue[RIG_QUEUE];
	uint32_t queue_head, queue_tail;

	/* The packet that must come next for the first time. */
	uint64_t message, length, offset, delivered;
	uint32_t next;
	struct sent log[RIG_LOG];
	uint32_t logged;
	char where[160]; /* for messages: what is being tested */
};

static const struct qp_config rig_defaults = {
	.framer = {
		.local_mac = { 2, 0, 0, 0, 0, 1 }, .remote_mac = { 2, 0, 0, 0, 0, 2 },
		.local_ip = { [10] = 0xFF, [11] = 0xFF, [12] = 192, 0, 2, 1 },
		.remote_ip = { [10] = 0xFF, [11] = 0xFF, [12] = 192, 0, 2, 2 },
		.udp_source_port = 0xC123, .ecn = 2, .ttl = 64,
	},
	.local_qpn = 0x120003,
	.remote_qpn = RIG_REMOTE_QPN,
	.start_psn = 0xFFFFF0,
	.rkey = RIG_RKEY,
	.remote_address = RIG_ADDRESS,
	.slot_size = 1 << 20,
	.slot_count = 5,
	.pmtu = 256,
	.ring = 64,
	.ack_timeout = RIG_TIMEOUT,
	.retry = 7,
	.rnr_retry = 7,
	.chunk = 4096,
};

static inline struct qp_config rig_config(void)
{
	struct qp_config config = rig_defaults;

	return config;
}

static inline struct rig *rig_open(const struct qp_config *config)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct error error = { "" };
	uint64_t bytes = (uint64_t)config->ring * qp_stride(config->pmtu, config->chunk);

	alarm(120); /* an endless loop fails, it does not hang */
	rig->config = *config;
	rig->now = RIG_START_TIME;
	rig->memory = aligned_alloc(config->chunk, bytes);
	rig->copies = malloc(bytes);
	rig->pattern_size = (config->slot_size < 8 << 20 ? config->slot_size : 8 << 20) + 251;
	rig->pattern = malloc(rig->pattern_size);
	for (uint64_t i = 0; i < rig->pattern_size; i++)
		rig->pattern[i] = (uint8_t)(i * 7 + (i >> 8) * 31 + 1);
	cr_assert_eq(qp_open(&rig->qp, config, rig->memory, rig->now, &error), 0, "%s", error.text);
	snprintf(rig->where, sizeof(rig->where), "rig");
	return rig;
}

static inline void rig_close(struct rig *rig)
{
	qp_close(&rig->qp);
	free(rig->memory);
	free(rig->copies);
	free(rig->pattern);
	free(rig);
}

static inline uint32_t rig_psn(const struct rig *rig, int64_t relative)
{
	return (uint32_t)(rig->config.start_psn + relative) & 0xFFFFFF;
}

static inline uint32_t rig_relative(const struct rig *rig, uint32_t psn)
{
	return (psn - rig->config.start_psn) & 0xFFFFFF;
}

/* Queues a message of which `available` bytes can be read for now (RIG_WHOLE: all). */
static inline void rig_message(struct rig *rig, uint64_t length, uint64_t available)
{
	uint32_t at = rig->queue_tail++ % RIG_QUEUE;

	rig->queue[at].length = length;
	rig->queue[at].available = available;
}

static inline const uint8_t *rig_source(const struct rig *rig)
{
	return rig->pattern + rig->message % 251;
}

/* More payload of the open message. */
static inline void rig_payload(struct rig *rig, uint64_t available, bool ended)
{
	rig->delivered = available < rig->length ? available : rig->length;
	qp_payload(&rig->qp, rig_source(rig), available, ended);
}

static inline void rig_next_message(struct rig *rig)
{
	uint32_t at = rig->queue_head % RIG_QUEUE;
	uint64_t available = rig->queue[at].available;

	if (qp_message_open(&rig->qp) || rig->queue_head == rig->queue_tail)
		return;
	if (qp_message(&rig->qp, rig->queue[at].length))
		return;
	rig->length = rig->queue[at].length;
	rig->offset = 0;
	rig->queue_head++;
	rig_payload(rig, available == RIG_WHOLE ? rig->length : available, false);
}

#define RIG_EQ(rig, found, expected, what)                                                         \
	cr_assert_eq((uint64_t)(found), (uint64_t)(expected), "%s: %s is %llu (0x%llx), not %llu", \
		     (rig)->where, what, (unsigned long long)(found), (unsigned long long)(found), \
		     (unsigned long long)(expected))

static inline void rig_check_addresses(const struct rig *rig, const uint8_t *frame)
{
	const struct framer_config *framer = &rig->config.framer;

	cr_assert(!memcmp(frame, framer->remote_mac, 6) && !memcmp(frame + 6, framer->local_mac, 6),
		  "%s: MACs", rig->where);
	cr_assert(!memcmp(frame + AT_IP + 12, framer->local_ip + 12, 4) &&
			  !memcmp(frame + AT_IP + 16, framer->remote_ip + 12, 4),
		  "%s: IP addresses", rig->where);
	RIG_EQ(rig, frame[AT_IP + 1], framer->dscp << 2 | framer->ecn, "TOS");
	RIG_EQ(rig, frame[AT_IP + 8], framer->ttl, "TTL");
	RIG_EQ(rig, be_get(frame + AT_BTH + 5, 3), rig->config.remote_qpn, "DestQP");
}

static inline uint8_t rig_opcode(const struct rig *rig, bool last)
{
	bool first = rig->offset == 0, immediate = rig->config.immediate;

	if (first)
		return last ? (immediate ? 0x0B : 0x0A) : 0x06;
	return last ? (immediate ? 0x09 : 0x08) : 0x07;
}

static inline void rig_check_payload(const struct rig *rig, const uint8_t *payload, uint32_t bytes)
{
	const uint8_t *source = rig_source(rig) + rig->offset;
	uint64_t have = rig->delivered > rig->offset ? rig->delivered - rig->offset : 0;

	if (have > bytes)
		have = bytes;
	cr_assert(!memcmp(payload, source, have), "%s: payload", rig->where);
	for (uint64_t i = have; i < bytes + (-bytes & 3); i++)
		RIG_EQ(rig, payload[i], 0, "byte that the source did not deliver, or pad");
}

/* A packet that is sent for the first time: the very next one of the message. */
static inline void rig_check_new(struct rig *rig, const uint8_t *bytes, uint32_t length)
{
	uint64_t left = rig->length - rig->offset, slot = rig->message % rig->config.slot_count;
	uint32_t payload = left < rig->config.pmtu ? (uint32_t)left : rig->config.pmtu;
	bool last = left <= rig->config.pmtu;
	const uint8_t *reth = bytes + AT_AFTER_BTH;
	uint32_t at = frame_payload_at(bytes);

	RIG_EQ(rig, frame_psn(bytes), rig_psn(rig, rig->next), "new PSN");
	RIG_EQ(rig, frame_opcode(bytes), rig_opcode(rig, last), "opcode");
	RIG_EQ(rig, frame_pad(bytes), -payload & 3, "pad count");
	RIG_EQ(rig, length, at + payload + (-payload & 3) + 4, "frame length");
	if (rig->offset == 0) {
		uint64_t address = rig->config.remote_address + slot * rig->config.slot_size;

		RIG_EQ(rig, (uint64_t)be_get(reth, 4) << 32 | be_get(reth + 4, 4), address, "VA");
		RIG_EQ(rig, be_get(reth + 8, 4), rig->config.rkey, "R_Key");
		RIG_EQ(rig, be_get(reth + 12, 4), rig->length, "DMALen");
	}
	if (opcode_has_immediate(frame_opcode(bytes)))
		RIG_EQ(rig, be_get(bytes + at - 4, 4), (uint32_t)rig->message, "immediate");
	if (last)
		cr_assert(frame_ackreq(bytes), "%s: AckReq on Last/Only", rig->where);
	rig_check_payload(rig, bytes + at, payload);
	rig->offset += payload;
	rig->message += last;
	rig->next++;
}

static inline void rig_check_frame(struct rig *rig, const struct frame *frame)
{
	const uint8_t *bytes = rig->memory + frame->offset;
	uint32_t index = frame->psn & (rig->config.ring - 1);
	uint8_t *copy =
		rig->copies + (uint64_t)index * qp_stride(rig->config.pmtu, rig->config.chunk);
	const char *fault = frame_fault(bytes, frame->length);

	cr_assert_null(fault, "%s: %s", rig->where, fault);
	if (rig->checked++ % (rig->fast ? 256 : 1) == 0)
		cr_assert(frame_icrc_right(bytes, frame->length), "%s: ICRC", rig->where);
	RIG_EQ(rig, frame_psn(bytes), frame->psn, "PSN in the frame");
	rig_check_addresses(rig, bytes);
	if (frame->replay) {
		cr_assert(!memcmp(copy, bytes, frame->length), "%s: a replay changed", rig->where);
	} else {
		rig_check_new(rig, bytes, frame->length);
		memcpy(copy, bytes, frame->length);
	}
	cr_assert_lt(rig->logged, RIG_LOG);
	rig->log[rig->logged++] = (struct sent){
		.psn = rig_relative(rig, frame->psn),
		.opcode = frame_opcode(bytes),
		.ackreq = frame_ackreq(bytes),
		.replay = frame->replay,
		.length = frame->length,
	};
}

static inline void rig_complete(struct rig *rig, const struct frame *frame)
{
	uint64_t chunk = rig->config.chunk, from = frame->offset;

	for (uint32_t i = 0; i < qp_descriptors(&rig->qp, frame); i++) {
		qp_completed(&rig->qp, from);
		from = (from / chunk + 1) * chunk;
	}
}

/* Asks for one frame; it is checked and, unless `late`, completed. Returns false when there is
 * none. */
static inline bool rig_transmit(struct rig *rig, struct frame *frame)
{
	rig_next_message(rig);
	rig->wait = qp_transmit(&rig->qp, rig->now, frame);
	if (rig->wait != QP_FRAME)
		return false;
	rig_check_frame(rig, frame);
	if (!rig->late)
		rig_complete(rig, frame);
	return true;
}

/* Transmits all it can; returns the number of frames. */
static inline uint32_t rig_drain(struct rig *rig)
{
	struct frame frame;
	uint32_t frames = 0;

	while (rig_transmit(rig, &frame))
		frames++;
	return frames;
}

/* Syndrome 0x1F is an ACK without limit; MSN is what an honest responder would say or does not
 * matter. */
static inline void rig_receive(struct rig *rig, int64_t relative, uint32_t syndrome, uint32_t msn)
{
	qp_receive(&rig->qp, rig->now, rig_psn(rig, relative), syndrome, msn);
}

static inline void rig_time(struct rig *rig, uint64_t ns)
{
	rig->now += ns;
	qp_tick(&rig->qp, rig->now);
}

/*
 * Goes to the deadline: a nanosecond earlier nothing may happen, and no frame may come that did not
 * come before.
 */
static inline void rig_expire(struct rig *rig)
{
	uint64_t deadline = qp_deadline(&rig->qp);
	struct frame frame;

	cr_assert_neq(deadline, REQUESTER_NEVER, "%s: no timer runs", rig->where);
	cr_assert_gt(deadline, rig->now, "%s: the deadline has passed", rig->where);
	rig_time(rig, deadline - 1 - rig->now);
	cr_assert(!rig_transmit(rig, &frame), "%s: a frame before the deadline", rig->where);
	RIG_EQ(rig, qp_deadline(&rig->qp), deadline, "deadline a nanosecond earlier");
	rig_time(rig, 1);
}

#endif
