/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "../../user/cli/faults_option.h"

#define FRAMES 10000
#define LENGTH 62
#define TICK 1000 /* ns between two frames */

/* What went through: the number that each frame carries, in the order of delivery. */
struct record {
	uint32_t count;
	uint32_t damaged;
	uint32_t number[2 * FRAMES];
	uint64_t when[2 * FRAMES];
};

static void deliver(void *context, const uint8_t *frame, uint32_t length, uint64_t now_ns)
{
	struct record *record = context;
	uint32_t number;
	uint8_t sum = 0;

	cr_assert_eq(length, LENGTH);
	for (uint32_t i = 42; i < LENGTH; i++)
		sum |= frame[i];
	record->damaged += sum != 0;
	memcpy(&number, frame, sizeof(number));
	record->when[record->count] = now_ns;
	record->number[record->count++] = number;
}

/* FRAMES frames, one a microsecond, all zero but for their number in the Ethernet header. */
static struct faults_counters run(const char *spec, uint64_t seed, struct record *record,
				  uint32_t frames)
{
	struct faults_config config = { .seed = seed };
	struct faults_counters counters;
	struct faults *faults;
	struct error error;

	memset(record, 0, sizeof(*record));
	cr_assert_eq(parse_faults(spec, &config, &error), 0, "%s", error.text);
	cr_assert_eq(faults_create(&faults, &config, deliver, record, &error), 0);
	for (uint32_t n = 1; n <= frames; n++) {
		uint8_t frame[LENGTH] = { 0 };

		memcpy(frame, &n, sizeof(n));
		faults_tick(faults, n * TICK);
		faults_frame(faults, frame, sizeof(frame), n * TICK);
	}
	faults_tick(faults, UINT64_MAX - 1);
	cr_expect_eq(faults_due(faults), UINT64_MAX);
	counters = *faults_counters(faults);
	faults_destroy(faults);
	return counters;
}

static struct record first, second;

Test(faults, none)
{
	struct faults_counters counters = run("drop=0%", 1, &first, 100);

	cr_expect_eq(first.count, 100);
	cr_expect_eq(counters.frames, 100);
	for (uint32_t i = 0; i < 100; i++)
		cr_expect_eq(first.number[i], i + 1);
}

/* Each kind about as often as asked, and the books balance. */
Test(faults, probabilities)
{
	struct faults_counters counters =
		run("drop=10%,duplicate=5%,reorder=2%,corrupt=1%,delay=3%:3ms", 7, &first, FRAMES);

	cr_expect(counters.dropped > 850 && counters.dropped < 1150, "%lu", counters.dropped);
	cr_expect(counters.duplicated > 350 && counters.duplicated < 550);
	cr_expect(counters.corrupted > 50 && counters.corrupted < 150);
	cr_expect(counters.reordered > 100 && counters.reordered < 300);
	cr_expect(counters.delayed > 100 && counters.delayed < 400);
	cr_expect_eq(first.count, FRAMES - counters.dropped + counters.duplicated);
	cr_expect_geq(first.damaged, counters.corrupted);
}

Test(faults, the_same_seed_does_the_same)
{
	const char *spec = "drop=5%,duplicate=5%,reorder=5%,corrupt=5%,delay=5%:50us";

	run(spec, 42, &first, FRAMES);
	run(spec, 42, &second, FRAMES);
	cr_expect(!memcmp(&first, &second, sizeof(first)));
	run(spec, 43, &second, FRAMES);
	cr_expect(memcmp(&first, &second, sizeof(first)));
}

/* An exact position changes the fate of its frame and of no other. */
Test(faults, positions_do_not_shift_the_rest)
{
	uint32_t at = 0;

	run("drop=5%,duplicate=5%", 42, &first, 1000);
	run("drop=5%,duplicate=5%,drop-frame=500", 42, &second, 1000);
	for (uint32_t i = 0; i < first.count; i++) {
		if (first.number[i] == 500)
			continue;
		cr_assert_eq(second.number[at++], first.number[i]);
	}
	cr_expect_eq(at, second.count);
}

