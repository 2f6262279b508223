/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <netinet/in.h>
#include <string.h>

#include <xdp2roce/roce.h>
#include <xdp2roce/xdp2roce.h>

#include "exchange_message.h"
#include "exchange_text.h"

#define MEMBER_VERSION "xdp2roce"
#define JSON_DEPTH                                                                                 \
	8 /* our own messages need 3; the rest is for members that we do not know yet              \
	   */

static bool is_mapped(const uint8_t ip[16])
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)ip);
}

/* Formatting: a missing piece is remembered by `whole`, and checked once at the end. */

struct body {
	struct json_object *object;
	bool whole;
};

static struct body body_new(void)
{
	struct json_object *object = json_object_new_object();

	return (struct body){ object, object != NULL };
}

static void put(struct body *body, const char *key, struct json_object *value)
{
	if (body->object && value && !json_object_object_add(body->object, key, value))
		return;
	json_object_put(value);
	body->whole = false;
}

static void put_number(struct body *body, const char *key, uint64_t value)
{
	put(body, key, json_object_new_uint64(value));
}

static void put_ip(struct body *body, const uint8_t ip[16])
{
	char text[INET6_ADDRSTRLEN] = "";

	if (is_mapped(ip))
		inet_ntop(AF_INET, ip + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, ip, text, sizeof(text));
	put(body, "ip", json_object_new_string(text));
}

/* Takes the content. */
static int format_line(char line[EXCHANGE_LINE], const char *kind, struct json_object *content,
		       bool whole)
{
	struct body message = body_new();
	const char *text = NULL;
	size_t length = 0;
	int rc = -ENOMEM;

	put_number(&message, MEMBER_VERSION, EXCHANGE_VERSION);
	put(&message, kind, content);
	if (message.whole && whole)
		text = json_object_to_json_string_length(message.object,
							 JSON_C_TO_STRING_PLAIN |
								 JSON_C_TO_STRING_NOSLASHESCAPE,
							 &length);
	if (text && length + 1 > EXCHANGE_LINE) {
		rc = -EMSGSIZE;
	} else if (text) {
		memcpy(line, text, length);
		line[length] = '\n';
		rc = (int)length + 1;
	}
	json_object_put(message.object);
	return rc;
}

int exchange_format_offer(char line[EXCHANGE_LINE], const struct exchange_offer *offer)
{
	struct body body = body_new();
	char name[EXCHANGE_NAME];

	exchange_copy_printable(name, sizeof(name), offer->name);
	put(&body, "name", json_object_new_string(name));
	put_ip(&body, offer->ip);
	put_number(&body, "qpn", offer->qpn);
	put_number(&body, "psn", offer->psn);
	put(&body, "transport", json_object_new_string(offer->uc ? "uc" : "rc"));
	put(&body, "immediate", json_object_new_boolean(offer->immediate));
	put(&body, "segmentation",
	    json_object_new_string(offer->packet_mode ? "packet" : "message"));
	put(&body, "record", json_object_new_boolean(offer->record));
	put_number(&body, "pmtu", offer->pmtu);
	put_number(&body, "message_size", offer->message_size);
	return format_line(line, "offer", body.object, body.whole);
}

int exchange_format_answer(char line[EXCHANGE_LINE], const struct exchange_answer *answer)
{
	struct body body = body_new();

	put_ip(&body, answer->ip);
	put_number(&body, "qpn", answer->qpn);
	put_number(&body, "psn", answer->psn);
	put_number(&body, "pmtu", answer->pmtu);
	put_number(&body, "rkey", answer->rkey);
	put_number(&body, "address", answer->address);
	put_number(&body, "slot_size", answer->slot_size);
	put_number(&body, "slot_count", answer->slot_count);
	return format_line(line, "answer", body.object, body.whole);
}

int exchange_format_count(char line[EXCHANGE_LINE], const char *kind,
			  const struct exchange_count *count)
{
	struct body body = body_new();

	put_number(&body, "messages", count->messages);
	put_number(&body, "bytes", count->bytes);
	return format_line(line, kind, body.object, body.whole);
}

int exchange_format_error(char line[EXCHANGE_LINE], const char *sentence)
{
	char text[sizeof(((struct error *)0)->text)];

	exchange_copy_printable(text, sizeof(text), sentence);
	return format_line(line, "error", json_object_new_string(text), true);
}

/* Parsing: the first fault is kept in `rc` and its sentence; what follows it is not looked at. */

