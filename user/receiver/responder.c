/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Order of the checks, as InfiniBand responders make them. Before the PSN: lengths, transport
 * version, P_Key (responder_frame_parse), QPN, class, addresses, ICRC; a failure is a silent drop.
 * Then PSN, opcode order, receive available, length, key and range, copy, MSN and PSN, completion,
 * ACK.
 */
#include "responder.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NO_REPLY -1

struct responder_qp {
	struct responder_config config;
	enum responder_state state;
	uint32_t psn; /* expected next */
	uint32_t msn;
	bool any_executed;  /* there is a PSN that a duplicate can be acknowledged with */
	bool nak_sent;      /* for the present gap, or an RNR NAK stands in for it */
	bool in_message;    /* between First and Last */
	uint8_t *target;    /* where the next payload of the message goes */
	uint32_t remaining; /* bytes of the message that are still to come */
	uint32_t message_length;
	uint64_t next_number; /* the number that the next message should have */
	uint64_t withheld_until_ns;
	struct responder_counters counters;
	struct receiver_message *messages; /* the n-th completion is at n mod slot_count */
	_Atomic uint64_t completed;        /* written by the frame thread */
	_Atomic uint64_t released;         /* written by the reader */
};

struct responder {
	uint32_t qps;
	uint32_t open;
	uint64_t foreign_frames;
	struct responder_qp *qp[];
};

/* A write request taken apart. */
struct request {
	uint8_t operation; /* opcode without its transport */
	bool first, last, immediate;
	uint32_t pad;
	uint64_t address;
	uint32_t rkey;
	uint32_t dma_length;
	uint32_t immediate_value;
	const uint8_t *payload;
	uint32_t length;
};

int responder_create(struct responder **responder, uint32_t qps, struct error *error)
{
	*responder = calloc(1, sizeof(**responder) + qps * sizeof((*responder)->qp[0]));
	if (!*responder)
		return error_set(error, ENOMEM, "no memory for %u queue pairs", qps);
	(*responder)->qps = qps;
	return 0;
}

void responder_destroy(struct responder *responder)
{
	while (responder && responder->open)
		responder_close(responder, responder->qp[0]);
	free(responder);
}

static struct responder_qp *find_qp(const struct responder *responder, uint32_t qpn)
{
	for (uint32_t i = 0; i < responder->open; i++)
		if (responder->qp[i]->config.qpn == qpn)
			return responder->qp[i];
	return NULL;
}

int responder_open(struct responder *responder, const struct responder_config *config,
		   struct responder_qp **qp, struct error *error)
{
	struct responder_qp *new;
	uint64_t bytes, end;

	if (config->slot_count < (config->immediate ? 2 : 1) || !config->slot_size ||
	    __builtin_mul_overflow(config->slot_size, config->slot_count, &bytes) ||
	    __builtin_add_overflow(config->address, bytes, &end))
		return error_set(error, EINVAL, "%u slots of %llu bytes are no ring of slots",
				 config->slot_count, (unsigned long long)config->slot_size);
	if (responder->open == responder->qps)
		return error_set(error, ENOSPC, "all %u queue pairs are in use", responder->qps);
	if (config->qpn < 2 || config->qpn > ROCE_PSN_MASK || find_qp(responder, config->qpn))
		return error_set(error, EEXIST, "QPN 0x%06x cannot be used", config->qpn);
	new = calloc(1, sizeof(*new));
	if (new)
		new->messages = calloc(config->slot_count, sizeof(*new->messages));
	if (!new || !new->messages) {
		free(new);
		return error_set(error, ENOMEM, "no memory for a queue pair of %u slots",
				 config->slot_count);
	}
	new->config = *config;
	new->psn = config->psn & ROCE_PSN_MASK;
	responder->qp[responder->open++] = new;
	*qp = new;
	return 0;
}

void responder_close(struct responder *responder, struct responder_qp *qp)
{
	for (uint32_t i = 0; i < responder->open; i++) {
		if (responder->qp[i] != qp)
			continue;
		responder->qp[i] = responder->qp[--responder->open];
		free(qp->messages);
		free(qp);
		return;
	}
}

