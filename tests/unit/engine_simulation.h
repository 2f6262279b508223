/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine against the strict responder over a link that loses, doubles, delays and reorders, in
 * virtual time and from a seed. The rig checks each frame that leaves, the responder each that
 * arrives, and here it is checked that each message arrives once, whole, in order, that the window
 * holds, and that the transfer never stands still.
 */
#ifndef TESTS_UNIT_ENGINE_SIMULATION_H
#define TESTS_UNIT_ENGINE_SIMULATION_H

#include "engine_link.h"
#include "engine_rig.h"

#define SIM_STUCK                                                                                  \
	30000000000ull /* ns without progress that count as stuck; RNR waits are shorter */

struct settings {
	struct qp_config qp;
	uint64_t seed;
	uint32_t messages,
		largest; /* of the messages: how many, bytes of the largest; 0 … largest */
	bool exact;      /* every message has the largest size */
	/* Link, in both directions: probabilities in 1/1000, times in ns. */
	uint32_t loss, duplicates, reorder;
	uint64_t delay, spacing, jitter;
	uint32_t drop_frame, drop_answer; /* just the n-th one (from 1), 0: none */
	uint64_t completion_delay, release_delay;
	bool trickle; /* payload of a message arrives bit by bit */
	bool limited, answers_all, quiet_after_rnr;
	uint32_t rnr_code;
	uint32_t patience; /* retries beyond what a setting can ask for, 0: as set */
	bool fast;
};

struct sim {
	struct settings settings;
	struct rig *rig;
	struct responder responder;
	struct link *link;
	uint64_t random;
	uint64_t next_transmit; /* the wire is busy until then */
	uint32_t queued, frames, answers;
	uint64_t lengths[RIG_QUEUE]; /* of message k at k mod RIG_QUEUE */
	bool trickling;              /* payload is on its way */
	uint64_t progress;           /* time of the last one */
	uint32_t una;
};

static inline uint32_t sim_random(struct sim *sim, uint64_t below)
{
	sim->random ^= sim->random >> 12;
	sim->random ^= sim->random << 25;
	sim->random ^= sim->random >> 27;
	return (uint32_t)((sim->random * 0x2545F4914F6CDD1Dull >> 32) % below);
}

static inline bool sim_chance(struct sim *sim, uint32_t per_mille)
{
	return sim_random(sim, 1000) < per_mille;
}

static inline struct sim *sim_open(const struct settings *settings)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	const struct qp_config *qp = &settings->qp;

	sim->settings = *settings;
	sim->random = settings->seed * 0x9E3779B97F4A7C15ull + 1;
	sim->link = calloc(1, sizeof(*sim->link));
	sim->rig = rig_open(qp);
	sim->rig->late = true;
	sim->rig->fast = settings->fast;
	if (settings->patience)
		sim->rig->qp.requester.retry = settings->patience;
	snprintf(sim->rig->where, sizeof(sim->rig->where), "seed %llu",
		 (unsigned long long)settings->seed);
	sim->progress = sim->rig->now;
	sim->una = sim->rig->qp.ring.una;
	sim->responder = (struct responder){
		.pmtu = qp->pmtu,
		.rkey = qp->rkey,
		.slot_count = qp->slot_count,
		.address = qp->remote_address,
		.slot_size = qp->slot_size,
		.limited = settings->limited,
		.answers_all = settings->answers_all,
		.quiet_after_rnr = settings->quiet_after_rnr,
		.rnr_code = settings->rnr_code,
		.expected = qp->start_psn,
		.memory = malloc(qp->slot_size * qp->slot_count),
	};
	return sim;
}

static inline void sim_close(struct sim *sim)
{
	while (sim->link->count) {
		struct event event = link_pop(sim->link);

		if (event.kind == EVENT_FRAME)
			free(event.frame);
	}
	free(sim->responder.memory);
	free(sim->link);
	rig_close(sim->rig);
	free(sim);
}

static inline uint64_t sim_arrival(struct sim *sim)
{
	uint64_t time = sim->rig->now + sim->settings.delay;

	if (sim_chance(sim, sim->settings.reorder))
		time += sim_random(sim, sim->settings.jitter + 1);
	return time;
}

