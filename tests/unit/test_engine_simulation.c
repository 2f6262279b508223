/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine against a strict responder over a bad link, in virtual time: see engine_simulation.h.
 */
#include "engine_simulation.h"

#if defined(__SANITIZE_ADDRESS__)
#define LONG_RUN 100000u
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LONG_RUN 100000u
#endif
#endif
#ifndef LONG_RUN
#define LONG_RUN 1000000u
#endif

static struct settings plain_settings(void)
{
	struct settings settings = {
		.qp = rig_config(),
		.seed = 1,
		.delay = 3000,
		.spacing = 100,
		.completion_delay = 2000,
		.release_delay = 10000,
		.rnr_code = 1,
	};

	return settings;
}

/* Any setting, from the seed. */
static struct settings random_settings(uint64_t seed, uint32_t worst_loss)
{
	struct settings s = plain_settings();
	struct sim dice = { .random = seed * 0x9E3779B97F4A7C15ull + 7 };

	s.seed = seed;
	s.qp.pmtu = 256u << sim_random(&dice, 5);
	s.qp.ring = 16u << sim_random(&dice, 4);
	s.qp.start_psn = sim_chance(&dice, 500) ? 0xFFFFF0 - sim_random(&dice, 100)
						: sim_random(&dice, 1 << 24);
	s.qp.immediate = sim_chance(&dice, 500);
	s.qp.slot_count = 2 + sim_random(&dice, 6);
	s.qp.slot_size = 64 * 1024;
	s.qp.chunk = sim_chance(&dice, 300) ? 2048 : 4096;
	s.qp.ack_timeout = 50000 + sim_random(&dice, 1000000);
	s.largest = sim_chance(&dice, 300) ? s.qp.pmtu : 1 + sim_random(&dice, 12) * s.qp.pmtu;
	s.messages = 60 + sim_random(&dice, 100);
	s.loss = sim_random(&dice, worst_loss + 1);
	s.duplicates = sim_chance(&dice, 500) ? sim_random(&dice, 100) : 0;
	s.reorder = sim_chance(&dice, 500) ? sim_random(&dice, 200) : 0;
	s.jitter = 1 + sim_random(&dice, 20000);
	s.delay = 500 + sim_random(&dice, 20000);
	s.completion_delay = sim_random(&dice, 30000);
	s.release_delay = sim_random(&dice, 100000);
	s.trickle = sim_chance(&dice, 300);
	s.limited = sim_chance(&dice, 500);
	s.answers_all = sim_chance(&dice, 500);
	s.quiet_after_rnr = sim_chance(&dice, 500);
	s.rnr_code = 1 + sim_random(&dice, 10);
	return s;
}

/*
 * Every byte right, every message once, never stuck, at up to 20 % loss of frames and of answers.
 * Seven retries in a row do get lost at such a rate now and then, and then the queue pair rightly
 * gives up: more of them are allowed here, so that anything that stands still is a fault.
 */
Test(engine_simulation, seeds)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct settings settings = random_settings(seed, 200);
		struct sim *sim;

		settings.patience = 40;
		settings.fast = true;
		sim = sim_open(&settings);
		sim_run(sim);
		sim_close(sim);
	}
}

/* At 5 % loss, duplication and reordering together seven retries are enough. */
Test(engine_simulation, five_per_cent)
{
	for (uint64_t seed = 1001; seed <= 1200; seed++) {
		struct settings settings = random_settings(seed, 50);
		struct sim *sim;

		settings.loss = settings.duplicates = settings.reorder = 50;
		settings.fast = true;
		sim = sim_open(&settings);
		sim_run(sim);
		sim_close(sim);
	}
}

static struct settings sixty_four(uint32_t ring, uint32_t packets_per_message)
{
	struct settings s = plain_settings();

	s.qp.ring = ring;
	s.qp.slot_size = 64 * 256;
	s.qp.slot_count = 128; /* nothing but the loss holds the sender back */
	s.exact = true;
	s.largest = packets_per_message * 256;
	s.messages = 64 / packets_per_message;
	return s;
}

static const struct {
	uint32_t ring, packets;
} shapes[] = { { 64, 64 }, { 64, 1 }, { 64, 4 },   { 16, 64 },
	       { 16, 1 },  { 16, 8 }, { 256, 64 }, { 256, 1 } };

static uint32_t spacing(uint32_t ring)
{
	return ring / 4 < 16 ? ring / 4 : 16;
}

#define SHAPES (sizeof(shapes) / sizeof(*shapes))