Test(faults, drop_at_positions)
{
	run("drop-frame=1,drop-frame=3,drop-frame=10", 0, &first, 10);
	cr_expect_eq(first.count, 7);
	cr_expect_eq(first.number[0], 2);
	cr_expect_eq(first.number[1], 4);
	cr_expect_eq(first.number[6], 9);
}

Test(faults, corrupt_at_a_position)
{
	run("corrupt-frame=4", 0, &first, 10);
	cr_expect_eq(first.count, 10);
	cr_expect_eq(first.damaged, 1);
}

Test(faults, duplicate_at_a_position)
{
	run("duplicate-frame=2", 0, &first, 3);
	cr_expect_eq(first.count, 4);
	cr_expect_eq(first.number[1], 2);
	cr_expect_eq(first.number[2], 2);
}

/* At least one frame overtakes it, at most FAULTS_REORDER_MAX do. */
Test(faults, reorder_at_a_position)
{
	for (uint64_t seed = 0; seed < 50; seed++) {
		uint32_t at = 0;

		run("reorder-frame=3", seed, &first, 20);
		cr_assert_eq(first.count, 20);
		while (first.number[at] != 3)
			at++;
		cr_expect(at >= 3 && at <= 2 + FAULTS_REORDER_MAX, "it came after %u others", at);
	}
}

/* When nothing follows, it goes on after a while. */
Test(faults, reorder_of_the_last_frame)
{
	run("reorder-frame=5", 0, &first, 5);
	cr_expect_eq(first.count, 5);
	cr_expect_eq(first.number[4], 5);
}

Test(faults, delay_at_a_position)
{
	run("delay=0%:5us,delay-frame=2", 0, &first, 20);
	cr_expect_eq(first.count, 20);
	cr_expect_eq(first.number[5], 2);
	cr_expect_eq(first.when[5], 2 * TICK + 5000);
}

Test(faults, replies)
{
	struct faults_config config = { 0 };
	struct record *record = &first;
	struct faults *faults;
	struct error error;

	cr_assert_eq(parse_faults("drop-reply=2,corrupt-reply=3", &config, &error), 0);
	cr_assert_eq(faults_create(&faults, &config, deliver, record, &error), 0);
	for (int n = 1; n <= 4; n++) {
		uint8_t reply[LENGTH] = { 0 }, clean[LENGTH] = { 0 };

		cr_expect_eq(faults_reply(faults, reply, sizeof(reply)), n != 2);
		cr_expect_eq(!memcmp(reply, clean, LENGTH), n != 3);
		cr_expect(!memcmp(reply, clean, 42), "only what the ICRC covers may change");
		cr_expect_eq(reply[46], 0, "byte 4 of the BTH is not covered");
	}
	faults_destroy(faults);
}