/* Puts a frame or an answer on the link: it is lost, or arrives once or twice. */
static inline void sim_carry(struct sim *sim, struct event event)
{
	bool frame = event.kind == EVENT_FRAME;
	uint32_t number = frame ? ++sim->frames : ++sim->answers;
	int copies = 1 + sim_chance(sim, sim->settings.duplicates);

	if (number == (frame ? sim->settings.drop_frame : sim->settings.drop_answer) ||
	    sim_chance(sim, sim->settings.loss))
		copies = 0;
	for (int i = 0; i < copies; i++) {
		struct event copy = event;

		copy.time = sim_arrival(sim);
		if (frame) {
			copy.frame = malloc(event.length);
			memcpy(copy.frame, event.frame, event.length);
		}
		link_push(sim->link, copy);
	}
}

static inline void sim_submit(struct sim *sim, const struct frame *frame)
{
	uint64_t chunk = sim->settings.qp.chunk, from = frame->offset;

	sim_carry(sim, (struct event){ .kind = EVENT_FRAME,
				       .length = frame->length,
				       .frame = sim->rig->memory + frame->offset });
	for (uint32_t i = 0; i < qp_descriptors(&sim->rig->qp, frame); i++) {
		uint64_t time = sim->rig->now + sim_random(sim, sim->settings.completion_delay + 1);

		link_push(sim->link,
			  (struct event){ .kind = EVENT_COMPLETION, .time = time, .offset = from });
		from = (from / chunk + 1) * chunk;
	}
	sim->next_transmit = sim->rig->now + sim->settings.spacing;
}

/* Queues the next message when the rig has none. */
static inline void sim_feed(struct sim *sim)
{
	const struct settings *s = &sim->settings;
	struct rig *rig = sim->rig;
	uint64_t length;

	if (rig->queue_head != rig->queue_tail || sim->queued == s->messages)
		return;
	length = s->exact ? s->largest : sim_random(sim, s->largest + 1);
	sim->lengths[sim->queued++ % RIG_QUEUE] = length;
	rig_message(rig, length, s->trickle ? 0 : RIG_WHOLE);
	rig->logged = 0;
}

static inline void sim_trickle(struct sim *sim)
{
	struct rig *rig = sim->rig;
	uint64_t more = rig->delivered + 1 + sim_random(sim, 3 * sim->settings.qp.pmtu);

	if (rig->wait != QP_WAIT_SOURCE || sim->trickling)
		return;
	sim->trickling = true;
	link_push(sim->link, (struct event){ .kind = EVENT_PAYLOAD,
					     .available = more,
					     .time = rig->now + 1 + sim_random(sim, 20000) });
}

/* A message is complete: it must be the next one, in its slot, whole. */
static inline void sim_check_message(struct sim *sim, uint64_t k)
{
	const struct responder *r = &sim->responder;
	uint64_t length = sim->lengths[k % RIG_QUEUE];

	RIG_EQ(sim->rig, r->start, k % r->slot_count * r->slot_size, "place of the message");
	RIG_EQ(sim->rig, r->length, length, "length of the message");
	cr_assert(!memcmp(r->memory + r->start, sim->rig->pattern + k % 251, length),
		  "%s: bytes of message %llu", sim->rig->where, (unsigned long long)k);
	if (!sim->settings.qp.immediate)
		return;
	RIG_EQ(sim->rig, r->immediate, (uint32_t)k, "immediate");
	link_push(sim->link,
		  (struct event){ .kind = EVENT_RELEASE,
				  .time = sim->rig->now +
					  sim_random(sim, sim->settings.release_delay + 1) });
}

static inline void sim_arrive(struct sim *sim, struct event *event)
{
	uint64_t before = sim->responder.completed;
	struct event answer = { .kind = EVENT_ANSWER };
	bool answered =
		responder_take(&sim->responder, event->frame, event->length, &answer.answer);

	free(event->frame);
	cr_assert_null(sim->responder.fault, "%s: a strict responder refuses: %s", sim->rig->where,
		       sim->responder.fault);
	if (answered)
		sim_carry(sim, answer);
	if (sim->responder.completed != before)
		sim_check_message(sim, before);
}

static inline void sim_release(struct sim *sim)
{
	struct event answer = { .kind = EVENT_ANSWER };

	sim->responder.held--;
	/* New credit is told at once, unasked, half of the time. */
	if (sim->responder.limited && sim_chance(sim, 500) &&
	    responder_ack(&sim->responder, &answer.answer))
		sim_carry(sim, answer);
}

