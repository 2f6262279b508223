/* SPDX-License-Identifier: BSD-2-Clause */
#include "faults.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <xdp2roce/roce.h>

/* A frame held back until its time, or until so many others have passed. */
struct held {
	uint64_t due_ns;
	uint32_t overtakers; /* that have still to pass; 0 when only the time counts */
	uint32_t length;     /* 0: free */
	uint64_t order;      /* of two that are due, the one held back first goes first */
	uint8_t frame[FAULTS_FRAME_MAX];
};

struct faults {
	struct faults_config config;
	struct faults_counters counters;
	faults_deliver *deliver;
	void *context;
	uint64_t random;
	uint64_t holds;
	uint32_t held_count;
	struct held held[FAULTS_HELD];
};

int faults_create(struct faults **faults, const struct faults_config *config,
		  faults_deliver *deliver, void *context, struct error *error)
{
	struct faults *new = calloc(1, sizeof(*new));

	if (!new)
		return error_set(error, ENOMEM, "no memory for fault injection");
	new->config = *config;
	new->random = config->seed;
	new->deliver = deliver;
	new->context = context;
	*faults = new;
	return 0;
}

void faults_destroy(struct faults *faults)
{
	free(faults);
}

/* splitmix64: any seed is a good one, 0 included. */
static uint64_t next_random(struct faults *faults)
{
	uint64_t z = faults->random += 0x9E3779B97F4A7C15ull;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ z >> 27) * 0x94D049BB133111EBull;
	return z ^ z >> 31;
}

static uint32_t random_below(struct faults *faults, uint32_t limit)
{
	return (uint32_t)((next_random(faults) >> 32) * limit >> 32);
}

/* One number is drawn for every question, so that an exact position does not shift what follows. */
static bool happens(struct faults *faults, uint32_t probability,
		    const struct faults_positions *positions, uint64_t n)
{
	bool chance = random_below(faults, FAULTS_WHOLE) < probability;

	for (uint32_t i = 0; i < positions->count; i++)
		chance |= positions->position[i] == n;
	return chance;
}

/* Flips one bit that the ICRC covers, so that the corruption is always there to be found. */
static void corrupt(uint8_t *frame, uint32_t length, uint64_t random)
{
	uint32_t tag = frame[12] == 0x81 ? 4 : 0;
	bool ipv6 = frame[12 + tag] == 0x86;
	uint32_t bth = 14 + tag + (ipv6 ? 40 : 20) + 8;
	uint32_t at;

	if (length <= bth + sizeof(struct roce_bth))
		return;
	at = bth + (uint32_t)((random >> 32) * (length - bth) >> 32);
	if (at == bth + offsetof(struct roce_bth, ecn))
		at++;
	frame[at] ^= (uint8_t)(1 << (random & 7));
}

static void hold(struct faults *faults, const uint8_t *frame, uint32_t length, uint64_t due_ns,
		 uint32_t overtakers)
{
	struct held *held = faults->held;

	while (held->length)
		held++;
	held->due_ns = due_ns;
	held->overtakers = overtakers;
	held->length = length;
	held->order = faults->holds++;
	memcpy(held->frame, frame, length);
	faults->held_count++;
}

static bool can_hold(const struct faults *faults, uint32_t length)
{
	return faults->held_count < FAULTS_HELD && length && length <= FAULTS_FRAME_MAX;
}

static void release(struct faults *faults, struct held *held, uint64_t now_ns)
{
	faults->deliver(faults->context, held->frame, held->length, now_ns);
	held->length = 0;
	faults->held_count--;
}

/* A frame goes on, and with it those that waited to be overtaken. */
static void pass(struct faults *faults, const uint8_t *frame, uint32_t length, uint64_t now_ns)
{
	faults->deliver(faults->context, frame, length, now_ns);
	for (struct held *held = faults->held; held < faults->held + FAULTS_HELD; held++) {
		if (!faults->held_count)
			break;
		if (held->length && held->overtakers && !--held->overtakers)
			release(faults, held, now_ns);
	}
}

void faults_frame(struct faults *faults, uint8_t *frame, uint32_t length, uint64_t now_ns)
{
	const struct faults_config *config = &faults->config;
	uint64_t n = ++faults->counters.frames;
	/* All drawn at once: whether one happens does not change the luck of the next frame. */
	bool drop = happens(faults, config->drop, &config->drop_frame, n);
	bool damage = happens(faults, config->corrupt, &config->corrupt_frame, n);
	bool twice = happens(faults, config->duplicate, &config->duplicate_frame, n);
	bool late = happens(faults, config->delay, &config->delay_frame, n);
	bool behind = happens(faults, config->reorder, &config->reorder_frame, n);
	uint64_t where = next_random(faults);
	uint32_t overtakers = 1 + random_below(faults, FAULTS_REORDER_MAX);

	if (drop) {
		faults->counters.dropped++;
		return;
	}
	if (damage) {
		faults->counters.corrupted++;
		corrupt(frame, length, where);
	}
	if (late && can_hold(faults, length)) {
		faults->counters.delayed++;
		hold(faults, frame, length, now_ns + config->delay_ns, 0);
	} else if (behind && can_hold(faults, length)) {
		faults->counters.reordered++;
		hold(faults, frame, length, now_ns + FAULTS_REORDER_WAIT_NS, overtakers);
	} else {
		pass(faults, frame, length, now_ns);
	}
	if (twice) {
		faults->counters.duplicated++;
		faults->deliver(faults->context, frame, length, now_ns);
	}
}

static struct held *earliest(const struct faults *faults)
{
	const struct held *best = NULL;

	if (!faults->held_count)
		return NULL;
	for (const struct held *held = faults->held; held < faults->held + FAULTS_HELD; held++) {
		if (!held->length)
			continue;
		if (!best || held->due_ns < best->due_ns ||
		    (held->due_ns == best->due_ns && held->order < best->order))
			best = held;
	}
	return (struct held *)best;
}

void faults_tick(struct faults *faults, uint64_t now_ns)
{
	struct held *held;

	while ((held = earliest(faults)) && held->due_ns <= now_ns)
		release(faults, held, now_ns);
}

uint64_t faults_due(const struct faults *faults)
{
	const struct held *held = earliest(faults);

	return held ? held->due_ns : UINT64_MAX;
}

bool faults_reply(struct faults *faults, uint8_t *reply, uint32_t length)
{
	const struct faults_config *config = &faults->config;
	uint64_t n = ++faults->counters.replies;
	bool drop = happens(faults, config->drop_replies, &config->drop_reply, n);
	bool damage = happens(faults, config->corrupt_replies, &config->corrupt_reply, n);
	uint64_t where = next_random(faults);

	if (drop) {
		faults->counters.dropped_replies++;
		return false;
	}
	if (damage) {
		faults->counters.corrupted_replies++;
		corrupt(reply, length, where);
	}
	return true;
}

uint64_t faults_withhold(struct faults *faults, uint64_t n)
{
	const struct faults_config *config = &faults->config;
	uint64_t since = n - config->withhold_first;

	if (!config->withhold_ns || n < config->withhold_first)
		return 0;
	if (since && (!config->withhold_every || since % config->withhold_every))
		return 0;
	faults->counters.withheld++;
	return config->withhold_ns;
}

const struct faults_counters *faults_counters(const struct faults *faults)
{
	return &faults->counters;
}
