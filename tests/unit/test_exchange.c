/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "../../user/connect/exchange_message.h"
#include "netns.h"

#define TIMEOUT_MS 2000
#define V4(a, b, c, d) { [10] = 0xff, 0xff, a, b, c, d }

static const struct exchange_offer offer_sample = {
	.name = "détecteur \"7\".raw",
	.ip = V4(10, 77, 0, 1),
	.qpn = 0xffffff,
	.psn = 0xfffff0,
	.uc = true,
	.immediate = true,
	.packet_mode = true,
	.record = true,
	.pmtu = 4096,
	.message_size = 1ULL << 31,
};

static const struct exchange_answer answer_sample = {
	.ip = { 0xfd, 0x77, [15] = 2 },
	.qpn = 2,
	.psn = 0,
	.pmtu = 256,
	.rkey = 0xffffffff,
	.address = 0xffffffffffff0000,
	.slot_size = 1,
	.slot_count = 65536,
};

static void pair(int fds[2])
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static void put_all(int fd, const char *text, size_t length)
{
	cr_assert_eq(send(fd, text, length, MSG_NOSIGNAL), (ssize_t)length);
}

static void expect_offer_equal(const struct exchange_offer *a, const struct exchange_offer *b)
{
	cr_expect_str_eq(a->name, b->name);
	cr_expect_arr_eq(a->ip, b->ip, 16);
	cr_expect_eq(a->qpn, b->qpn);
	cr_expect_eq(a->psn, b->psn);
	cr_expect_eq(a->uc, b->uc);
	cr_expect_eq(a->immediate, b->immediate);
	cr_expect_eq(a->packet_mode, b->packet_mode);
	cr_expect_eq(a->record, b->record);
	cr_expect_eq(a->pmtu, b->pmtu);
	cr_expect_eq(a->message_size, b->message_size);
}

/* All four messages lie in the socket at once: each reader must leave the next one whole. */
Test(exchange, messages_round_trip_back_to_back)
{
	const struct exchange_count done = { UINT64_MAX, 1ULL << 63 }, received = { 0, 1 };
	struct exchange_offer offer;
	struct exchange_answer answer;
	struct exchange_count count;
	struct error error = { "" };
	int fds[2];

	pair(fds);
	cr_assert_eq(exchange_send_offer(fds[0], &offer_sample, &error), 0, "%s", error.text);
	cr_assert_eq(exchange_send_answer(fds[0], &answer_sample, &error), 0, "%s", error.text);
	cr_assert_eq(exchange_send_done(fds[0], &done, &error), 0, "%s", error.text);
	cr_assert_eq(exchange_send_received(fds[0], &received, &error), 0, "%s", error.text);
	close(fds[0]);

	cr_assert_eq(exchange_read_offer(fds[1], &offer, 0, &error), 0, "%s", error.text);
	expect_offer_equal(&offer, &offer_sample);
	cr_assert_eq(exchange_read_answer(fds[1], &answer, 0, &error), 0, "%s", error.text);
	cr_expect_arr_eq(answer.ip, answer_sample.ip, 16);
	cr_expect_eq(answer.qpn, answer_sample.qpn);
	cr_expect_eq(answer.psn, answer_sample.psn);
	cr_expect_eq(answer.pmtu, answer_sample.pmtu);
	cr_expect_eq(answer.rkey, answer_sample.rkey);
	cr_expect_eq(answer.address, answer_sample.address);
	cr_expect_eq(answer.slot_size, answer_sample.slot_size);
	cr_expect_eq(answer.slot_count, answer_sample.slot_count);
	cr_assert_eq(exchange_read_done(fds[1], &count, 0, &error), 0, "%s", error.text);
	cr_expect_eq(count.messages, done.messages);
	cr_expect_eq(count.bytes, done.bytes);
	cr_assert_eq(exchange_read_received(fds[1], &count, 0, &error), 0, "%s", error.text);
	cr_expect_eq(count.bytes, received.bytes);
	cr_expect_eq(exchange_read_done(fds[1], &count, 0, &error), -ECONNRESET);
	close(fds[1]);
}