struct parser {
	const struct exchange_peer *peer;
	const char *kind; /* "offer", "answer", … */
	struct json_object *message;
	struct json_object *body;
	struct error *error;
	int rc;
};

int exchange_foreign(const struct exchange_peer *peer, struct error *error)
{
	if (!strcmp(peer->role, "receiver"))
		return error_set(
			error, EPROTO,
			"what answers at %s is not an xdp2roce receiver: check host and port",
			peer->endpoint);
	return error_set(error, EPROTO, "what connected from %s is not an xdp2roce sender",
			 peer->endpoint);
}

static struct json_object *parse_json(const char *line, size_t length)
{
	char escaped[EXCHANGE_ESCAPED];
	size_t size = exchange_escape(escaped, line, length);
	struct json_tokener *tokener = size ? json_tokener_new_ex(JSON_DEPTH) : NULL;
	struct json_object *object = NULL;

	if (!tokener)
		return NULL;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	object = json_tokener_parse_ex(tokener, escaped, (int)size);
	if (json_tokener_get_error(tokener) != json_tokener_success) {
		json_object_put(object);
		object = NULL;
	}
	json_tokener_free(tokener);
	return object;
}

static int refused_by_peer(const struct parser *parser, struct json_object *reason)
{
	char text[384];
	const char *verb = strcmp(parser->kind, "answer") ? "gave up" : "refused";

	exchange_copy_printable(text, sizeof(text), json_object_get_string(reason));
	return error_set(parser->error, EREMOTEIO, "%s %s %s: %s", parser->peer->role,
			 parser->peer->host, verb, text);
}

/* Checks the envelope: version first, since nothing else has a meaning before it. */
static int open_message(struct parser *parser, const char *line, size_t length)
{
	struct json_object *version = NULL, *reason = NULL;
	int64_t number;

	parser->message = parse_json(line, length);
	if (!json_object_is_type(parser->message, json_type_object) ||
	    !json_object_object_get_ex(parser->message, MEMBER_VERSION, &version) ||
	    !json_object_is_type(version, json_type_int))
		return exchange_foreign(parser->peer, parser->error);
	number = json_object_get_int64(version);
	if (number != EXCHANGE_VERSION)
		return error_set(parser->error, EPROTO,
				 "%s speaks xdp2roce exchange version %" PRId64
				 ", this program version %d: use the same version at both ends",
				 parser->peer->host, number, EXCHANGE_VERSION);
	if (json_object_object_get_ex(parser->message, "error", &reason) &&
	    json_object_is_type(reason, json_type_string))
		return refused_by_peer(parser, reason);
	if (!json_object_object_get_ex(parser->message, parser->kind, &parser->body) ||
	    !json_object_is_type(parser->body, json_type_object))
		return error_set(parser->error, EPROTO,
				 "%s %s sent something else where its \"%s\" was expected: use the "
				 "same version at both ends",
				 parser->peer->role, parser->peer->host, parser->kind);
	return 0;
}

static struct parser parser_open(const char *line, size_t length, const struct exchange_peer *peer,
				 const char *kind, struct error *error)
{
	struct parser parser = { .peer = peer, .kind = kind, .error = error };

	parser.rc = open_message(&parser, line, length);
	return parser;
}

static int parser_close(struct parser *parser)
{
	json_object_put(parser->message);
	return parser->rc;
}

/* `found` is shown as JSON, cut short, so that a string "1" and a number 1 can be told apart. */
static void refuse(struct parser *parser, const char *key, struct json_object *found,
		   const char *expected)
{
	char text[64];

	exchange_copy_printable(text, sizeof(text),
				json_object_to_json_string_ext(found, JSON_C_TO_STRING_PLAIN));
	parser->rc = error_set(parser->error, EPROTO,
			       "%s %s sent \"%s\": %s in its %s, expected %s", parser->peer->role,
			       parser->peer->host, key, text, parser->kind, expected);
}

/* The member, or NULL after a fault, this one or an earlier one. */
static struct json_object *member(struct parser *parser, const char *key, enum json_type type,
				  const char *expected)
{
	struct json_object *value = NULL;

	if (parser->rc)
		return NULL;
	if (!json_object_object_get_ex(parser->body, key, &value)) {
		parser->rc = error_set(
			parser->error, EPROTO,
			"%s %s sent no \"%s\" in its %s: use the same version at both ends",
			parser->peer->role, parser->peer->host, key, parser->kind);
		return NULL;
	}
	if (json_object_is_type(value, type))
		return value;
	refuse(parser, key, value, expected);
	return NULL;
}

