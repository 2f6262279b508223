/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tiny strict RC responder, written from section 4 of the protocol notes: PSN order, opcode
 * order, rkey and range, lengths, one NAK per gap, RNR NAK without a receive, credits, duplicates
 * answered and never executed again. Target memory is a ring of slots; a receive is posted for N −
 * 1 of them, and again when the reader releases one.
 */
#ifndef TESTS_UNIT_ENGINE_RESPONDER_H
#define TESTS_UNIT_ENGINE_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine_frame.h"

struct answer {
	uint32_t psn, syndrome, msn;
};

struct responder {
	/* Settings. */
	uint32_t pmtu, rkey, slot_count;
	uint64_t address, slot_size;
	bool limited;         /* ACKs carry credits; else "unlimited" */
	bool answers_all;     /* a duplicate without AckReq is answered too (rxe) */
	bool quiet_after_rnr; /* no sequence NAK while an RNR NAK is unanswered (hfi1) */
	uint32_t rnr_code;

	uint32_t expected, msn;
	bool nak_sent, rnr_sent;
	bool in_message;
	uint64_t at, left; /* of the message: where it goes on, bytes that are missing */
	uint64_t start, length;
	uint32_t held;      /* finished messages whose slot the reader has not released */
	uint64_t completed; /* messages with or without immediate */
	uint32_t immediate; /* of the last one */
	uint8_t *memory;
	const char *fault; /* what a strict responder would refuse for good */
};

static inline uint32_t responder_receives(const struct responder *r)
{
	return r->held < r->slot_count - 1 ? r->slot_count - 1 - r->held : 0;
}

/* The largest code whose credits are there; written as the rule, not as the engine's table. */
static inline uint32_t responder_credit_code(const struct responder *r)
{
	static const uint32_t table[] = { 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128 };
	uint32_t code = 14;

	if (!r->limited)
		return 31;
	while (table[code] > responder_receives(r))
		code--;
	return code;
}

static inline bool responder_answer(const struct responder *r, struct answer *answer, uint32_t psn,
				    uint32_t syndrome)
{
	*answer = (struct answer){ .psn = psn & 0xFFFFFF, .syndrome = syndrome, .msn = r->msn };
	return true;
}

static inline bool responder_ack(const struct responder *r, struct answer *answer)
{
	return responder_answer(r, answer, r->expected - 1, responder_credit_code(r));
}

static inline bool responder_fatal(struct responder *r, const char *fault)
{
	if (!r->fault)
		r->fault = fault;
	return false;
}

/* A packet out of order; returns true when it is answered. */
static inline bool responder_out_of_order(struct responder *r, int32_t ahead, bool ackreq,
					  struct answer *answer)
{
	if (ahead < 0)
		return (ackreq || r->answers_all) && responder_ack(r, answer);
	if (r->nak_sent || (r->rnr_sent && r->quiet_after_rnr))
		return false;
	r->nak_sent = true;
	return responder_answer(r, answer, r->expected, 0x60);
}

/* First or Only: opens a message where the RETH says. */
static inline const char *responder_open(struct responder *r, const uint8_t *frame)
{
	const uint8_t *reth = frame + AT_AFTER_BTH;
	uint64_t size = r->slot_size * r->slot_count;

	r->start = r->at = ((uint64_t)be_get(reth, 4) << 32 | be_get(reth + 4, 4)) - r->address;
	r->length = r->left = be_get(reth + 12, 4);
	if (r->length && be_get(reth + 8, 4) != r->rkey)
		return "R_Key";
	if (r->length && (r->at > size || r->left > size - r->at))
		return "range";
	return NULL;
}

static inline const char *responder_check_order(const struct responder *r, uint8_t opcode,
						uint32_t payload, uint32_t pad)
{
	bool starts = opcode_has_reth(opcode), last = opcode_is_last(opcode);

	if (starts == r->in_message)
		return "opcode order";
	if (!last && (payload != r->pmtu || pad))
		return "First or Middle that is not full";
	if (last && payload > r->pmtu)
		return "Last or Only longer than the PMTU";
	if (pad != (-payload & 3))
		return "pad count";
	return NULL;
}

/* Takes a data frame. Returns true when there is an answer to it; r->completed goes up with a
 * message. */
static inline bool responder_take(struct responder *r, const uint8_t *frame, uint32_t length,
				  struct answer *answer)
{
	uint8_t opcode = frame_opcode(frame);
	int32_t ahead = (int32_t)((frame_psn(frame) - r->expected) << 8) >> 8;
	uint32_t pad = frame_pad(frame), at = frame_payload_at(frame),
		 payload = length - at - 4 - pad;
	const char *fault;

	if (ahead)
		return responder_out_of_order(r, ahead, frame_ackreq(frame), answer);
	r->nak_sent = false;
	r->rnr_sent = false;
	fault = responder_check_order(r, opcode, payload, pad);
	if (fault)
		return responder_fatal(r, fault);
	if (opcode_has_immediate(opcode) && !responder_receives(r)) {
		r->rnr_sent = true;
		return responder_answer(r, answer, r->expected, 0x20 | r->rnr_code);
	}
	fault = opcode_has_reth(opcode) ? responder_open(r, frame) : NULL;
	if (fault)
		return responder_fatal(r, fault);
	if (opcode_is_last(opcode) ? payload != r->left : payload >= r->left)
		return responder_fatal(r, "payload is not DMALen");

	memcpy(r->memory + r->at, frame + at, payload);
	r->at += payload;
	r->left -= payload;
	r->in_message = !opcode_is_last(opcode);
	r->expected = (r->expected + 1) & 0xFFFFFF;
	if (!r->in_message) {
		r->msn = (r->msn + 1) & 0xFFFFFF;
		r->completed++;
	}
	if (opcode_has_immediate(opcode)) {
		r->immediate = be_get(frame + at - 4, 4);
		r->held++;
	}
	return frame_ackreq(frame) && responder_ack(r, answer);
}

#endif