Test(exchange, name_is_made_printable)
{
	static const struct {
		const char *name, *arrives;
	} rows[] = {
		{ "plain.bin", "plain.bin" },
		{ "a\tb\x1b[2J\x7f", "a?b?[2J?" },
		{ "bad\xff\xc3.", "bad??." }, /* not UTF-8 */
		{ "c1\xc2\x9b", "c1??" },     /* a control character in UTF-8 */
		{ "\xed\xa0\x80", "???" },    /* a surrogate */
		{ "\xe2\x82", "??" },         /* cut short */
		{ "\xf0\x9f\x98\x80 \\ \"", "\xf0\x9f\x98\x80 \\ \"" },
	};
	struct exchange_offer offer = offer_sample, taken;
	struct error error = { "" };
	int fds[2];

	pair(fds);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		strcpy(offer.name, rows[i].name);
		cr_assert_eq(exchange_send_offer(fds[0], &offer, &error), 0);
		cr_assert_eq(exchange_read_offer(fds[1], &taken, 0, &error), 0, "%s: %s",
			     rows[i].name, error.text);
		cr_expect_str_eq(taken.name, rows[i].arrives);
	}
	/* The longest name, of the characters that JSON makes longest. */
	memset(offer.name, '"', EXCHANGE_NAME - 1);
	offer.name[EXCHANGE_NAME - 1] = '\0';
	cr_assert_eq(exchange_send_offer(fds[0], &offer, &error), 0);
	cr_assert_eq(exchange_read_offer(fds[1], &taken, 0, &error), 0, "%s", error.text);
	cr_expect_str_eq(taken.name, offer.name);
}

/* A fixture line with one member replaced: each row is one rule of the header. */
struct member_row {
	const char *member; /* as it stands in the fixture */
	const char *instead;
	const char *says; /* NULL: accepted */
};

static const char offer_line[] = "{\"xdp2roce\":1,\"offer\":{\"name\":\"f\",\"ip\":\"10.0.0.1\","
				 "\"qpn\":17,\"psn\":5,\"transport\":\"rc\","
				 "\"immediate\":false,\"segmentation\":\"message\","
				 "\"record\":false,\"pmtu\":1024,\"message_size\":65536}}";
static const char answer_line[] = "{\"xdp2roce\":1,\"answer\":{\"ip\":\"10.0.0.2\",\"qpn\":17,"
				  "\"psn\":5,\"pmtu\":1024,\"rkey\":1,"
				  "\"address\":4096,\"slot_size\":65536,\"slot_count\":4}}";

