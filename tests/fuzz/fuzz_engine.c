/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine under arbitrary events: messages, payload that arrives, ends or is taken back, answers
 * of any PSN, syndrome and MSN, completions of any slot, time, changed settings. After each event
 * what must always hold is checked; no answer of a peer and no order of events may break it.
 *
 *   clang -g -O1 -std=gnu17 -D_GNU_SOURCE -Iinclude -fsanitize=fuzzer,address,undefined \
 *         tests/fuzz/fuzz_engine.c user/engine/[a-z]*.c -lisal -o fuzz_engine
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../user/engine/icrc.h"
#include "../../user/engine/qp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RING_MAX 32u
#define STRIDE_MAX 8192u

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct input {
	const uint8_t *at, *end;
};

static struct world {
	struct input input;
	struct qp qp;
	struct qp_config config;
	uint64_t now;
	uint32_t next; /* PSN that the next new frame must have */
	uint8_t *payload;
	uint32_t stride, submitted[RING_MAX], completed[RING_MAX];
	uint32_t length[RING_MAX];
	uint8_t copy[RING_MAX][STRIDE_MAX];
} world;

static uint8_t memory[RING_MAX * STRIDE_MAX] __attribute__((aligned(4096)));

static uint32_t take(struct input *input, uint32_t bytes)
{
	uint32_t value = 0;

	for (; bytes && input->at < input->end; bytes--)
		value = value << 8 | *input->at++;
	return value;
}

static void open_qp(struct world *w)
{
	uint32_t dice = take(&w->input, 2), shape = take(&w->input, 1);
	struct error error;

	w->config = (struct qp_config){
		.framer = { .ttl = 64, .udp_source_port = 0xC000 },
		.local_qpn = 0x10002,
		.remote_qpn = 0x20003,
		.start_psn = dice & 1 ? 0xFFFFF8 : take(&w->input, 3),
		.rkey = 7,
		.slot_size = 20000,
		.slot_count = 2 + (dice >> 1 & 3),
		.pmtu = 256u << (dice >> 3 & 7) % 5,
		.immediate = dice >> 6 & 1,
		.ring = dice >> 7 & 1 ? 16 : 32,
		.ack_timeout = dice >> 8 & 1   ? 100000
			       : dice >> 9 & 1 ? 1
					       : 0,
		.retry = dice >> 10 & 7,
		.rnr_retry = dice >> 13 & 7,
		.chunk = dice >> 2 & 1 ? 2048 : 4096,
		.positional_completions = dice >> 5 & 1,
	};
	if (shape & 1)
		w->config.framer.vlan_id = 7;
	if (shape & 2) { /* else both addresses are ::, IPv6 */
		memset(w->config.framer.local_ip + 10, 0xFF, 2);
		memset(w->config.framer.remote_ip + 10, 0xFF, 2);
	}

	w->config.uc = shape & 4;
	w->config.packet_mode = shape & 8;
	w->config.record = shape & 16;
	w->stride = qp_stride(w->config.pmtu, w->config.chunk);
	w->next = w->config.start_psn;
	memset(w->submitted, 0, sizeof(w->submitted));
	memset(w->completed, 0, sizeof(w->completed));
	MUST(!qp_open(&w->qp, &w->config, memory, w->now, &error));
}

static uint32_t index_of(const struct world *w, uint32_t psn)
{
	return psn & (w->config.ring - 1);
}

static void check_frame(struct world *w, const struct frame *frame)
{
	uint32_t slot = index_of(w, frame->psn), icrc, at, ip_at;
	const uint8_t *bytes = memory + frame->offset, *end = bytes + frame->length - ROCE_ICRC_LEN;
	/* UC lets a packet go when it is submitted. */
	int32_t ahead = roce_psn_diff(frame->psn, w->qp.ring.una) + w->config.uc;

	MUST(frame->offset / w->stride == slot);
	MUST((frame->offset + frame->length - 1) / w->stride == slot);
	MUST(frame->psn <= ROCE_PSN_MASK && ahead >= 0 && ahead < (int32_t)w->config.ring);
	at = w->qp.framer.header_len;
	MUST(frame->psn == roce_get24(bytes + at + 9));
	if (frame->replay) {
		MUST(frame->length == w->length[slot]);
		MUST(!memcmp(w->copy[slot], bytes, frame->length));
		return;
	}
	MUST(frame->psn == w->next);
	MUST(w->submitted[slot] == w->completed[slot]);
	ip_at = w->qp.framer.ip_at;
	MUST(!icrc_of_frame(bytes + ip_at, frame->length - ip_at - ROCE_ICRC_LEN, &icrc));
	MUST(icrc ==
	     (end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24));
	w->next = roce_psn_add(w->next, 1);
	w->length[slot] = frame->length;
	memcpy(w->copy[slot], bytes, frame->length);
}

/* A reason not to send must be one that ends by itself, or by what is awaited from outside. */
static void check_wait(const struct world *w, enum qp_wait wait)
{
	const struct qp *qp = &w->qp;
	const struct slot *slot = retransmission_slot(&qp->ring, qp->ring.next);
	bool timer = qp_deadline(qp) != REQUESTER_NEVER || !qp->requester.ack_timeout;
	bool slot_busy = slot->outstanding ||
			 (qp->ring.positional_completions && slot->quiet == qp->ring.quiet);

	MUST((wait == QP_WAIT_ERROR) == (qp->requester.error.failure != REQUESTER_OK));
	if (wait == QP_WAIT_RNR)
		MUST(qp_deadline(qp) != REQUESTER_NEVER);
	if (wait == QP_WAIT_WINDOW)
		MUST(timer || slot_busy);
	if (wait == QP_WAIT_CREDIT && !qp->packetizer.first)
		MUST(timer);
	if (wait == QP_WAIT_NOTHING && qp->ring.una != qp->ring.next)
		MUST(timer); /* the last packet of a message always asks for an answer */
}