/* Receives that are posted now: slots that are neither completed and unreleased nor the spare one.
 */
static uint32_t posted(const struct responder_qp *qp, uint64_t now_ns)
{
	uint64_t held = atomic_load_explicit(&qp->completed, memory_order_relaxed) -
			atomic_load_explicit(&qp->released, memory_order_acquire);

	if (!qp->config.immediate || now_ns < qp->withheld_until_ns)
		return 0;
	return held < qp->config.slot_count ? qp->config.slot_count - 1 - (uint32_t)held : 0;
}

static uint8_t credit_code(const struct responder_qp *qp, uint64_t now_ns)
{
	uint32_t count, code = 0;

	if (qp->config.credits != RESPONDER_CREDITS_POSTED)
		return qp->config.credits & ROCE_AETH_VALUE_MASK;
	if (!qp->config.immediate) /* plain writes consume no receive, so nothing limits them */
		return ROCE_CREDITS_UNLIMITED;
	count = posted(qp, now_ns);
	while (code + 1 < ROCE_CREDITS_UNLIMITED && roce_credits(code + 1) <= count)
		code++;
	return (uint8_t)code;
}

/* False when the frame is too short for the headers of its opcode. */
static bool parse_request(struct request *request, const struct responder_frame *frame)
{
	uint8_t operation = frame->bth->opcode & (uint8_t)~ROCE_TRANSPORT_MASK;
	const uint8_t *at = frame->body, *end = frame->body + frame->body_length;

	memset(request, 0, sizeof(*request));
	request->operation = operation;
	request->first = operation == ROCE_RC_WRITE_FIRST || operation == ROCE_RC_WRITE_ONLY ||
			 operation == ROCE_RC_WRITE_ONLY_IMM;
	request->last = operation >= ROCE_RC_WRITE_LAST && operation <= ROCE_RC_WRITE_ONLY_IMM;
	request->immediate =
		operation == ROCE_RC_WRITE_LAST_IMM || operation == ROCE_RC_WRITE_ONLY_IMM;
	request->pad = (frame->bth->flags & ROCE_BTH_PAD_MASK) >> ROCE_BTH_PAD_SHIFT;
	if (request->first) {
		struct roce_reth reth;

		if (end - at < (ptrdiff_t)sizeof(reth))
			return false;
		memcpy(&reth, at, sizeof(reth));
		at += sizeof(reth);
		request->address = be64toh(reth.address);
		request->rkey = ntohl(reth.rkey);
		request->dma_length = ntohl(reth.length);
	}
	if (request->immediate) {
		struct roce_immdt immdt;

		if (end - at < (ptrdiff_t)sizeof(immdt))
			return false;
		memcpy(&immdt, at, sizeof(immdt));
		at += sizeof(immdt);
		request->immediate_value = ntohl(immdt.value);
	}
	if (end - at < (ptrdiff_t)request->pad)
		return false;
	request->payload = at;
	request->length = (uint32_t)(end - at) - request->pad;
	return true;
}

static bool is_write(const struct request *request)
{
	return request->operation >= ROCE_RC_WRITE_FIRST &&
	       request->operation <= ROCE_RC_WRITE_ONLY_IMM;
}

/* Every packet but the last of a message is full, the last one brings exactly the rest. */
static bool length_fits(const struct responder_qp *qp, const struct request *request)
{
	uint32_t rest = request->first ? request->dma_length : qp->remaining;

	if (rest > ROCE_MAX_MESSAGE || request->pad != roce_pad(request->length))
		return false;
	if (request->last)
		return request->length == rest && rest <= qp->config.pmtu;
	return request->length == qp->config.pmtu && rest > qp->config.pmtu;
}

/* A request of length 0 touches no memory: neither key nor address is looked at. */
static bool may_write(const struct responder_qp *qp, const struct request *request)
{
	const struct responder_config *config = &qp->config;
	uint64_t size = config->slot_size * config->slot_count;
	uint64_t offset = request->address - config->address;

	if (!request->first || !request->dma_length)
		return true;
	return request->rkey == config->rkey && request->address >= config->address &&
	       offset <= size && request->dma_length <= size - offset;
}