static const struct member_row offer_rows[] = {
	{ "\"name\":\"f\"", "\"name\":\"\"",
	  "\"name\": \"\" in its offer, expected 1 to 255 printable" },
	{ "\"name\":\"f\"", "\"name\":7", "\"name\": 7 in its offer" },
	{ "\"name\":\"f\"", "\"name\":\"../etc/passwd\"", "base name" },
	{ "\"name\":\"f\"", "\"name\":\"..\"", "base name" },
	{ "\"name\":\"f\"", "\"name\":\"a\\u0000b\"", "printable" },
	{ "\"name\":\"f\"", "\"name\":\"a\\u001bb\"", "printable" },
	{ "\"name\":\"f\"", "\"name\":\"a\\u009bb\"", "printable" },
	{ "\"name\":\"f\"", "\"name\":\"\xc3\xa9\"", NULL },
	{ "\"name\":\"f\"", "\"name\":\"\\u00e9\"", NULL },
	{ "\"name\":\"f\"", "\"name\":\"\xc3\"", "not an xdp2roce sender" },
	{ "\"name\":\"f\"", "\"name\":\"\\ud800\"", NULL },
	{ "\"psn\":5", "\"psn\":\xc3\xa9", "not an xdp2roce sender" },
	{ "\"name\":\"f\"", "\"name\":\"\xff\"", "not an xdp2roce sender" },
	{ "\"name\":\"f\",", "", "no \"name\" in its offer" },
	{ "10.0.0.1", "10.0.0", "expected a unicast IPv4 or IPv6 address" },
	{ "10.0.0.1", "10.0.0.1\\u0000x", "expected a unicast" },
	{ "10.0.0.1", "0.0.0.0", "expected a unicast" },
	{ "10.0.0.1", "224.0.0.1", "expected a unicast" },
	{ "10.0.0.1", "255.255.255.255", "expected a unicast" },
	{ "10.0.0.1", "::", "expected a unicast" },
	{ "10.0.0.1", "ff02::1", "expected a unicast" },
	{ "10.0.0.1", "example.org", "expected a unicast" },
	{ "10.0.0.1", "fe80::1", NULL },
	{ "10.0.0.1", "::ffff:10.0.0.1", NULL },
	{ "\"ip\":\"10.0.0.1\"", "\"ip\":null", "\"ip\": null in its offer" },
	{ "\"qpn\":17", "\"qpn\":0",
	  "\"qpn\": 0 in its offer, expected an integer from 2 to 16777215" },
	{ "\"qpn\":17", "\"qpn\":1", "\"qpn\": 1 in" },
	{ "\"qpn\":17", "\"qpn\":2", NULL },
	{ "\"qpn\":17", "\"qpn\":16777215", NULL },
	{ "\"qpn\":17", "\"qpn\":16777216", "\"qpn\": 16777216 in" },
	{ "\"qpn\":17", "\"qpn\":-17", "\"qpn\": -17 in" },
	{ "\"qpn\":17", "\"qpn\":17.0", "\"qpn\": 17.0 in" },
	{ "\"qpn\":17", "\"qpn\":\"17\"", "\"qpn\": \"17\" in" },
	{ "\"qpn\":17", "\"qpn\":[17]", "\"qpn\": [17] in" },
	{ "\"qpn\":17", "\"qpn\":true", "\"qpn\": true in" },
	{ "\"qpn\":17", "\"qpn\":4294967313", "\"qpn\": 4294967313 in" },
	{ "\"qpn\":17", "\"qpn\":18446744073709551633", "not an xdp2roce sender" },
	{ "\"qpn\":17,", "", "no \"qpn\" in its offer: use the same version" },
	{ "\"psn\":5", "\"psn\":0", NULL },
	{ "\"psn\":5", "\"psn\":16777216", "\"psn\": 16777216 in" },
	{ "\"rc\"", "\"uc\"", NULL },
	{ "\"rc\"", "\"ud\"", "expected \"rc\" or \"uc\"" },
	{ "\"message\"", "\"packet\"", NULL },
	{ "\"message\"", "\"packets\"",
	  "\"segmentation\": \"packets\" in its offer, expected "
	  "\"message\" or \"packet\"" },
	{ "\"message\"", "\"packet\\u0000\"", "expected \"message\" or \"packet\"" },
	{ "\"message\"", "true", "\"segmentation\": true in its offer" },
	{ "\"segmentation\":\"message\",", "", "no \"segmentation\" in its offer: use the same" },
	{ "\"record\":false", "\"record\":true", NULL },
	{ "\"record\":false", "\"record\":\"on\"", "\"record\": \"on\" in its offer" },
	{ "\"record\":false,", "", "no \"record\" in its offer: use the same version" },
	{ "false", "0", "expected true or false" },
	{ "false", "true", NULL },
	{ "1024", "256", NULL },
	{ "1024", "4096", NULL },
	{ "1024", "128", "expected 256, 512, 1024, 2048 or 4096" },
	{ "1024", "8192", "expected 256, 512, 1024, 2048 or 4096" },
	{ "1024", "1000", "expected 256, 512, 1024, 2048 or 4096" },
	{ "1024", "-1024", "expected 256, 512, 1024, 2048 or 4096" },
	{ "65536", "0", NULL },
	{ "65536", "2147483648", NULL },
	{ "65536", "2147483649", "expected an integer from 0 to 2147483648" },
	/* Unknown members are ignored, deep ones too; of two equal ones the last counts. */
	{ "\"psn\":5", "\"psn\":5,\"new\":{\"a\":[1,2]}", NULL },
	{ "\"psn\":5", "\"psn\":16777216,\"psn\":5", NULL },
	{ "\"psn\":5", "\"psn\":5,\"psn\":16777216", "\"psn\": 16777216 in" },
	{ "\"psn\":5", "\"psn\":5,\"deep\":[[[[[[[[[[1]]]]]]]]]]", "not an xdp2roce sender" },
	/* The envelope. */
	{ "\"xdp2roce\":1", "\"xdp2roce\":2",
	  "speaks xdp2roce exchange version 2, this program version 1: use the same version at "
	  "both ends" },
	{ "\"xdp2roce\":1", "\"xdp2roce\":2,\"error\":\"no\"", "exchange version 2" },
	{ "\"xdp2roce\":1", "\"xdp2roce\":\"1\"", "not an xdp2roce sender" },
	{ "\"xdp2roce\":1,", "", "not an xdp2roce sender" },
	{ "\"offer\"", "\"done\"", "sent something else where its \"offer\" was expected" },
	{ "\"xdp2roce\":1", "\"xdp2roce\":1,\"error\":\"disk\\u001b full\"",
	  "gave up: disk? full" },
	{ "}}", "}", "not an xdp2roce sender" },
	{ "}}", "}}}", "not an xdp2roce sender" },
	{ "}}", "}} x", "not an xdp2roce sender" },
	{ "\"", "'", "not an xdp2roce sender" },
};