static void transmit(struct world *w, uint32_t frames)
{
	while (frames--) {
		bool may_not = w->qp.requester.waiting || w->qp.requester.error.failure;
		struct frame frame;
		enum qp_wait wait = qp_transmit(&w->qp, w->now, &frame);

		if (wait != QP_FRAME) {
			check_wait(w, wait);
			return;
		}
		MUST(!may_not);
		check_frame(w, &frame);
		w->submitted[index_of(w, frame.psn)] += qp_descriptors(&w->qp, &frame);
	}
}

static void pay(struct world *w, uint32_t dice)
{
	uint32_t available = dice & 0x7FFF;

	/* Exactly as many bytes as are promised: the sanitizer sees one more. */
	free(w->payload);
	w->payload = malloc(available ? available : 1);
	memset(w->payload, (int)dice, available);
	qp_payload(&w->qp, w->payload, available, dice >> 15 & 1);
}

static void receive(struct world *w)
{
	uint32_t dice = take(&w->input, 1), psn = w->qp.ring.una, syndrome = take(&w->input, 1);

	if (dice & 0x80)
		psn = take(&w->input, dice & 0x40 ? 4 : 3);
	else
		psn = roce_psn_add(psn, (dice & 0x3F) - 8);
	qp_receive(&w->qp, w->now, psn, syndrome, take(&w->input, dice & 0x40 ? 3 : 1));
}

static void complete(struct world *w, uint32_t dice)
{
	uint32_t slot = dice % w->config.ring;

	qp_completed(&w->qp, (uint64_t)slot * w->stride + (dice >> 3) % w->stride);
	if (w->completed[slot] < w->submitted[slot])
		w->completed[slot]++;
}

static void complete_all(struct world *w)
{
	for (uint32_t slot = 0; slot < w->config.ring; slot++)
		while (w->completed[slot] < w->submitted[slot])
			complete(w, slot);
	MUST(!qp_outstanding(&w->qp));
	qp_quiet(&w->qp);
}

static void pass_time(struct world *w, uint32_t dice)
{
	uint64_t deadline = qp_deadline(&w->qp);

	if (dice & 1 && deadline != REQUESTER_NEVER && deadline > w->now)
		w->now = deadline - (dice >> 1 & 1);
	else
		w->now += (uint64_t)(dice >> 2) << (dice & 3) * 8;
	qp_tick(&w->qp, w->now);
	deadline = qp_deadline(&w->qp);
	MUST(deadline == REQUESTER_NEVER || deadline > w->now);
}

static void check(struct world *w)
{
	const struct retransmission *ring = &w->qp.ring;
	uint32_t flight = (ring->next - ring->una) & ROCE_PSN_MASK, outstanding = 0;

	MUST(flight <= w->config.ring);
	MUST(((ring->cursor - ring->una) & ROCE_PSN_MASK) <= flight);
	MUST(ring->next == w->next);
	MUST(!w->qp.requester.error.failure || qp_deadline(&w->qp) == REQUESTER_NEVER);
	MUST(w->qp.requester.retries <= 7);
	for (uint32_t slot = 0; slot < w->config.ring; slot++) {
		MUST(ring->slots[slot].outstanding == w->submitted[slot] - w->completed[slot]);
		outstanding += ring->slots[slot].outstanding;
	}
	MUST(outstanding == qp_outstanding(&w->qp));
	for (uint32_t psn = ring->una; psn != ring->next; psn = roce_psn_add(psn, 1)) {
		uint32_t slot = index_of(w, psn);

		MUST(!memcmp(w->copy[slot],
			     memory + (uint64_t)slot * w->stride + ring->slots[slot].start,
			     w->length[slot]));
	}
}

static void step(struct world *w)
{
	switch (take(&w->input, 1) % 12) {
	case 0:
		qp_message(&w->qp, take(&w->input, 2) % 24000);
		break;
	case 1:
		pay(w, take(&w->input, 2));
		break;
	case 2:
	case 3:
		transmit(w, 1 + take(&w->input, 1) % 40);
		break;
	case 4:
	case 5:
	case 6:
		receive(w);
		break;
	case 7:
		complete(w, take(&w->input, 2));
		break;
	case 8:
		complete_all(w);
		break;
	case 9:
		pass_time(w, take(&w->input, 2));
		break;
	case 10:
		qp_receive(&w->qp, w->now, qp_highest_psn(&w->qp), 0x1F, take(&w->input, 1));
		break;
	case 11:
		w->qp.requester.retry = take(&w->input, 1) % 8;
		w->qp.requester.rnr_retry = take(&w->input, 1) % 8;
		break;
	}
	check(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = &world;

	w->input = (struct input){ .at = data, .end = data + size };
	w->now = 1000;
	open_qp(w);
	while (w->input.at < w->input.end)
		step(w);
	qp_close(&w->qp);
	free(w->payload);
	w->payload = NULL;
	return 0;
}