/* The n-th data packet is lost: at most one window is resent, and only what was sent after it. */
Test(engine_simulation, each_data_packet_lost_once)
{
	for (size_t i = 0; i < SHAPES; i++)
		for (uint32_t n = 1; n <= 64; n++) {
			struct settings s = sixty_four(shapes[i].ring, shapes[i].packets);
			struct sim *sim;

			s.drop_frame = n;
			sim = sim_open(&s);
			sim_run(sim);
			cr_assert_leq(sim->rig->qp.counters.retransmitted_frames, s.qp.ring,
				      "ring %u, packet %u", s.qp.ring, n);
			/* What came after it, or a probe with those before it up to its AckReq. */
			cr_assert_leq(sim->rig->qp.counters.retransmitted_frames,
				      64 - n + spacing(s.qp.ring));
			cr_assert_geq(sim->rig->qp.counters.retransmitted_frames, 1);
			cr_assert_eq(sim->rig->qp.counters.frames,
				     64 + sim->rig->qp.counters.retransmitted_frames);
			cr_assert_leq(sim->rig->qp.requester.counters.naks +
					      sim->rig->qp.requester.counters.timeouts,
				      1);
			sim_close(sim);
		}
}

/* The n-th answer is lost: nothing is resent unless it was the last one, then one probe. */
Test(engine_simulation, each_answer_lost_once)
{
	for (size_t i = 0; i < SHAPES; i++) {
		struct settings s = sixty_four(shapes[i].ring, shapes[i].packets);
		struct sim *sim = sim_open(&s);
		uint32_t answers, probe = spacing(s.qp.ring);

		sim_run(sim);
		answers = sim->answers;
		cr_assert_eq(sim->rig->qp.counters.frames, 64,
			     "without loss each packet goes once");
		sim_close(sim);
		for (uint32_t n = 1; n <= answers; n++) {
			s.drop_answer = n;
			sim = sim_open(&s);
			sim_run(sim);
			cr_assert_leq(sim->rig->qp.counters.retransmitted_frames,
				      n == answers ? probe : 0,
				      "ring %u, %u packets, answer %u of %u: %llu", s.qp.ring,
				      shapes[i].packets, n, answers,
				      (unsigned long long)
					      sim->rig->qp.counters.retransmitted_frames);
			sim_close(sim);
		}
	}
}

/* After a loss is made good each packet goes exactly once again. */
Test(engine_simulation, once_after_recovery)
{
	for (size_t i = 0; i < SHAPES; i++) {
		struct settings s = sixty_four(shapes[i].ring, shapes[i].packets);
		uint64_t resent = 0;
		struct sim *sim;

		s.messages *= 20;
		s.drop_frame = 30;
		sim = sim_open(&s);
		while (!sim_done(sim)) {
			sim_step(sim);
			if (rig_relative(sim->rig, sim->rig->qp.ring.una) < 30 + 2 * s.qp.ring)
				resent = sim->rig->qp.counters.retransmitted_frames;
		}
		cr_assert_eq(sim->rig->qp.counters.retransmitted_frames, resent);
		cr_assert_leq(resent, s.qp.ring);
		cr_assert_eq(sim->rig->qp.counters.frames, 20 * 64 + resent);
		sim_close(sim);
	}
}

/* Design 9: N = 2 and N = 3 slots with a reader that stalls: RNR NAKs and credits, every byte
 * right. */
Test(engine_simulation, few_slots_and_a_slow_reader)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct settings s = random_settings(seed, 50);
		struct sim *sim;

		s.qp.immediate = true;
		s.qp.slot_count = 2 + seed % 2;
		s.messages = 60;
		s.release_delay = 20000000;
		s.rnr_code = (uint32_t)(seed % 20) + 1;
		s.fast = true;
		sim = sim_open(&s);
		sim_run(sim);
		if (!s.limited)
			cr_assert_gt(sim->rig->qp.requester.counters.rnr_naks, 0, "seed %llu",
				     (unsigned long long)seed);
		sim_close(sim);
	}
}

/* A million packets at 1 % loss both ways. */
Test(engine_simulation, long_run)
{
	struct settings s = plain_settings();
	struct sim *sim;

	s.seed = 4711;
	s.qp.ring = 128;
	s.qp.slot_size = 4096;
	s.exact = true;
	s.largest = 2560;
	s.messages = LONG_RUN / 10;
	s.loss = 10;
	s.fast = true;
	sim = sim_open(&s);
	sim_run(sim);
	RIG_EQ(sim->rig, sim->rig->next, LONG_RUN, "packets");
	sim_close(sim);
}
