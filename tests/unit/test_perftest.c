/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perftest's exchange against a server that compares every byte. Its texts are those of ib_write_bw
 * 6.24 and are written out here: nothing of what is tested made them.
 */
#include "../../user/connect/perftest.h"
#include "fake_server.h"

#define TIMEOUT_MS 5000
#define SHORT_MS 100
#define LITERAL(text) text, sizeof(text) - 1

#define OUR_GID "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:00:02:01:"
#define GID "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:00:02:02:"
#define OUR_KEY_0 "0000:0001:420002:65df02:00000000:0000000000000000:" OUR_GID "00000000:\0"
#define OUR_KEY_1 "0000:0001:0b0003:00000f:00000000:0000000000000000:" OUR_GID "00000000:\0"
#define KEY_0 "0000:0001:000011:c0787d:00000257:00005628103a2000:" GID "00000000:\0"
#define KEY_1 "0000:0001:000012:22fb3e:fffffffe:00005628103b2000:" GID "00000000:\0"

#define VERSION_STEP                                                                               \
	{ LITERAL("6.20\0\0\0\0\0\0\0\0\0\0\0\0"), LITERAL("6.24\0\0\0\0\0\0\0\0\0\0\0\0") }
#define CYCLE_STEP { LITERAL("\0\0\x10\0"), LITERAL("\0\0\x10\0") }
#define CACHE_STEP { LITERAL("\0\0\0\x40"), LITERAL("\0\0\0\x80") }
#define MTU_STEP { LITERAL("5\0"), LITERAL("5\0") }
#define CONNECT_STEPS VERSION_STEP, CYCLE_STEP, CACHE_STEP, MTU_STEP
#define KEY_0_STEP { LITERAL(OUR_KEY_0), LITERAL(KEY_0) }
#define KEY_1_STEP { LITERAL(OUR_KEY_1), LITERAL(KEY_1) }

/* What a server sends as its own figures is memory that it never wrote to. */
#define GARBAGE LITERAL("\xde\xad\xbe\xef\0\x7f\xff\x01")

static const struct exchange_offer offers[2] = {
	{
		.ip = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
		.qpn = 0x420002,
		.psn = 0x65df02,
		.pmtu = 4096,
		.message_size = 65536,
	},
	{
		.ip = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
		.qpn = 0x0b0003,
		.psn = 0xf,
		.pmtu = 4096,
		.message_size = 65536,
	},
};

static int finish(struct perftest *perftest, struct error *error)
{
	const struct perftest_report report = {
		.size = 65536,
		.iterations = 80,
		.average = 1.0,
		.rate = -2.5,
	};
	int rc = -EAGAIN;

	for (int i = 0; rc == -EAGAIN && i < TIMEOUT_MS; i++) {
		rc = perftest_finish(perftest, &report, error);
		usleep(1000);
	}
	return rc;
}

Test(perftest, two_queue_pairs_from_the_first_byte_to_the_last)
{
	static const struct fake_step steps[] = {
		CONNECT_STEPS,
		KEY_0_STEP,
		KEY_1_STEP,
		KEY_0_STEP,
		KEY_1_STEP,
		KEY_0_STEP,
		KEY_0_STEP,
		{ LITERAL("\0\0\0\0\0\1\0\0"), GARBAGE },
		{ LITERAL("\0\0\0\0\0\0\0\x50"), GARBAGE },
		{ LITERAL("\0\0\0\0\0\0\0\0"), GARBAGE },
		{ LITERAL("\x3f\xf0\0\0\0\0\0\0"), GARBAGE },
		{ LITERAL("\xc0\x04\0\0\0\0\0\0"), GARBAGE },
		KEY_0_STEP,
	};
	static const uint8_t ip[16] = { [10] = 0xff, 0xff, 192, 0, 2, 2 };
	struct fake_server server = { .closes = true };
	struct exchange_answer answers[2];
	struct perftest perftest;
	struct error error = { "" };

	netns_enter();
	fake_server_start(&server, steps, sizeof(steps) / sizeof(steps[0]));
	cr_assert_eq(perftest_connect(&perftest, FAKE_HOST, FAKE_PORT, 4096, TIMEOUT_MS, &error), 0,
		     "%s", error.text);
	cr_expect_eq(perftest.pmtu, 4096);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(perftest_exchange(&perftest, &offers[i], &answers[i], TIMEOUT_MS,
					       &error),
			     0, "%s", error.text);
	cr_assert_eq(perftest_ready(&perftest, TIMEOUT_MS, &error), 0, "%s", error.text);
	cr_assert_eq(finish(&perftest, &error), 0, "%s", error.text);
	cr_expect_eq(finish(&perftest, &error), 0, "the end is not repeated");
	perftest_close(&perftest);
	perftest_close(&perftest);
	fake_server_end(&server);

	for (int i = 0; i < 2; i++) {
		cr_expect_arr_eq(answers[i].ip, ip, 16);
		cr_expect_eq(answers[i].pmtu, 4096);
		cr_expect_eq(answers[i].slot_size, 65536);
		cr_expect_eq(answers[i].slot_count, 1);
	}
	cr_expect_eq(answers[0].qpn, 0x11);
	cr_expect_eq(answers[0].psn, 0xc0787d);
	cr_expect_eq(answers[0].rkey, 0x257);
	cr_expect_eq(answers[0].address, 0x5628103a2000);
	cr_expect_eq(answers[1].qpn, 0x12);
	cr_expect_eq(answers[1].rkey, 0xfffffffe);
}