static uint64_t take_number(struct parser *parser, const char *key, uint64_t min, uint64_t max)
{
	struct json_object *value;
	char expected[80];
	uint64_t number;

	snprintf(expected, sizeof(expected), "an integer from %" PRIu64 " to %" PRIu64, min, max);
	value = member(parser, key, json_type_int, expected);
	if (!value)
		return 0;
	number = json_object_get_uint64(value); /* 0 for a negative one */
	if (json_object_get_int64(value) >= 0 && number >= min && number <= max)
		return number;
	refuse(parser, key, value, expected);
	return 0;
}

static uint32_t take_qpn(struct parser *parser)
{
	return (uint32_t)take_number(parser, "qpn", 2, ROCE_PSN_MASK);
}

static uint32_t take_psn(struct parser *parser)
{
	return (uint32_t)take_number(parser, "psn", 0, ROCE_PSN_MASK);
}

static uint32_t take_pmtu(struct parser *parser)
{
	static const char expected[] = "256, 512, 1024, 2048 or 4096";
	struct json_object *value = member(parser, "pmtu", json_type_int, expected);
	int64_t pmtu;

	if (!value)
		return 0;
	pmtu = json_object_get_int64(value);
	if (pmtu >= 256 && pmtu <= 4096 && !(pmtu & (pmtu - 1)))
		return (uint32_t)pmtu;
	refuse(parser, "pmtu", value, expected);
	return 0;
}

static bool take_flag(struct parser *parser, const char *key)
{
	struct json_object *value = member(parser, key, json_type_boolean, "true or false");

	return value && json_object_get_boolean(value);
}

/* A string may hold a NUL and go on behind it. */
static bool is_word(struct json_object *value, const char *word)
{
	return (size_t)json_object_get_string_len(value) == strlen(word) &&
	       !memcmp(json_object_get_string(value), word, strlen(word));
}

/* One of two words: is it the second? */
static bool take_choice(struct parser *parser, const char *key, const char *no, const char *yes)
{
	struct json_object *value;
	char expected[48];

	snprintf(expected, sizeof(expected), "\"%s\" or \"%s\"", no, yes);
	value = member(parser, key, json_type_string, expected);
	if (!value)
		return false;
	if (is_word(value, yes))
		return true;
	if (!is_word(value, no))
		refuse(parser, key, value, expected);
	return false;
}

/* Only a unicast address can be an end of a queue pair. */
static bool parse_ip(const char *text, uint8_t ip[16])
{
	struct in6_addr v6 = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
	uint32_t v4;

	if (inet_pton(AF_INET, text, v6.s6_addr + 12) != 1 && inet_pton(AF_INET6, text, &v6) != 1)
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&v6)) {
		v4 = ntohl(v6.s6_addr32[3]);
		if (v4 >> 24 == 0 || v4 >> 28 >= 0xe)
			return false;
	} else if (IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_IS_ADDR_MULTICAST(&v6)) {
		return false;
	}
	memcpy(ip, &v6, 16);
	return true;
}

static void take_ip(struct parser *parser, uint8_t ip[16])
{
	static const char expected[] = "a unicast IPv4 or IPv6 address";
	struct json_object *value = member(parser, "ip", json_type_string, expected);

	/* inet_pton stops at a NUL that the string itself may contain. */
	if (value &&
	    (strlen(json_object_get_string(value)) != (size_t)json_object_get_string_len(value) ||
	     !parse_ip(json_object_get_string(value), ip)))
		refuse(parser, "ip", value, expected);
}

/* A receiver may show the name and may make a file of it. */
static void take_name(struct parser *parser, char name[EXCHANGE_NAME])
{
	static const char expected[] = "1 to 255 printable bytes, a file's base name";
	struct json_object *value = member(parser, "name", json_type_string, expected);
	const char *text;
	size_t length;

	if (!value)
		return;
	text = json_object_get_string(value);
	length = (size_t)json_object_get_string_len(value);
	exchange_copy_printable(name, EXCHANGE_NAME, text);
	/* What changed by copying was not printable, too long, or had a NUL inside. */
	if (length && length == strlen(name) && !memcmp(name, text, length) && !strchr(name, '/') &&
	    strcmp(name, ".") && strcmp(name, ".."))
		return;
	refuse(parser, "name", value, expected);
}

int exchange_parse_offer(const char *line, size_t length, const struct exchange_peer *peer,
			 struct exchange_offer *offer, struct error *error)
{
	struct parser parser = parser_open(line, length, peer, "offer", error);
	struct exchange_offer taken = { 0 };