static const struct member_row answer_rows[] = {
	{ "\"rkey\":1", "\"rkey\":0", NULL },
	{ "\"rkey\":1", "\"rkey\":4294967295", NULL },
	{ "\"rkey\":1", "\"rkey\":4294967296", "\"rkey\": 4294967296 in its answer" },
	{ "\"rkey\":1", "\"rkey\":-1", "\"rkey\": -1 in" },
	{ "\"address\":4096", "\"address\":9223372036854775808", NULL },
	{ "\"address\":4096", "\"address\":18446744073709289472", NULL }, /* 2^64 - 4 * 65536 */
	{ "\"address\":4096", "\"address\":18446744073709289473", "beyond the end of the 64-bit" },
	{ "\"address\":4096", "\"address\":18446744073709551616", "not an xdp2roce receiver" },
	{ "\"address\":4096", "\"address\":\"0x1000\"", "\"address\": \"0x1000\" in" },
	{ "\"slot_size\":65536", "\"slot_size\":0", "expected an integer from 1 to" },
	{ "\"slot_size\":65536", "\"slot_size\":18446744073709551615",
	  "beyond the end of the 64-bit" },
	{ "\"slot_count\":4", "\"slot_count\":0", "expected an integer from 1 to 65536" },
	{ "\"slot_count\":4", "\"slot_count\":1", NULL },
	{ "\"slot_count\":4", "\"slot_count\":65536", NULL },
	{ "\"slot_count\":4", "\"slot_count\":65537", "\"slot_count\": 65537 in" },
	{ "\"xdp2roce\":1", "\"xdp2roce\":1,\"error\":\"no memory\"",
	  "receiver 10.9.9.9 refused: no memory" },
	{ "\"answer\":{", "\"answer\":[{", "not an xdp2roce receiver" },
};

static void replace(const char *line, const struct member_row *row, char *out, size_t size)
{
	const char *at = strstr(line, row->member);

	cr_assert(at, "the fixture has no %s", row->member);
	snprintf(out, size, "%.*s%s%s", (int)(at - line), line, row->instead,
		 at + strlen(row->member));
}

static void check_row(const struct member_row *row, int rc, const struct error *error)
{
	if (!row->says) {
		cr_expect_eq(rc, 0, "%s: %s", row->instead, error->text);
		return;
	}
	cr_expect(rc == -EPROTO || rc == -EREMOTEIO, "%s -> %s: %d", row->member, row->instead, rc);
	cr_expect(strstr(error->text, row->says), "%s -> %s: \"%s\" lacks \"%s\"", row->member,
		  row->instead, error->text, row->says);
}

Test(exchange, offer_members)
{
	const struct exchange_peer peer = { "sender", "10.9.9.9", "10.9.9.9:4000" };
	char line[1024];

	for (size_t i = 0; i < sizeof(offer_rows) / sizeof(offer_rows[0]); i++) {
		struct exchange_offer offer;
		struct error error = { "" };

		replace(offer_line, &offer_rows[i], line, sizeof(line));
		check_row(&offer_rows[i],
			  exchange_parse_offer(line, strlen(line), &peer, &offer, &error), &error);
	}
}

Test(exchange, answer_members)
{
	const struct exchange_peer peer = { "receiver", "10.9.9.9", "10.9.9.9:18515" };
	char line[1024];

	for (size_t i = 0; i < sizeof(answer_rows) / sizeof(answer_rows[0]); i++) {
		struct exchange_answer answer;
		struct error error = { "" };

		replace(answer_line, &answer_rows[i], line, sizeof(line));
		check_row(&answer_rows[i],
			  exchange_parse_answer(line, strlen(line), &peer, &answer, &error),
			  &error);
	}
}

