/* SPDX-License-Identifier: BSD-2-Clause */
/* One responder with one queue pair and four slots, and frames for it: for the tests of the
 * responder. */
#ifndef TESTS_UNIT_RESPONDER_BENCH_H
#define TESTS_UNIT_RESPONDER_BENCH_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include "../../user/receiver/responder.h"
#include "wire.h"

#define QPN 0x123456
#define PEER 0x000099
#define RKEY 0xCAFE0001
#define ADDRESS 0x7F0000001000ull
#define SLOT 8192u
#define SLOTS 4u
#define PMTU 256u
#define PSN 0xFFFFFEu /* the wrap of the PSN is always part of the test */

#define FIRST ROCE_RC_WRITE_FIRST
#define MIDDLE ROCE_RC_WRITE_MIDDLE
#define LAST ROCE_RC_WRITE_LAST
#define LAST_IMM ROCE_RC_WRITE_LAST_IMM
#define ONLY ROCE_RC_WRITE_ONLY
#define ONLY_IMM ROCE_RC_WRITE_ONLY_IMM
#define UC 0x20

#define SILENCE -1 /* instead of a syndrome */
#define ACK 0x1F

/* One frame and what must come back. Addresses are offsets from ADDRESS; psn is relative to PSN. */
struct step {
	uint8_t opcode;
	int psn;
	uint32_t length; /* of the payload */
	uint32_t dma_length;
	int64_t offset;
	uint32_t immediate;
	bool no_ackreq;
	int reply; /* syndrome */
	int reply_psn;
	uint32_t msn;
	uint32_t release; /* messages that the reader releases before this frame */
	uint32_t rkey_error;
	int bad_pad; /* pad count + 1 */
};

struct bench {
	struct responder *responder;
	struct responder_qp *qp;
	uint8_t *memory;
	uint8_t payload[4096 + 4];
	uint8_t frame[WIRE_MAX];
	uint8_t reply[RESPONDER_REPLY_MAX];
	uint32_t pmtu;
	uint64_t now;
};

static inline struct responder_config bench_config(struct bench *bench)
{
	struct responder_config config = {
		.qpn = QPN,
		.peer_qpn = PEER,
		.psn = PSN,
		.ip = { [10] = 0xFF, [11] = 0xFF, [12] = 0xC0, [14] = 2, [15] = 2 },
		.peer_ip = { [10] = 0xFF, [11] = 0xFF, [12] = 0xC0, [14] = 2, [15] = 1 },
		.immediate = true,
		.pmtu = PMTU,
		.address = ADDRESS,
		.rkey = RKEY,
		.memory = bench->memory,
		.slot_size = SLOT,
		.slot_count = SLOTS,
		.credits = ROCE_CREDITS_UNLIMITED,
		.rnr_timer = 12,
	};

	return config;
}

static inline void bench_open(struct bench *bench, const struct responder_config *config)
{
	struct error error;

	cr_assert_eq(responder_create(&bench->responder, 4, &error), 0);
	cr_assert_eq(responder_open(bench->responder, config, &bench->qp, &error), 0, "%s",
		     error.text);
	for (size_t i = 0; i < sizeof(bench->payload); i++)
		bench->payload[i] = (uint8_t)(i * 7 + 1);
	bench->pmtu = config->pmtu;
}

static inline void bench_start(struct bench *bench)
{
	struct responder_config config;

	memset(bench, 0, sizeof(*bench));
	bench->memory = calloc(SLOTS, SLOT);
	config = bench_config(bench);
	bench_open(bench, &config);
}

static inline void bench_end(struct bench *bench)
{
	responder_destroy(bench->responder);
	free(bench->memory);
}

static inline struct wire wire_of(const struct bench *bench, const struct step *step)
{
	struct wire wire = {
		.opcode = step->opcode,
		.qpn = QPN,
		.psn = (PSN + (uint32_t)step->psn) & 0xFFFFFF,
		.ackreq = !step->no_ackreq && step->opcode < UC,
		.address = ADDRESS + (uint64_t)step->offset,
		.rkey = RKEY ^ step->rkey_error,
		.dma_length = step->dma_length,
		.immediate = step->immediate,
		.payload = bench->payload,
		.length = step->length,
		.source = 1,
		.destination = 2,
		.pad = step->bad_pad - 1,
		.pkey = 0xFFFF,
	};

	return wire;
}

static inline uint32_t give(struct bench *bench, const struct wire *wire)
{
	uint32_t length = wire_build(wire, bench->frame);
	struct responder_qp *completed;

	/* In memory of its own size, so that a sanitizer sees a read past the end. */
	uint8_t *copy = malloc(length);
	uint32_t reply;

	memcpy(copy, bench->frame, length);
	reply = responder_receive(bench->responder, copy, length, bench->now, bench->reply,
				  &completed);
	free(copy);
	return reply;
}

#endif