static void complete(struct responder_qp *qp, const struct request *request)
{
	uint64_t n = atomic_load_explicit(&qp->completed, memory_order_relaxed);
	uint64_t number = qp->next_number;

	qp->counters.messages++;
	qp->counters.bytes += qp->message_length;
	qp->msn = roce_psn_add(qp->msn, 1);
	if (qp->config.immediate && !request->immediate)
		return;
	/* The immediate is the low half of a number that does not wrap. */
	if (request->immediate)
		number += (uint64_t)(int64_t)(int32_t)(request->immediate_value - (uint32_t)number);
	qp->messages[n % qp->config.slot_count] = (struct receiver_message){
		.number = number,
		.slot = (uint32_t)(number % qp->config.slot_count),
		.length = qp->message_length,
	};
	qp->next_number = number + 1;
	/* With it the reader may look at the message's entry and its slot. */
	atomic_store_explicit(&qp->completed, n + 1, memory_order_release);
}

static void execute(struct responder_qp *qp, const struct request *request)
{
	const struct responder_config *config = &qp->config;

	if (request->first) {
		qp->message_length = request->dma_length;
		qp->remaining = request->dma_length;
		if (request->dma_length)
			qp->target =
				(uint8_t *)config->memory + (request->address - config->address);
	}
	if (request->length)
		memcpy(qp->target, request->payload, request->length);
	qp->target = request->length ? qp->target + request->length : qp->target;
	qp->remaining -= request->length;
	qp->in_message = !request->last;
	qp->psn = roce_psn_add(qp->psn, 1);
	qp->any_executed = true;
	qp->counters.frames++;
	if (request->last)
		complete(qp, request);
}

/*
 * The syndrome of the answer to a request with the expected PSN, NO_REPLY when it was executed.
 * Nothing of the QP changes unless it is executed.
 */
static int try_request(struct responder_qp *qp, const struct request *request, uint64_t now_ns)
{
	if (!is_write(request) || request->first == qp->in_message)
		return ROCE_NAK_INVALID_REQUEST;
	if (request->immediate && !posted(qp, now_ns))
		return ROCE_AETH_RNR | (qp->config.rnr_timer & ROCE_AETH_VALUE_MASK);
	if (!length_fits(qp, request))
		return ROCE_NAK_INVALID_REQUEST;
	if (!may_write(qp, request))
		return ROCE_NAK_REMOTE_ACCESS;
	execute(qp, request);
	return NO_REPLY;
}

static uint32_t reply_to(struct responder_qp *qp, const struct responder_frame *frame, uint32_t psn,
			 uint8_t syndrome, uint8_t *reply)
{
	switch (syndrome & ROCE_AETH_KIND_MASK) {
	case ROCE_AETH_ACK:
		qp->counters.acks++;
		break;
	case ROCE_AETH_RNR:
		qp->counters.rnr_naks++;
		break;
	default:
		qp->counters.naks++;
	}
	return responder_frame_reply(frame, qp->config.qpn, qp->config.peer_qpn, psn, syndrome,
				     qp->msn, reply);
}

/* A duplicate is never executed again, and nothing in it is judged. */
static uint32_t handle_duplicate(struct responder_qp *qp, const struct responder_frame *frame,
				 uint64_t now_ns, uint8_t *reply)
{
	qp->counters.duplicates++;
	if (!(frame->bth->ackreq & ROCE_BTH_ACKREQ) || !qp->any_executed)
		return 0;
	return reply_to(qp, frame, roce_psn_add(qp->psn, ROCE_PSN_MASK), credit_code(qp, now_ns),
			reply);
}