Test(exchange, refused_message_leaves_the_result_alone)
{
	const struct exchange_peer peer = { "receiver", "h", "h:1" };
	static const char line[] = "{\"xdp2roce\":1,\"done\":{\"messages\":3,\"bytes\":-1}}";
	struct exchange_count count = { 7, 8 };
	struct error error;

	cr_expect_eq(exchange_parse_count(line, strlen(line), &peer, "done", &count, &error),
		     -EPROTO);
	cr_expect_eq(count.messages, 7);
	cr_expect_eq(count.bytes, 8);
}

Test(exchange, answer_against_offer)
{
	struct exchange_offer offer = { .ip = V4(10, 0, 0, 1), .pmtu = 1024, .message_size = 100 };
	struct exchange_answer answer = { .ip = V4(10, 0, 0, 2), .pmtu = 1024, .slot_size = 100 };
	struct error error = { "" };

	cr_expect_eq(exchange_check_answer(&offer, &answer, &error), 0);
	answer.slot_size = 99;
	cr_expect_eq(exchange_check_answer(&offer, &answer, &error), -EMSGSIZE);
	cr_expect(strstr(error.text,
			 "messages of 100 bytes do not fit the receiver's slots of 99: use "
			 "--message-size 99 or a larger --slot-size"));
	offer.record = true;
	answer.slot_size = 163;
	cr_expect_eq(exchange_check_answer(&offer, &answer, &error), -EMSGSIZE);
	cr_expect(strstr(error.text, "messages of 100 bytes and their records of 64 do not fit"));
	answer.slot_size = 164;
	cr_expect_eq(exchange_check_answer(&offer, &answer, &error), 0);
	offer.immediate = true;
	answer.slot_count = 1;
	cr_expect_eq(exchange_check_answer(&offer, &answer, &error), -EPROTO);
	cr_expect(strstr(error.text, "1 slot, expected at least 2"), "%s", error.text);
	answer.slot_count = 2;
	cr_expect_eq(exchange_check_answer(&offer, &answer, &error), 0);
	answer.pmtu = 512;
	cr_expect_eq(exchange_check_answer(&offer, &answer, &error), -EPROTO);
	answer.pmtu = 1024;
	answer.ip[0] = 0xfd;
	cr_expect_eq(exchange_check_answer(&offer, &answer, &error), -EPROTO);
	cr_expect(strstr(error.text, "IPv4 and the receiver's IPv6"), "%s", error.text);
}

/* What arrives instead of an answer; the peer then closes. */
struct bytes_row {
	const char *what;
	const char *bytes;
	size_t length;
	int rc;
	const char *says;
};

#define BYTES(text) text, sizeof(text) - 1
static const struct bytes_row bytes_rows[] = {
	{ "HTTP", BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), -EPROTO,
	  "is not an xdp2roce receiver" },
	{ "TLS alert, no newline", BYTES("\x15\x03\x01\x00\x02\x02\x46"), -EPROTO,
	  "is not an xdp2roce receiver" },
	{ "ssh", BYTES("SSH-2.0-x\r\n"), -EPROTO, "is not an xdp2roce receiver" },
	{ "empty line", BYTES("\n"), -EPROTO, "is not an xdp2roce receiver" },
	{ "other JSON", BYTES("{\"jsonrpc\":\"2.0\"}\n"), -EPROTO, "is not an xdp2roce receiver" },
	{ "JSON, no object", BYTES("[1]\n"), -EPROTO, "is not an xdp2roce receiver" },
	{ "NUL inside", BYTES("{\"xdp2roce\":1,\"error\":\"x\"}\0\n"), -EPROTO,
	  "is not an xdp2roce receiver" },
	{ "NULs", BYTES("\0\0\0\0\n"), -EPROTO, "is not an xdp2roce receiver" },
	{ "nothing", BYTES(""), -ECONNRESET, "closed the connection before its answer" },
	{ "half a line", BYTES("{\"xdp2roce\":1,\"ans"), -ECONNRESET,
	  "closed the connection before its answer" },
	{ "refusal", BYTES("{\"xdp2roce\":1,\"error\":\"PMTU 4096 needs MTU 4200\"}\n"), -EREMOTEIO,
	  "refused: PMTU 4096 needs MTU 4200" },
	{ "error of a wrong type", BYTES("{\"xdp2roce\":1,\"error\":5}\n"), -EPROTO,
	  "sent something else" },
	{ "future version", BYTES("{\"xdp2roce\":18446744073709551615}\n"), -EPROTO,
	  "exchange version" },
};