	take_name(&parser, taken.name);
	take_ip(&parser, taken.ip);
	taken.qpn = take_qpn(&parser);
	taken.psn = take_psn(&parser);
	taken.uc = take_choice(&parser, "transport", "rc", "uc");
	taken.immediate = take_flag(&parser, "immediate");
	taken.packet_mode = take_choice(&parser, "segmentation", "message", "packet");
	taken.record = take_flag(&parser, "record");
	taken.pmtu = take_pmtu(&parser);
	taken.message_size = take_number(&parser, "message_size", 0, ROCE_MAX_MESSAGE);
	if (!parser.rc)
		*offer = taken;
	return parser_close(&parser);
}

int exchange_parse_answer(const char *line, size_t length, const struct exchange_peer *peer,
			  struct exchange_answer *answer, struct error *error)
{
	struct parser parser = parser_open(line, length, peer, "answer", error);
	struct exchange_answer taken = { 0 };
	uint64_t bytes, end;

	take_ip(&parser, taken.ip);
	taken.qpn = take_qpn(&parser);
	taken.psn = take_psn(&parser);
	taken.pmtu = take_pmtu(&parser);
	taken.rkey = (uint32_t)take_number(&parser, "rkey", 0, UINT32_MAX);
	taken.address = take_number(&parser, "address", 0, UINT64_MAX);
	taken.slot_size = take_number(&parser, "slot_size", 1, UINT64_MAX);
	taken.slot_count = (uint32_t)take_number(&parser, "slot_count", 1, 65536);
	if (!parser.rc && (__builtin_mul_overflow(taken.slot_size, taken.slot_count, &bytes) ||
			   __builtin_add_overflow(taken.address, bytes - 1, &end)))
		parser.rc = error_set(error, EPROTO,
				      "receiver %s sent %u slots of %" PRIu64
				      " bytes at address 0x%" PRIx64
				      " in its answer, beyond the end of the 64-bit address space",
				      peer->host, taken.slot_count, taken.slot_size, taken.address);
	if (!parser.rc)
		*answer = taken;
	return parser_close(&parser);
}

int exchange_parse_count(const char *line, size_t length, const struct exchange_peer *peer,
			 const char *kind, struct exchange_count *count, struct error *error)
{
	struct parser parser = parser_open(line, length, peer, kind, error);
	struct exchange_count taken = { 0 };

	taken.messages = take_number(&parser, "messages", 0, UINT64_MAX);
	taken.bytes = take_number(&parser, "bytes", 0, UINT64_MAX);
	if (!parser.rc)
		*count = taken;
	return parser_close(&parser);
}

uint64_t exchange_slot_needed(const struct exchange_offer *offer)
{
	return offer->message_size + (offer->record ? XDP2ROCE_RECORD_SIZE : 0);
}

static int refuse_slots(const struct exchange_offer *offer, const struct exchange_answer *answer,
			struct error *error)
{
	uint64_t record = exchange_slot_needed(offer) - offer->message_size;
	char smaller[64] = "";

	if (answer->slot_size > record)
		snprintf(smaller, sizeof(smaller), "--message-size %" PRIu64 " or ",
			 answer->slot_size - record);
	return error_set(error, EMSGSIZE,
			 "messages of %" PRIu64
			 " bytes%s do not fit the receiver's slots of %" PRIu64
			 ": use %sa larger --slot-size there",
			 offer->message_size, record ? " and their records of 64" : "",
			 answer->slot_size, smaller);
}

int exchange_check_answer(const struct exchange_offer *offer, const struct exchange_answer *answer,
			  struct error *error)
{
	if (is_mapped(offer->ip) != is_mapped(answer->ip))
		return error_set(error, EPROTO,
				 "the sender's address is IPv%d and the receiver's IPv%d: use one "
				 "family at both ends",
				 is_mapped(offer->ip) ? 4 : 6, is_mapped(answer->ip) ? 4 : 6);
	if (answer->pmtu != offer->pmtu)
		return error_set(error, EPROTO,
				 "the receiver takes PMTU %u, offered was %u: use --pmtu %u",
				 answer->pmtu, offer->pmtu, answer->pmtu);
	if (answer->slot_size < exchange_slot_needed(offer))
		return refuse_slots(offer, answer, error);
	if (offer->immediate && answer->slot_count < 2)
		return error_set(
			error, EPROTO,
			"the receiver has %u slot, expected at least 2: one is always kept back",
			answer->slot_count);
	return 0;
}