static const struct {
	uint32_t ours;
	const char *code, *theirs;
	uint32_t agreed;
} mtu_rows[] = {
	{ 4096, "5", "3", 1024 }, { 512, "2", "5", 512 },   { 256, "1", "1", 256 },
	{ 1024, "3", "1", 256 },  { 2048, "4", "4", 2048 },
};

Test(perftest, smaller_mtu_wins)
{
	netns_enter();
	for (size_t i = 0; i < sizeof(mtu_rows) / sizeof(mtu_rows[0]); i++) {
		const struct fake_step steps[] = {
			VERSION_STEP,
			CYCLE_STEP,
			CACHE_STEP,
			{ mtu_rows[i].code, 2, mtu_rows[i].theirs, 2 },
		};
		struct fake_server server = { 0 };
		struct perftest perftest;
		struct error error = { "" };

		fake_server_start(&server, steps, 4);
		cr_expect_eq(perftest_connect(&perftest, FAKE_HOST, FAKE_PORT, mtu_rows[i].ours,
					      TIMEOUT_MS, &error),
			     0, "%s", error.text);
		cr_expect_eq(perftest.pmtu, mtu_rows[i].agreed, "row %zu: %u", i, perftest.pmtu);
		perftest_close(&perftest);
		fake_server_end(&server);
	}
}

/* The region of a queue pair is the message or one cycle buffer, the larger one of both ends. */
static const struct {
	const char *cycle_buffer;
	uint64_t message_size, slot_size;
} slot_rows[] = {
	{ "\0\0\x10\0", 0, 4096 },
	{ "\0\0\x08\0", 64, 4096 },
	{ "\0\1\0\0", 4097, 65536 },
	{ "\0\1\0\0", 65537, 65537 },
};

Test(perftest, size_of_the_region)
{
	netns_enter();
	for (size_t i = 0; i < sizeof(slot_rows) / sizeof(slot_rows[0]); i++) {
		const struct fake_step steps[] = {
			VERSION_STEP, { LITERAL("\0\0\x10\0"), slot_rows[i].cycle_buffer, 4 },
			CACHE_STEP,   MTU_STEP,
			KEY_0_STEP,
		};
		struct fake_server server = { 0 };
		struct exchange_offer offer = offers[0];
		struct exchange_answer answer = { 0 };
		struct perftest perftest;
		struct error error = { "" };

		offer.message_size = slot_rows[i].message_size;
		fake_server_start(&server, steps, 5);
		cr_expect_eq(perftest_connect(&perftest, FAKE_HOST, FAKE_PORT, 4096, TIMEOUT_MS,
					      &error),
			     0, "%s", error.text);
		cr_expect_eq(perftest_exchange(&perftest, &offer, &answer, TIMEOUT_MS, &error), 0,
			     "%s", error.text);
		cr_expect_eq(answer.slot_size, slot_rows[i].slot_size, "row %zu", i);
		perftest_close(&perftest);
		fake_server_end(&server);
	}
}

/* Up to perftest_ready with two queue pairs; the steps say where a server goes wrong. */
static int whole_setup(struct perftest *perftest, int timeout_ms, struct error *error)
{
	struct exchange_answer answer;
	int rc = perftest_connect(perftest, FAKE_HOST, FAKE_PORT, 4096, timeout_ms, error);

	for (int i = 0; !rc && i < 2; i++)
		rc = perftest_exchange(perftest, &offers[i], &answer, timeout_ms, error);
	return rc ? rc : perftest_ready(perftest, timeout_ms, error);
}