Test(faults, withhold)
{
	static const struct {
		const char *spec;
		uint64_t at[4];
	} rows[] = {
		{ "withhold=20ms:4", { 4, 8, 12, 16 } },
		{ "withhold=20ms:4:10", { 10, 14, 18, 22 } },
		{ "withhold=20ms:1:23", { 23, 24, 25, 26 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct faults_config config = { 0 };
		struct faults *faults;
		struct error error;
		int found = 0;

		cr_assert_eq(parse_faults(rows[i].spec, &config, &error), 0, "%s", error.text);
		cr_assert_eq(faults_create(&faults, &config, deliver, &first, &error), 0);
		for (uint64_t n = 1; found < 4 && n < 100; n++) {
			uint64_t stall = faults_withhold(faults, n);

			cr_expect_eq(stall, n == rows[i].at[found] ? 20000000 : 0, "%s: %lu",
				     rows[i].spec, n);
			found += stall != 0;
		}
		faults_destroy(faults);
	}
}

Test(faults, good_specification)
{
	struct faults_config config = { 0 };
	struct error error;

	cr_assert_eq(parse_faults("drop=1%,duplicate=0.5%,reorder=2%,corrupt=0.1%,delay=1.5%:3ms,"
				  "drop-frame=17,drop-frame=18,drop-reply=3,corrupt-replies=1%,"
				  "drop-replies=5%,withhold=20ms:4",
				  &config, &error),
		     0, "%s", error.text);
	cr_expect_eq(config.drop, 10000000);
	cr_expect_eq(config.duplicate, 5000000);
	cr_expect_eq(config.reorder, 20000000);
	cr_expect_eq(config.corrupt, 1000000);
	cr_expect_eq(config.delay, 15000000);
	cr_expect_eq(config.delay_ns, 3000000);
	cr_expect_eq(config.drop_frame.count, 2);
	cr_expect_eq(config.drop_frame.position[1], 18);
	cr_expect_eq(config.drop_reply.position[0], 3);
	cr_expect_eq(config.drop_replies, 50000000);
	cr_expect_eq(config.corrupt_replies, 10000000);
	cr_expect_eq(config.withhold_ns, 20000000);
	cr_expect_eq(config.withhold_every, 4);
	cr_expect_eq(config.withhold_first, 4);
}

/* Each is refused, and the sentence names the item. */
Test(faults, bad_specifications)
{
	static const struct {
		const char *spec;
		const char *item;
	} rows[] = {
		{ "", "''" },
		{ "drop", "'drop'" },
		{ "drop=", "'drop='" },
		{ "drop=1", "'drop=1'" },
		{ "drop=101%", "'drop=101%'" },
		{ "drop=-1%", "'drop=-1%'" },
		{ "drop=1%,", "''" },
		{ ",drop=1%", "''" },
		{ "drop=1%,drop=2%", "'drop'" },
		{ "drop=1%,dropp=2%", "'dropp=2%'" },
		{ "drop=1%,burn=2%", "'burn=2%'" },
		{ "drop=1% ", "'drop=1% '" },
		{ "drop-frame=0", "'drop-frame=0'" },
		{ "drop-frame=1%", "'drop-frame=1%'" },
		{ "drop-frame=-1", "'drop-frame=-1'" },
		{ "drop-reply=x", "'drop-reply=x'" },
		{ "delay=1%", "'delay=1%'" },
		{ "delay=1%:", "'delay=1%:'" },
		{ "delay=1%:3", "'delay=1%:3'" },
		{ "delay-frame=3", "'delay-frame'" },
		{ "withhold=20ms", "'withhold=20ms'" },
		{ "withhold=20ms:0", "'withhold=20ms:0'" },
		{ "withhold=20ms:4:", "'withhold=20ms:4:'" },
		{ "withhold=20:4", "'withhold=20:4'" },
		{ "drop=0000000000000000000000000000000000000000000000000000000000000000000001%",
		  "too long" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct faults_config config = { 0 };
		struct error error = { "" };

		cr_expect_eq(parse_faults(rows[i].spec, &config, &error), -EINVAL, "'%s' was taken",
			     rows[i].spec);
		cr_expect(strstr(error.text, rows[i].item), "'%s': %s", rows[i].spec, error.text);
	}
}

Test(faults, too_many_positions)
{
	struct faults_config config = { 0 };
	struct error error;

	for (int i = 0; i < FAULTS_POSITIONS; i++)
		cr_assert_eq(parse_faults("drop-frame=5", &config, &error), 0);
	cr_expect_eq(parse_faults("drop-frame=5", &config, &error), -EINVAL);
}

/* With every place taken, frames pass instead of being lost. */
Test(faults, nothing_is_lost_when_all_places_are_taken)
{
	run("delay=100%:1s", 0, &first, 1000);
	cr_expect_eq(first.count, 1000);
}
