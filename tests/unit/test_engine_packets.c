/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What goes out: packetisation (section 2), AckReq (5.6), zero length and immediates (5.8), target
 * slots and short messages (section 5 of the design). The rig checks every byte of every frame.
 */
#include <errno.h>

#include "engine_rig.h"

/* Sends what is queued, acknowledging whatever is outstanding, until all of it is delivered. */
static void deliver(struct rig *rig)
{
	for (;;) {
		rig_drain(rig);
		if (qp_idle(&rig->qp))
			return;
		rig_time(rig, 1000);
		rig_receive(rig, rig_relative(rig, qp_highest_psn(&rig->qp)), 0x1F, 0);
		rig->logged = 0;
	}
}

static void check_sizes(uint32_t pmtu, bool immediate)
{
	const uint64_t sizes[] = { 0,
				   1,
				   2,
				   3,
				   4,
				   5,
				   pmtu - 1,
				   pmtu,
				   pmtu + 1,
				   2 * pmtu,
				   2 * pmtu + 1,
				   3 * pmtu - 1,
				   (4 << 20) + 3 };
	struct qp_config config = rig_config();
	uint64_t packets = 0, bytes = 0;
	struct rig *rig;

	config.pmtu = pmtu;
	config.immediate = immediate;
	config.slot_size = 5 << 20;
	rig = rig_open(&config);
	snprintf(rig->where, sizeof(rig->where), "PMTU %u, immediate %d", pmtu, immediate);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		rig_message(rig, sizes[i], RIG_WHOLE);
		bytes += sizes[i];
		packets += sizes[i] ? (sizes[i] + pmtu - 1) / pmtu : 1;
	}
	deliver(rig);
	RIG_EQ(rig, rig->next, packets, "packets");
	RIG_EQ(rig, rig->message, sizeof(sizes) / sizeof(*sizes), "messages");
	RIG_EQ(rig, rig->qp.requester.counters.bytes, bytes, "bytes");
	RIG_EQ(rig, rig->qp.counters.short_messages, 0, "short messages");
	rig_close(rig);
}

/* 2: opcode order, RETH in the first packet only, pads, immediates; at every PMTU. */
Test(engine_packets, sizes_256)
{
	check_sizes(256, false);
	check_sizes(256, true);
}

Test(engine_packets, sizes_512)
{
	check_sizes(512, false);
	check_sizes(512, true);
}

Test(engine_packets, sizes_1024)
{
	check_sizes(1024, false);
	check_sizes(1024, true);
}

Test(engine_packets, sizes_2048)
{
	check_sizes(2048, false);
	check_sizes(2048, true);
}

Test(engine_packets, sizes_4096)
{
	check_sizes(4096, false);
	check_sizes(4096, true);
}

/* Design 4: a frame is contiguous in its own slot, its payload 64-byte aligned, two descriptors at
 * PMTU 4096 where it crosses the border of a chunk. */