static const struct fake_step good_steps[] = {
	CONNECT_STEPS, KEY_0_STEP, KEY_1_STEP, KEY_0_STEP, KEY_1_STEP, KEY_0_STEP,
};

#define KEY_WITH(fields, gid, rest) LITERAL(fields gid rest)

/* The server is good up to this step, and answers it with this; then it closes, or waits. */
static const struct {
	size_t step;
	const char *reply;
	size_t length;
	bool closes;
	int code;
	const char *text;
} bad_rows[] = {
	{ 0, LITERAL("5.69\0\0\0\0\0\0\0\0\0\0\0\0"), false, EPROTO, "has version 5.69" },
	{ 0, LITERAL("{\"xdp2roce\":1,\"e"), false, EPROTO, "use --to" },
	{ 0, LITERAL("SSH-2.0-OpenSSH_"), false, EPROTO, "'SSH-2.0-OpenSSH_'" },
	{ 0, LITERAL("\x1b[2J\n\0\0\0\0\0\0\0\0\0\0\0"), false, EPROTO, "'?[2J?'" },
	{ 0, LITERAL("6.24\0"), true, ECONNRESET, "closed the connection before its version" },
	{ 0, LITERAL("6.24\0"), false, ETIMEDOUT, "sent 5 of the 16 bytes of its version" },
	{ 0, LITERAL(""), true, ECONNRESET, "look at what it printed" },
	{ 0, LITERAL(""), false, ETIMEDOUT, "sent 0 of the 16 bytes" },
	{ 1, LITERAL("\x40\0\0\1"), false, EPROTO, "cycle buffer of 1073741825 bytes" },
	{ 2, LITERAL("\0"), true, ECONNRESET, "before its cache line size" },
	{ 3, LITERAL("0\0"), false, EPROTO, "MTU code 0x3000" },
	{ 3, LITERAL("6\0"), false, EPROTO, "MTU code 0x3600" },
	{ 3, LITERAL("33"), false, EPROTO, "MTU code 0x3333" },
	{ 3, LITERAL("\xff\xff"), false, EPROTO, "MTU code 0xffff" },
	{ 4, KEY_WITH("0000:0001:00001g:c0787d:00000257:00005628103a2000:", GID, "00000000:\0"),
	  false, EPROTO, "a key that cannot be read" },
	{ 4, KEY_WITH("0000:0001: 00011:c0787d:00000257:00005628103a2000:", GID, "00000000:\0"),
	  false, EPROTO, "a key that cannot be read" },
	{ 4, KEY_WITH("0000:0001:000011.c0787d:00000257:00005628103a2000:", GID, "00000000:\0"),
	  false, EPROTO, "a key that cannot be read" },
	{ 4, KEY_WITH("0000:0001:000011:c0787d:00000257:00005628103a2000:", GID, "00000000::"),
	  false, EPROTO, "a key that cannot be read" },
	{ 4, KEY_WITH("0000:0001:000001:c0787d:00000257:00005628103a2000:", GID, "00000000:\0"),
	  false, EPROTO, "names QPN 1" },
	/* A server that has no GID, as with InfiniBand. */
	{ 4, LITERAL("0000:0001:000011:c0787d:00000257:00005628103a2000:00000000\0"), false,
	  ETIMEDOUT, "sent 59 of the 108 bytes of its key" },
	/* One with fewer queue pairs is in its next round. */
	{ 5, LITERAL(KEY_0), false, EPROTO, "has 1 queue pair, expected one for each stream" },
	/* One with more is still in its first. */
	{ 6, LITERAL("0000:0001:000013:c1bb7a:00000257:00005628103c2000:" GID "00000000:\0"), false,
	  EPROTO, "more queue pairs (-q) than the 2 streams here" },
	{ 8, LITERAL(""), true, ECONNRESET, "before its confirmation" },
};

Test(perftest, server_that_is_none)
{
	netns_enter();
	for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
		struct fake_step steps[sizeof(good_steps) / sizeof(good_steps[0])];
		size_t last = bad_rows[i].step;
		struct fake_server server = { .closes = bad_rows[i].closes };
		int timeout = bad_rows[i].code == ETIMEDOUT ? SHORT_MS : TIMEOUT_MS;
		struct perftest perftest;
		struct error error = { "" };
		int rc;

		memcpy(steps, good_steps, sizeof(steps));
		steps[last].reply = bad_rows[i].reply;
		steps[last].reply_length = bad_rows[i].length;
		fake_server_start(&server, steps, last + 1);
		rc = whole_setup(&perftest, timeout, &error);
		cr_expect_eq(rc, -bad_rows[i].code, "row %zu: %d, %s", i, rc, error.text);
		cr_expect(strstr(error.text, bad_rows[i].text), "row %zu: %s", i, error.text);
		perftest_close(&perftest);
		fake_server_end(&server);
	}
}