Test(exchange, foreign_and_broken_peers)
{
	for (size_t i = 0; i < sizeof(bytes_rows) / sizeof(bytes_rows[0]); i++) {
		const struct bytes_row *row = &bytes_rows[i];
		struct exchange_answer answer;
		struct error error = { "" };
		int fds[2], rc;

		pair(fds);
		put_all(fds[0], row->bytes, row->length);
		close(fds[0]);
		rc = exchange_read_answer(fds[1], &answer, TIMEOUT_MS, &error);
		cr_expect_eq(rc, row->rc, "%s: %d %s", row->what, rc, error.text);
		cr_expect(strstr(error.text, row->says), "%s: %s", row->what, error.text);
		close(fds[1]);
	}
}

/* Noticed at the first byte: the peer neither ends its line nor closes. */
Test(exchange, foreign_peer_is_not_waited_for)
{
	struct exchange_answer answer;
	struct error error = { "" };
	int fds[2];

	pair(fds);
	put_all(fds[0], "220 mail", 8);
	cr_expect_eq(exchange_read_answer(fds[1], &answer, -1, &error), -EPROTO, "%s", error.text);
}

static void *write_megabyte(void *data)
{
	static char text[1 << 20];
	int fd = *(int *)data;

	memset(text, ' ', sizeof(text));
	text[0] = '{';
	for (size_t sent = 0; sent < sizeof(text);) {
		ssize_t n = send(fd, text + sent, sizeof(text) - sent, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		sent += (size_t)n;
	}
	return NULL;
}

Test(exchange, line_without_an_end)
{
	struct exchange_offer offer;
	struct error error = { "" };
	pthread_t thread;
	int fds[2];

	pair(fds);
	cr_assert_eq(pthread_create(&thread, NULL, write_megabyte, &fds[0]), 0);
	cr_expect_eq(exchange_read_offer(fds[1], &offer, TIMEOUT_MS, &error), -EPROTO);
	cr_expect(strstr(error.text, "longer than 4096 bytes"), "%s", error.text);
	close(fds[1]);
	pthread_join(thread, NULL);
}

/* A line of exactly EXCHANGE_LINE bytes with its newline is taken, one more is not. */
Test(exchange, longest_line)
{
	static char line[EXCHANGE_LINE + 1];

	for (int extra = 0; extra < 2; extra++) {
		size_t length = (size_t)(EXCHANGE_LINE + extra), used = sizeof(offer_line) - 1;
		struct exchange_offer offer;
		struct error error = { "" };
		int fds[2];

		memset(line, ' ', length);
		memcpy(line, offer_line, used);
		line[length - 1] = '\n';
		pair(fds);
		put_all(fds[0], line, length);
		cr_expect_eq(exchange_read_offer(fds[1], &offer, TIMEOUT_MS, &error),
			     extra ? -EPROTO : 0, "%s", error.text);
		close(fds[0]);
		close(fds[1]);
	}
}

struct dripper {
	int fd;
	const char *text;
	int pause_ms;
};

static void *drip(void *data)
{
	const struct dripper *dripper = data;
	struct timespec pause = { .tv_nsec = dripper->pause_ms * 1000000L };

	for (const char *byte = dripper->text; *byte; byte++) {
		if (send(dripper->fd, byte, 1, MSG_NOSIGNAL) != 1)
			break;
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static const char count_line[] = "{\"xdp2roce\":1,\"done\":{\"messages\":3,\"bytes\":70}}\n"
				 "{\"xdp2roce\":1,\"received\":{\"messages\":4,\"bytes\":71}}\n";

Test(exchange, byte_by_byte)
{
	struct dripper dripper = { .text = count_line, .pause_ms = 1 };
	struct exchange_count count = { 0 };
	struct error error = { "" };
	pthread_t thread;
	int fds[2];

	pair(fds);
	dripper.fd = fds[0];
	cr_assert_eq(pthread_create(&thread, NULL, drip, &dripper), 0);
	cr_expect_eq(exchange_read_done(fds[1], &count, TIMEOUT_MS, &error), 0, "%s", error.text);
	cr_expect_eq(count.bytes, 70);
	cr_expect_eq(exchange_read_received(fds[1], &count, TIMEOUT_MS, &error), 0, "%s",
		     error.text);
	cr_expect_eq(count.bytes, 71);
	pthread_join(thread, NULL);
}

/* The timeout is for the whole line, not for each byte. */
Test(exchange, slow_peer_hits_the_timeout)
{
	struct dripper dripper = { .text = count_line, .pause_ms = 10 };
	struct exchange_count count;
	struct error error = { "" };
	pthread_t thread;
	int fds[2];

	pair(fds);
	dripper.fd = fds[0];
	cr_assert_eq(pthread_create(&thread, NULL, drip, &dripper), 0);
	cr_expect_eq(exchange_read_done(fds[1], &count, 100, &error), -ETIMEDOUT);
	cr_expect(strstr(error.text, "sent no last message within 100 ms"), "%s", error.text);
	close(fds[1]);
	pthread_join(thread, NULL);
}

static void on_signal(int signal)
{
	(void)signal;
}

Test(exchange, a_signal_ends_the_wait)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct exchange_count count;
	struct error error = { "" };
	int fds[2];

	pair(fds);
	sigaction(SIGALRM, &action, NULL);
	ualarm(50000, 0);
	cr_expect_eq(exchange_read_done(fds[1], &count, -1, &error), -EINTR);
}

Test(exchange, send_to_a_closed_peer)
{
	const struct exchange_count done = { 1, 2 };
	struct error error = { "" };
	int fds[2];

	/* SIGPIPE would end this process. */
	pair(fds);
	close(fds[1]);
	cr_expect_eq(exchange_send_done(fds[0], &done, &error), -EPIPE);
	cr_expect(strstr(error.text, "it closed the connection"), "%s", error.text);
	exchange_send_error(fds[0], "nobody hears this");
	close(fds[0]);

	/* What it said before it went is worth more than our broken pipe. */
	pair(fds);
	exchange_send_error(fds[1], "disk\nfull");
	close(fds[1]);
	cr_expect_eq(exchange_send_done(fds[0], &done, &error), -EREMOTEIO);
	cr_expect(strstr(error.text, "gave up: disk?full"), "%s", error.text);
}

Test(exchange, longest_error_sentence)
{
	struct exchange_answer answer;
	struct error error = { "" };
	char sentence[10000];
	int fds[2];

	pair(fds);
	memset(sentence, '"', sizeof(sentence));
	sentence[sizeof(sentence) - 1] = '\0';
	exchange_send_error(fds[0], sentence);
	cr_expect_eq(exchange_read_answer(fds[1], &answer, 0, &error), -EREMOTEIO, "%s",
		     error.text);
}

/* TCP, in a namespace of its own. */

static uint16_t port_of(int fd)
{
	struct sockaddr_in6 address;
	socklen_t length = sizeof(address);

	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	return ntohs(address.sin6_port);
}

Test(exchange, tcp_both_families)
{
	static const char *const hosts[] = { "127.0.0.1", "::1" };
	struct error error = { "" };
	int listener;

	netns_enter();
	listener = exchange_listen(NULL, EXCHANGE_PORT, &error);
	cr_assert_geq(listener, 0, "%s", error.text);
	for (size_t i = 0; i < 2; i++) {
		struct exchange_offer offer;
		char peer[64];
		int there, here = exchange_connect(hosts[i], EXCHANGE_PORT, TIMEOUT_MS, &error);

		cr_assert_geq(here, 0, "%s", error.text);
		there = exchange_accept(listener, peer, &error);
		cr_assert_geq(there, 0, "%s", error.text);
		cr_expect_str_eq(peer, hosts[i]);
		cr_assert_eq(exchange_send_offer(here, &offer_sample, &error), 0, "%s", error.text);
		cr_assert_eq(exchange_read_offer(there, &offer, TIMEOUT_MS, &error), 0, "%s",
			     error.text);
		expect_offer_equal(&offer, &offer_sample);
		cr_expect_eq(exchange_read_offer(there, &offer, 20, &error), -ETIMEDOUT);
		close(here);
		cr_expect_eq(exchange_read_offer(there, &offer, TIMEOUT_MS, &error), -ECONNRESET);
		close(there);
	}
	close(listener);
	/* Connections of the last run still linger: the port must be free for the next one. */
	listener = exchange_listen("127.0.0.1", EXCHANGE_PORT, &error);
	cr_expect_geq(listener, 0, "%s", error.text);
}

Test(exchange, tcp_names_the_peer)
{
	struct exchange_answer answer;
	struct error error = { "" };
	char peer[64], says[160];
	int listener, here, there;

	netns_enter();
	listener = exchange_listen("127.0.0.1", 0, &error);
	cr_assert_geq(listener, 0, "%s", error.text);
	here = exchange_connect("127.0.0.1", port_of(listener), TIMEOUT_MS, &error);
	there = exchange_accept(listener, peer, &error);
	put_all(there, "hello\n", 6);
	cr_expect_eq(exchange_read_answer(here, &answer, TIMEOUT_MS, &error), -EPROTO);
	snprintf(says, sizeof(says), "what answers at 127.0.0.1:%u is not an xdp2roce receiver",
		 port_of(listener));
	cr_expect(strstr(error.text, says) == error.text, "%s", error.text);
	put_all(there, "{\"xdp2roce\":2}\n", 15);
	cr_expect_eq(exchange_read_answer(here, &answer, TIMEOUT_MS, &error), -EPROTO);
	cr_expect_str_eq(
		error.text,
		"127.0.0.1 speaks xdp2roce exchange version 2, this program version 1: use "
		"the same version at both ends");
}

Test(exchange, tcp_connection_refused)
{
	struct error error = { "" };

	netns_enter();
	cr_expect_eq(exchange_connect("127.0.0.1", 18515, TIMEOUT_MS, &error), -ECONNREFUSED);
	cr_expect_str_eq(
		error.text,
		"nothing listens at 127.0.0.1:18515: start `xdp2roce recv --soft --listen …` "
		"there");
	cr_expect_eq(exchange_connect("::1", 18515, TIMEOUT_MS, &error), -ECONNREFUSED);
	cr_expect(strstr(error.text, "nothing listens at [::1]:18515"), "%s", error.text);
}

Test(exchange, tcp_host_that_is_silent_or_unknown)
{
	struct error error = { "" };
	pid_t far = netns_pair();

	netns_run("ip neighbour add 10.77.0.66 lladdr 02:00:00:00:00:66 nud permanent "
		  "dev " NETNS_NEAR);
	cr_expect_eq(exchange_connect("10.77.0.66", 18515, 150, &error), -ETIMEDOUT);
	cr_expect(strstr(error.text, "10.77.0.66:18515 did not answer within 15"), "%s",
		  error.text);
	cr_expect_eq(exchange_connect("192.0.2.1", 18515, 150, &error), -ENETUNREACH);
	cr_expect(strstr(error.text, "no route to 192.0.2.1:18515"), "%s", error.text);
	cr_expect_eq(exchange_connect("no such host", 18515, 150, &error), -ENOENT);
	cr_expect(strstr(error.text, "host no such host is not known"), "%s", error.text);
	netns_end(far);
}

Test(exchange, tcp_listen_failures)
{
	struct error error = { "" };

	netns_enter();
	cr_expect_eq(exchange_listen("192.0.2.1", 18515, &error), -EADDRNOTAVAIL);
	cr_expect(strstr(error.text, "192.0.2.1 is not an address of this machine"), "%s",
		  error.text);
	cr_assert_geq(exchange_listen(NULL, 18515, &error), 0);
	cr_expect_eq(exchange_listen("127.0.0.1", 18515, &error), -EADDRINUSE);
	cr_expect(strstr(error.text, "127.0.0.1:18515 is in use"), "%s", error.text);
	cr_expect_eq(exchange_listen(NULL, 18515, &error), -EADDRINUSE);
}

Test(exchange, tcp_listens_without_ipv6)
{
	struct error error = { "" };
	char peer[64];
	int listener, here;

	netns_enter();
	netns_run(
		"test ! -d /proc/sys/net/ipv6 || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6");
	listener = exchange_listen(NULL, 18515, &error);
	cr_assert_geq(listener, 0, "%s", error.text);
	here = exchange_connect("127.0.0.1", 18515, TIMEOUT_MS, &error);
	cr_assert_geq(here, 0, "%s", error.text);
	cr_assert_geq(exchange_accept(listener, peer, &error), 0);
	cr_expect_str_eq(peer, "127.0.0.1");
}