Test(engine_packets, place_in_memory)
{
	static const struct {
		uint32_t pmtu, chunk, stride, full;
	} rows[] = {
		{ 256, 4096, 4096, 1 },  { 1024, 4096, 4096, 1 }, { 2048, 4096, 4096, 1 },
		{ 4096, 4096, 8192, 2 }, { 1024, 2048, 2048, 1 }, { 2048, 2048, 4096, 2 },
		{ 4096, 8192, 8192, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct qp_config config = rig_config();
		struct rig *rig;
		struct frame frame;

		config.pmtu = rows[i].pmtu;
		config.chunk = rows[i].chunk;
		rig = rig_open(&config);
		snprintf(rig->where, sizeof(rig->where), "PMTU %u in chunks of %u", rows[i].pmtu,
			 rows[i].chunk);
		RIG_EQ(rig, qp_stride(rows[i].pmtu, rows[i].chunk), rows[i].stride, "stride");
		rig_message(rig, 3 * rows[i].pmtu, RIG_WHOLE);
		rig_message(rig, 8, RIG_WHOLE);
		for (uint32_t k = 0; k < 4; k++) {
			uint64_t slot;

			cr_assert(rig_transmit(rig, &frame));
			slot = (frame.psn & 63) * (uint64_t)rows[i].stride;
			cr_assert(frame.offset >= slot &&
				  frame.offset + frame.length <= slot + rows[i].stride);
			RIG_EQ(rig,
			       (frame.offset + frame_payload_at(rig->memory + frame.offset)) % 64,
			       0, "alignment of the payload");
			RIG_EQ(rig, qp_descriptors(&rig->qp, &frame), k < 3 ? rows[i].full : 1,
			       "descriptors");
		}
		rig_close(rig);
	}
}

/* 5.6: on Last and Only, on every min(16, ring/4)-th packet, on the one that fills the window. */
static void check_ackreq(uint32_t ring, const uint32_t *sizes, const uint32_t *expected,
			 uint32_t count)
{
	struct qp_config config = rig_config();
	struct rig *rig;
	uint32_t found = 0;

	config.ring = ring;
	rig = rig_open(&config);
	for (; *sizes; sizes++)
		rig_message(rig, *sizes * 256, RIG_WHOLE);
	rig_drain(rig);
	snprintf(rig->where, sizeof(rig->where), "ring %u", ring);
	for (uint32_t i = 0; i < rig->logged; i++) {
		if (!rig->log[i].ackreq)
			continue;
		cr_assert_lt(found, count, "%s: AckReq at +%u", rig->where, i);
		RIG_EQ(rig, i, expected[found++], "packet with AckReq");
	}
	RIG_EQ(rig, found, count, "packets with AckReq");
	rig_close(rig);
}

#define LIST(...)                                                                                  \
	(const uint32_t[])                                                                         \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define COUNTED(...) LIST(__VA_ARGS__), sizeof(LIST(__VA_ARGS__)) / sizeof(uint32_t)

Test(engine_packets, ackreq)
{
	check_ackreq(16, LIST(100, 0), COUNTED(3, 7, 11, 15));
	check_ackreq(32, LIST(100, 0), COUNTED(7, 15, 23, 31));
	check_ackreq(64, LIST(100, 0), COUNTED(15, 31, 47, 63));
	check_ackreq(128, LIST(300, 0), COUNTED(15, 31, 47, 63, 79, 95, 111, 127));
	/* Messages shift the distance; the packet that fills the window carries AckReq all the
	 * same. */
	check_ackreq(64, LIST(1, 100, 0), COUNTED(0, 16, 32, 48, 63));
	check_ackreq(64, LIST(3, 2, 100, 0), COUNTED(2, 4, 20, 36, 52, 63));
	check_ackreq(16, LIST(2, 100, 0), COUNTED(1, 5, 9, 13, 15));
	check_ackreq(16, LIST(1, 1, 1, 100, 0), COUNTED(0, 1, 2, 6, 10, 14, 15));
	check_ackreq(64, LIST(20, 5, 0), COUNTED(15, 19, 24));
}

/* 5.6: and so it is at every state of the window: never ring/4 packets without AckReq, never a full
 * window whose last packet has none. */
Test(engine_packets, ackreq_at_every_window)
{
	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct qp_config config = rig_config();
		uint32_t random = seed * 2654435761u, since = 0, seen = 0, spacing;
		struct rig *rig;

		config.ring = 16u << seed % 4;
		spacing = config.ring / 4 < 16 ? config.ring / 4 : 16;
		rig = rig_open(&config);
		for (int i = 0; i < 40; i++)
			rig_message(rig, (1 + i * seed % 70) * 256, RIG_WHOLE);
		for (rig_drain(rig); !qp_idle(&rig->qp); rig_drain(rig)) {
			uint32_t flight = rig->next - rig_relative(rig, rig->qp.ring.una);

			for (; seen < rig->logged; seen++) {
				since = rig->log[seen].ackreq ? 0 : since + 1;
				cr_assert_lt(since, spacing, "seed %u: %u without AckReq", seed,
					     since);
			}
			if (flight == config.ring)
				cr_assert_eq(since, 0, "seed %u: full window without AckReq", seed);
			random = random * 1664525 + 1013904223;
			rig_receive(rig, rig->next - 1 - (random >> 16) % flight, 0x1F, 0);
		}
		rig_close(rig);
	}
}

/* Design 5: message k goes to slot k mod N, its immediate is the low 32 bits of k; also past 2^32.
 */
Test(engine_packets, target_slots_and_immediates)
{
	static const uint64_t first[] = { 0, 3, 0xFFFFFFFE, 0xFFFFFFFFFFull };

	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++)
		for (uint32_t slots = 2; slots <= 7; slots++) {
			struct qp_config config = rig_config();
			struct rig *rig;

			config.slot_count = slots;
			config.immediate = true;
			rig = rig_open(&config);
			rig->message = rig->qp.packetizer.message = first[i];
			for (int k = 0; k < 30; k++)
				rig_message(rig, k * 50, RIG_WHOLE);
			deliver(rig);
			RIG_EQ(rig, rig->message, first[i] + 30, "messages");
			rig_close(rig);
		}
}