static inline void sim_event(struct sim *sim)
{
	struct event event = link_pop(sim->link);
	struct qp *qp = &sim->rig->qp;

	switch (event.kind) {
	case EVENT_FRAME:
		sim_arrive(sim, &event);
		break;
	case EVENT_ANSWER:
		qp_receive(qp, sim->rig->now, event.answer.psn, event.answer.syndrome,
			   event.answer.msn);
		break;
	case EVENT_COMPLETION:
		qp_completed(qp, event.offset);
		break;
	case EVENT_RELEASE:
		sim_release(sim);
		break;
	case EVENT_PAYLOAD:
		rig_payload(sim->rig, event.available, false);
		sim->trickling = false;
		break;
	}
}

static inline void sim_check(struct sim *sim)
{
	const struct retransmission *ring = &sim->rig->qp.ring;
	uint32_t flight = (ring->next - ring->una) & 0xFFFFFF;

	cr_assert_leq(flight, sim->settings.qp.ring, "%s: %u in flight", sim->rig->where, flight);
	cr_assert_leq((ring->cursor - ring->una) & 0xFFFFFF, flight, "%s: cursor", sim->rig->where);
	RIG_EQ(sim->rig, sim->rig->qp.requester.error.failure, REQUESTER_OK, "failure");
	if (ring->una != sim->una || sim->rig->wait == QP_WAIT_SOURCE)
		sim->progress = sim->rig->now;
	sim->una = ring->una;
	cr_assert_lt(sim->rig->now - sim->progress, SIM_STUCK, "%s: stuck at PSN +%u, reason %d",
		     sim->rig->where, rig_relative(sim->rig, ring->una), sim->rig->wait);
}

static inline bool sim_done(const struct sim *sim)
{
	return sim->queued == sim->settings.messages &&
	       sim->rig->message == sim->settings.messages && qp_idle(&sim->rig->qp);
}

/* One step: everything that is due, one frame if the wire is free, then on to the next moment. */
static inline void sim_step(struct sim *sim)
{
	struct rig *rig = sim->rig;
	struct frame frame;
	uint64_t next;
	bool sent = false;

	while (link_next(sim->link) <= rig->now)
		sim_event(sim);
	if (qp_deadline(&rig->qp) <= rig->now)
		qp_tick(&rig->qp, rig->now);
	sim_feed(sim);
	if (sim->next_transmit <= rig->now)
		sent = rig_transmit(rig, &frame);
	if (sent)
		sim_submit(sim, &frame);
	else
		sim_trickle(sim);
	sim_check(sim);

	next = link_next(sim->link);
	if (qp_deadline(&rig->qp) < next)
		next = qp_deadline(&rig->qp);
	if (sim->next_transmit > rig->now && sim->next_transmit < next)
		next = sim->next_transmit;
	if (sim_done(sim))
		return;
	cr_assert_neq(next, UINT64_MAX, "%s: nothing will ever happen, reason %d, PSN +%u",
		      rig->where, rig->wait, rig_relative(rig, rig->qp.ring.una));
	rig->now = next > rig->now ? next : rig->now;
}

/* Runs to the end. Afterwards everything has arrived and nothing is outstanding. */
static inline void sim_run(struct sim *sim)
{
	const struct requester_counters *counters = &sim->rig->qp.requester.counters;

	while (!sim_done(sim))
		sim_step(sim);
	RIG_EQ(sim->rig, sim->responder.completed, sim->settings.messages, "messages that arrived");
	RIG_EQ(sim->rig, counters->messages, sim->settings.messages, "messages acknowledged");
	RIG_EQ(sim->rig, sim->responder.expected, rig_psn(sim->rig, sim->rig->next),
	       "PSN at the end");
	while (sim->link->count) {
		if (link_next(sim->link) > sim->rig->now)
			sim->rig->now = link_next(sim->link);
		sim_event(sim);
	}
	RIG_EQ(sim->rig, qp_outstanding(&sim->rig->qp), 0, "outstanding");
	RIG_EQ(sim->rig, qp_state(&sim->rig->qp), QP_READY, "state");
}

#endif
