/* SPDX-License-Identifier: BSD-2-Clause */
/* The handshake of ibv_rc_pingpong, against a server that compares every byte. */
#include "../../user/connect/pingpong.h"
#include "fake_server.h"

#define TIMEOUT_MS 5000
#define SHORT_MS 100
#define LITERAL(text) text, sizeof(text) - 1

#define OURS "0000:530002:00000f:00000000000000000000ffffc0000201\0"
#define THEIRS "0000:000011:b08268:00000000000000000000ffffc0000202\0"

static const struct exchange_offer offer = {
	.ip = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
	.qpn = 0x530002,
	.psn = 0xf,
	.pmtu = 1024,
};

Test(pingpong, handshake)
{
	static const struct fake_step steps[] = {
		{ LITERAL(OURS), LITERAL(THEIRS) },
		{ LITERAL("done\0"), LITERAL("") },
	};
	static const uint8_t ip[16] = { [10] = 0xff, 0xff, 192, 0, 2, 2 };
	struct fake_server server = { 0 };
	struct exchange_answer answer = { 0 };
	struct error error = { "" };
	int fd;

	netns_enter();
	fake_server_start(&server, steps, 2);
	fd = pingpong_connect(FAKE_HOST, FAKE_PORT, TIMEOUT_MS, &error);
	cr_assert_geq(fd, 0, "%s", error.text);
	cr_expect_eq(pingpong_exchange(fd, &offer, &answer, TIMEOUT_MS, &error), 0, "%s",
		     error.text);
	cr_expect_eq(pingpong_ready(fd, &error), 0, "%s", error.text);
	close(fd);
	fake_server_end(&server);
	cr_expect_arr_eq(answer.ip, ip, 16);
	cr_expect_eq(answer.qpn, 0x11);
	cr_expect_eq(answer.psn, 0xb08268);
	cr_expect_eq(answer.pmtu, 1024);
	cr_expect_eq(answer.rkey, 0);
	cr_expect_eq(answer.slot_size, 1);
	cr_expect_eq(answer.slot_count, 1);
}

static const struct {
	const char *reply;
	size_t length;
	bool closes;
	int code;
	const char *text;
} bad_rows[] = {
	{ LITERAL("0000:000001:b08268:00000000000000000000ffffc0000202\0"), false, EPROTO,
	  "names QPN 1" },
	{ LITERAL("0000:000011:b08268:00000000000000000000000000000000\0"), false, EPROTO,
	  "has no GID, expected one for RoCE: start it with -g" },
	{ LITERAL("0000:000011:b08268:00000000000000000000ffffc000020g\0"), false, EPROTO,
	  "is it ibv_rc_pingpong?" },
	{ LITERAL("0000:000011:b08268:00000000000000000000ffffc0000202 "), false, EPROTO,
	  "is it ibv_rc_pingpong?" },
	{ LITERAL("0000:000011.b08268:00000000000000000000ffffc0000202\0"), false, EPROTO,
	  "is it ibv_rc_pingpong?" },
	{ LITERAL("6.24"), false, ETIMEDOUT, "did not answer the handshake" },
	{ LITERAL("6.24"), true, ECONNRESET, "closed the connection in the handshake" },
};

Test(pingpong, server_that_is_none)
{
	netns_enter();
	for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
		const struct fake_step steps[] = {
			{ LITERAL(OURS), bad_rows[i].reply, bad_rows[i].length },
		};
		struct fake_server server = { .closes = bad_rows[i].closes };
		int timeout = bad_rows[i].code == ETIMEDOUT ? SHORT_MS : TIMEOUT_MS;
		struct exchange_answer answer = { 0 };
		struct error error = { "" };
		int fd;

		fake_server_start(&server, steps, 1);
		fd = pingpong_connect(FAKE_HOST, FAKE_PORT, TIMEOUT_MS, &error);
		cr_assert_geq(fd, 0, "%s", error.text);
		cr_expect_eq(pingpong_exchange(fd, &offer, &answer, timeout, &error),
			     -bad_rows[i].code, "row %zu", i);
		cr_expect(strstr(error.text, bad_rows[i].text), "row %zu: %s", i, error.text);
		close(fd);
		fake_server_end(&server);
	}
}

Test(pingpong, nobody_listens)
{
	struct error error = { "" };

	netns_enter();
	cr_expect_eq(pingpong_connect(FAKE_HOST, FAKE_PORT, TIMEOUT_MS, &error), -ECONNREFUSED);
	cr_expect(strstr(error.text, "ibv_rc_pingpong"), "%s", error.text);
}