static uint32_t handle_rc(struct responder_qp *qp, const struct responder_frame *frame,
			  const struct request *request, uint64_t now_ns, uint8_t *reply)
{
	int32_t ahead = roce_psn_diff(frame->psn, qp->psn);
	int syndrome;

	if (ahead < 0)
		return handle_duplicate(qp, frame, now_ns, reply);
	if (ahead > 0) {
		qp->counters.gaps++;
		if (qp->nak_sent)
			return 0;
		qp->nak_sent = true;
		return reply_to(qp, frame, qp->psn, ROCE_NAK_SEQUENCE, reply);
	}
	syndrome = try_request(qp, request, now_ns);
	if (syndrome == NO_REPLY) {
		qp->nak_sent = false;
		if (!(frame->bth->ackreq & ROCE_BTH_ACKREQ))
			return 0;
		return reply_to(qp, frame, frame->psn, credit_code(qp, now_ns), reply);
	}
	/* The peer will come back to this PSN: what is in flight behind it needs no NAK of its own.
	 */
	qp->nak_sent = true;
	if (roce_nak_is_fatal((uint8_t)syndrome))
		qp->state = RESPONDER_ERROR;
	return reply_to(qp, frame, frame->psn, (uint8_t)syndrome, reply);
}

/*
 * UC answers nothing: whatever is wrong gives up the message, and the next First or Only, at any
 * PSN, starts anew.
 */
static void handle_uc(struct responder_qp *qp, const struct responder_frame *frame,
		      const struct request *request, uint64_t now_ns)
{
	uint64_t frames = qp->counters.frames;

	if (frame->psn != qp->psn && (request->first || qp->in_message))
		qp->counters.gaps++;
	if (request->first) {
		qp->psn = frame->psn;
		qp->in_message = false;
	}
	if (frame->psn == qp->psn)
		try_request(qp, request, now_ns);
	if (qp->counters.frames != frames)
		return;
	qp->counters.dropped++;
	qp->in_message = false;
}

static bool is_response(const struct request *request)
{
	return request->operation >= 0x0D && request->operation <= 0x12;
}

static bool from_peer(const struct responder_qp *qp, const struct responder_frame *frame)
{
	uint8_t class = qp->config.uc ? ROCE_TRANSPORT_UC : ROCE_TRANSPORT_RC;

	return (frame->bth->opcode & ROCE_TRANSPORT_MASK) == class &&
	       !memcmp(frame->source, qp->config.peer_ip, sizeof(frame->source)) &&
	       !memcmp(frame->destination, qp->config.ip, sizeof(frame->destination));
}

uint32_t responder_receive(struct responder *responder, const uint8_t *bytes, size_t length,
			   uint64_t now_ns, uint8_t *reply, struct responder_qp **completed)
{
	struct responder_frame frame;
	struct responder_qp *qp = NULL;
	struct request request;
	uint64_t before;
	uint32_t reply_length = 0;

	*completed = NULL;
	if (responder_frame_parse(&frame, bytes, length))
		qp = find_qp(responder, frame.dest_qpn);
	if (!qp) {
		responder->foreign_frames++;
		return 0;
	}
	/* Responses are for a requester, which this QP does not have. */
	if (!from_peer(qp, &frame) || !parse_request(&request, &frame) || is_response(&request)) {
		qp->counters.bad_frames++;
		return 0;
	}
	if (!responder_frame_icrc_good(&frame)) {
		qp->counters.bad_icrc++;
		return 0;
	}
	if (qp->state != RESPONDER_READY)
		return 0;
	before = qp->counters.messages;
	if (qp->config.uc)
		handle_uc(qp, &frame, &request, now_ns);
	else
		reply_length = handle_rc(qp, &frame, &request, now_ns, reply);
	*completed = qp->counters.messages != before ? qp : NULL;
	return reply_length;
}

void responder_withhold(struct responder_qp *qp, uint64_t until_ns)
{
	qp->withheld_until_ns = until_ns;
}

enum responder_state responder_state(const struct responder_qp *qp)
{
	return qp->state;
}

const struct responder_counters *responder_counters(const struct responder_qp *qp)
{
	return &qp->counters;
}

uint64_t responder_foreign_frames(const struct responder *responder)
{
	return responder->foreign_frames;
}

uint64_t responder_reader_completed(const struct responder_qp *qp)
{
	return atomic_load_explicit(&qp->completed, memory_order_acquire);
}

struct receiver_message responder_reader_message(const struct responder_qp *qp, uint64_t n)
{
	return qp->messages[n % qp->config.slot_count];
}

void responder_reader_release(struct responder_qp *qp, uint64_t n)
{
	atomic_store_explicit(&qp->released, n, memory_order_release);
}
