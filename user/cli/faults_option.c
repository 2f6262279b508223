/* SPDX-License-Identifier: BSD-2-Clause */
#include "faults_option.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "units.h"

#define ITEM_MAX 64

_Static_assert(PARSE_PERCENT_WHOLE == FAULTS_WHOLE,
	       "percentages go into the configuration as they are");

struct item;
typedef int item_parser(const struct item *item, char *value, struct faults_config *config,
			struct error *error);

struct item {
	const char *name;
	item_parser *parse;
	size_t offset; /* of the member of struct faults_config */
};

static int parse_probability(const struct item *item, char *value, struct faults_config *config,
			     struct error *error)
{
	return parse_percent(value, (uint32_t *)((char *)config + item->offset), error);
}

static int parse_position(const struct item *item, char *value, struct faults_config *config,
			  struct error *error)
{
	struct faults_positions *positions =
		(struct faults_positions *)((char *)config + item->offset);

	if (positions->count == FAULTS_POSITIONS)
		return error_set(error, EINVAL, "at most %d positions of one kind can be given",
				 FAULTS_POSITIONS);
	return parse_number(value, "the position", 1, UINT64_MAX,
			    &positions->position[positions->count++], error);
}

static int parse_delay(const struct item *item, char *value, struct faults_config *config,
		       struct error *error)
{
	char *time = strchr(value, ':');
	int rc;

	if (!time)
		return error_set(error, EINVAL,
				 "a percentage and a time are needed, such as 1%%:3ms");
	*time++ = 0;
	rc = parse_probability(item, value, config, error);
	return rc ? rc : parse_duration(time, &config->delay_ns, error);
}

static int parse_withhold(const struct item *item, char *value, struct faults_config *config,
			  struct error *error)
{
	char *every = strchr(value, ':'), *first = every ? strchr(every + 1, ':') : NULL;
	int rc;

	(void)item;
	if (!every)
		return error_set(error, EINVAL,
				 "a time and a number of messages are needed, such as 20ms:4");
	*every++ = 0;
	if (first)
		*first++ = 0;
	rc = parse_duration(value, &config->withhold_ns, error);
	if (!rc)
		rc = parse_number(every, "the number of messages", 1, UINT64_MAX,
				  &config->withhold_every, error);
	if (rc)
		return rc;
	config->withhold_first = config->withhold_every;
	return first ? parse_number(first, "the first message", 1, UINT64_MAX,
				    &config->withhold_first, error)
		     : 0;
}

#define ITEM(name, parse, member) { name, parse, offsetof(struct faults_config, member) }

static const struct item items[] = {
	ITEM("drop", parse_probability, drop),
	ITEM("duplicate", parse_probability, duplicate),
	ITEM("reorder", parse_probability, reorder),
	ITEM("corrupt", parse_probability, corrupt),
	ITEM("delay", parse_delay, delay),
	ITEM("drop-frame", parse_position, drop_frame),
	ITEM("duplicate-frame", parse_position, duplicate_frame),
	ITEM("reorder-frame", parse_position, reorder_frame),
	ITEM("corrupt-frame", parse_position, corrupt_frame),
	ITEM("delay-frame", parse_position, delay_frame),
	ITEM("drop-replies", parse_probability, drop_replies),
	ITEM("corrupt-replies", parse_probability, corrupt_replies),
	ITEM("drop-reply", parse_position, drop_reply),
	ITEM("corrupt-reply", parse_position, corrupt_reply),
	ITEM("withhold", parse_withhold, withhold_ns),
};

#define ITEMS (sizeof(items) / sizeof(items[0]))

static const struct item *find_item(const char *text)
{
	size_t length = strcspn(text, "=");

	for (size_t i = 0; i < ITEMS; i++)
		if (strlen(items[i].name) == length && !memcmp(items[i].name, text, length))
			return &items[i];
	return NULL;
}

static int parse_item(const char *text, bool *given, struct faults_config *config,
		      struct error *error)
{
	const struct item *item = find_item(text);
	char value[ITEM_MAX];
	struct error cause;

	if (!item || text[strlen(item->name)] != '=')
		return error_set(error, EINVAL,
				 "'%s' in the fault specification is not one of drop, duplicate, "
				 "reorder, corrupt, delay, …-frame, drop-reply, drop-replies, "
				 "corrupt-reply, corrupt-replies, withhold with =VALUE",
				 text);
	if (given[item - items] && item->parse != parse_position)
		return error_set(error, EINVAL, "'%s' in the fault specification is given twice",
				 item->name);
	given[item - items] = true;
	snprintf(value, sizeof(value), "%s", text + strlen(item->name) + 1);
	if (item->parse(item, value, config, &cause))
		return error_set(error, EINVAL, "'%s' in the fault specification: %.380s", text,
				 cause.text);
	return 0;
}

int parse_faults(const char *text, struct faults_config *config, struct error *error)
{
	bool given[ITEMS] = { false };

	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ",");
		char item[ITEM_MAX];
		int rc;

		if (length >= sizeof(item))
			return error_set(error, EINVAL,
					 "'%.20s…' in the fault specification is too long", at);
		memcpy(item, at, length);
		item[length] = 0;
		rc = parse_item(item, given, config, error);
		if (rc)
			return rc;
		at += length;
		if (!*at)
			break;
	}
	if (config->delay_frame.count && !config->delay_ns)
		return error_set(error, EINVAL,
				 "'delay-frame' in the fault specification needs a time: add "
				 "delay=0%%:3ms");
	return 0;
}