Test(perftest, nobody_listens)
{
	struct perftest perftest;
	struct error error = { "" };

	netns_enter();
	cr_expect_eq(perftest_connect(&perftest, FAKE_HOST, FAKE_PORT, 4096, TIMEOUT_MS, &error),
		     -ECONNREFUSED);
	cr_expect(strstr(error.text, "start `ib_write_bw` there"), "%s", error.text);
	perftest_close(&perftest);
}

/* The end never waits, and goes on where it stopped. */
Test(perftest, slow_end)
{
	static const struct fake_step half[] = {
		CONNECT_STEPS,
		KEY_0_STEP,
		KEY_1_STEP,
		KEY_0_STEP,
		KEY_1_STEP,
		KEY_0_STEP,
		{ LITERAL(OUR_KEY_0), LITERAL("0000:0001:000011:") },
	};
	const struct perftest_report report = { 0 };
	struct fake_server server = { 0 };
	struct perftest perftest;
	struct error error = { "" };

	netns_enter();
	fake_server_start(&server, half, sizeof(half) / sizeof(half[0]));
	cr_assert_eq(whole_setup(&perftest, TIMEOUT_MS, &error), 0, "%s", error.text);
	for (int i = 0; i < 50; i++) {
		cr_expect_eq(perftest_finish(&perftest, &report, &error), -EAGAIN);
		usleep(1000);
	}
	perftest_close(&perftest);
	fake_server_end(&server);
}

Test(perftest, server_that_ends_too_early)
{
	static const struct fake_step steps[] = {
		CONNECT_STEPS, KEY_0_STEP, KEY_1_STEP, KEY_0_STEP,
		KEY_1_STEP,    KEY_0_STEP, KEY_0_STEP,
	};
	struct fake_server server = { .closes = true };
	struct perftest perftest;
	struct error error = { "" };

	netns_enter();
	fake_server_start(&server, steps, sizeof(steps) / sizeof(steps[0]));
	cr_assert_eq(whole_setup(&perftest, TIMEOUT_MS, &error), 0, "%s", error.text);
	cr_expect_eq(finish(&perftest, &error), -ECONNRESET);
	cr_expect(strstr(error.text, "look at what it printed"), "%s", error.text);
	perftest_close(&perftest);
	fake_server_end(&server);
}

Test(perftest, more_queue_pairs_than_there_is_room_for)
{
	struct perftest perftest = { .fd = -1, .qps = PERFTEST_QPS };
	struct exchange_answer answer;
	struct error error = { "" };

	cr_expect_eq(perftest_exchange(&perftest, &offers[0], &answer, 0, &error), -E2BIG);
}

static const struct {
	const char *text; /* NUL-padded */
	int code;
} version_rows[] = {
	{ "5.70", 0 },
	{ "6.06", 0 },
	{ "6.24", 0 },
	{ "6.29", 0 },
	{ "6.3", 0 },
	{ "10.0", 0 },
	{ "5.69", -EPROTO },
	{ "5.6", -EPROTO },
	{ "", -EPROTO },
	{ "6", -EPROTO },
	{ "6.", -EPROTO },
	{ ".70", -EPROTO },
	{ "6.240", -EPROTO },
	{ "-6.24", -EPROTO },
	{ " 6.24", -EPROTO },
	{ "6,24", -EPROTO },
	{ "6.2a", -EPROTO },
	{ "99999999999.000", -EPROTO },
	{ "9999999999999999", -EPROTO },
};

Test(perftest, versions)
{
	const struct exchange_peer peer = { "perftest server", "h", "h:1" };

	for (size_t i = 0; i < sizeof(version_rows) / sizeof(version_rows[0]); i++) {
		char text[PERFTEST_VERSION_LEN] = { 0 };
		struct error error = { "" };

		memcpy(text, version_rows[i].text, strnlen(version_rows[i].text, sizeof(text)));
		cr_expect_eq(perftest_check_version(text, &peer, &error), version_rows[i].code,
			     "'%s': %s", version_rows[i].text, error.text);
	}
}