/* Design 5: payload that ends early is filled with zeros to the declared length, and counted. */
Test(engine_packets, short_messages)
{
	static const uint32_t ends[] = { 0, 1, 255, 256, 257, 300, 511, 512, 600, 777 };

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct qp_config config = rig_config();
		struct rig *rig = rig_open(&config);

		snprintf(rig->where, sizeof(rig->where), "ended at %u of 778", ends[i]);
		memset(rig->memory, 0xEE, 64 * 4096);
		rig_message(rig, 778, ends[i]);
		rig_message(rig, 10, RIG_WHOLE);
		RIG_EQ(rig, rig_drain(rig), ends[i] / 256, "frames before the end");
		RIG_EQ(rig, rig->wait, QP_WAIT_SOURCE, "reason");
		rig_payload(rig, ends[i], true);
		rig_payload(rig, ends[i], true);
		deliver(rig);
		RIG_EQ(rig, rig->next, 5, "packets");
		RIG_EQ(rig, rig->qp.counters.short_messages, 1, "short messages");
		rig_close(rig);
	}
}

/* Design 5: payload beyond the declared length is not sent. */
Test(engine_packets, payload_beyond_the_length)
{
	struct qp_config config = rig_config();
	struct rig *rig = rig_open(&config);

	rig_message(rig, 300, 100);
	rig_drain(rig);
	rig_payload(rig, 0x100000001ull, true);
	deliver(rig);
	RIG_EQ(rig, rig->next, 2, "packets");
	RIG_EQ(rig, rig->qp.requester.counters.bytes, 300, "bytes");
	RIG_EQ(rig, rig->qp.counters.short_messages, 0, "short messages");
	rig_close(rig);
}

/* A packet is built from payload that is there, never from what is not: also when a hostile source
 * takes back what it had committed. The buffer's end is guarded under ASan. */
Test(engine_packets, payload_that_shrinks)
{
	struct qp_config config = rig_config();
	struct rig *rig = rig_open(&config);
	uint8_t *all = calloc(1, 600), *few = calloc(1, 100);
	struct frame frame;

	cr_assert_eq(qp_message(&rig->qp, 600), 0);
	qp_payload(&rig->qp, all, 300, false);
	cr_assert_eq(qp_transmit(&rig->qp, rig->now, &frame), QP_FRAME);
	free(all);
	qp_payload(&rig->qp, few, 100, false);
	cr_assert_eq(qp_transmit(&rig->qp, rig->now, &frame), QP_WAIT_SOURCE);
	qp_payload(&rig->qp, few, 100, true);
	cr_assert_eq(qp_transmit(&rig->qp, rig->now, &frame), QP_FRAME);
	cr_assert_eq(qp_transmit(&rig->qp, rig->now, &frame), QP_FRAME);
	cr_assert_eq(frame.length, AT_AFTER_BTH + 88 + 4);
	for (uint32_t i = 0; i < 88; i++)
		cr_assert_eq(rig->memory[frame.offset + AT_AFTER_BTH + i], 0);
	free(few);
	rig_close(rig);
}

/* 2 and section 8: DMALen at most 2^31 and at most a target slot; refused, never cut. */
Test(engine_packets, refused_messages)
{
	struct qp_config config = rig_config();
	struct rig *rig;

	config.slot_size = 1000;
	rig = rig_open(&config);
	cr_assert_eq(qp_message(&rig->qp, 1001), -EMSGSIZE);
	cr_assert_eq(qp_message(&rig->qp, UINT64_MAX), -EMSGSIZE);
	cr_assert(!qp_message_open(&rig->qp));
	cr_assert_eq(qp_message(&rig->qp, 1000), 0);
	cr_assert(qp_message_open(&rig->qp));
	cr_assert_eq(qp_message(&rig->qp, 1), -EBUSY);
	qp_close(&rig->qp);
	cr_assert_eq(qp_message(&rig->qp, 1), -ENOTCONN);

	config.slot_size = 1ull << 40;
	config.remote_address = 0;
	cr_assert_eq(qp_open(&rig->qp, &config, rig->memory, 0, &(struct error){ "" }), 0);
	cr_assert_eq(qp_message(&rig->qp, 0x80000001ull), -EMSGSIZE);
	cr_assert_eq(qp_message(&rig->qp, 0x180000000ull), -EMSGSIZE);
	cr_assert_eq(qp_message(&rig->qp, 0x80000000ull), 0);
	rig_close(rig);
}

/* A message of 2^31 bytes has DMALen 0x80000000; its first packets are in order. */
Test(engine_packets, largest_message_starts)
{
	struct qp_config config = rig_config();
	struct rig *rig;

	config.slot_size = 1ull << 32;
	config.slot_count = 2;
	rig = rig_open(&config);
	rig_message(rig, 0x80000000ull, 3 * 256);
	RIG_EQ(rig, rig_drain(rig), 3, "frames");
	rig_close(rig);
}
