/* SPDX-License-Identifier: BSD-2-Clause */
#include "units.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t factor;
};

/* One kind of quantity: the table of units ends with a name of NULL. */
struct quantity {
	const char *what;
	const char *example;
	const struct unit *units;
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "K", 1ull << 10 },
	{ "M", 1ull << 20 },
	{ "G", 1ull << 30 },
	{ "T", 1ull << 40 },
	{ "KiB", 1ull << 10 },
	{ "MiB", 1ull << 20 },
	{ "GiB", 1ull << 30 },
	{ "TiB", 1ull << 40 },
	{ "kB", 1000 },
	{ "MB", 1000000 },
	{ "GB", 1000000000 },
	{ "TB", 1000000000000 },
	{ NULL, 0 },
};

static const struct unit duration_units[] = {
	{ "ns", 1 },         { "us", 1000 },         { "µs", 1000 },         { "ms", 1000000 },
	{ "s", 1000000000 }, { "min", 60000000000 }, { "h", 3600000000000 }, { NULL, 0 },
};

static const struct unit percent_units[] = {
	{ "%", PARSE_PERCENT_WHOLE / 100 },
	{ NULL, 0 },
};

static const struct quantity size_quantity = { "a size", "4096, 64KiB or 4MiB", size_units };
static const struct quantity duration_quantity = { "a time", "500us, 20ms or 2s", duration_units };
static const struct quantity percent_quantity = { "a percentage", "1% or 0.05%", percent_units };

/* The digits of text as one number, and 10 to the power of those after the point. */
static int parse_decimal(const char **text, uint64_t *digits, uint64_t *scale)
{
	const char *at = *text;

	*digits = 0;
	*scale = 1;
	if (!isdigit((unsigned char)*at))
		return -EINVAL;
	for (bool fraction = false;; at++) {
		if (*at == '.' && !fraction && isdigit((unsigned char)at[1])) {
			fraction = true;
			continue;
		}
		if (!isdigit((unsigned char)*at))
			break;
		if (__builtin_mul_overflow(*digits, 10, digits) ||
		    __builtin_add_overflow(*digits, (uint64_t)(*at - '0'), digits) ||
		    (fraction && __builtin_mul_overflow(*scale, 10, scale)))
			return -ERANGE;
	}
	*text = at;
	return 0;
}

static const struct unit *find_unit(const struct unit *units, const char *name)
{
	for (; units->name; units++)
		if (!strcmp(units->name, name))
			return units;
	return NULL;
}

static int parse_quantity(const char *text, const struct quantity *quantity, uint64_t *result,
			  struct error *error)
{
	static const struct unit no_unit = { "", 1 };
	const struct unit *unit;
	const char *at = text;
	uint64_t digits, scale, value;
	int rc = parse_decimal(&at, &digits, &scale);

	if (rc == -ERANGE)
		return error_set(error, ERANGE, "'%s' has too many digits for %s", text,
				 quantity->what);
	unit = rc ? NULL : find_unit(quantity->units, at);
	if (!unit && !rc && !digits && !*at)
		unit = &no_unit;
	if (!unit)
		return error_set(error, EINVAL,
				 "'%s' is not %s: write a number and a unit, such as %s", text,
				 quantity->what, quantity->example);
	if (__builtin_mul_overflow(digits, unit->factor, &value))
		return error_set(error, ERANGE, "'%s' is too large for %s", text, quantity->what);
	if (value % scale)
		return error_set(error, EINVAL, "'%s' is finer than %s can be", text,
				 quantity->what);
	*result = value / scale;
	return 0;
}

int parse_size(const char *text, uint64_t *bytes, struct error *error)
{
	return parse_quantity(text, &size_quantity, bytes, error);
}

int parse_duration(const char *text, uint64_t *nanoseconds, struct error *error)
{
	return parse_quantity(text, &duration_quantity, nanoseconds, error);
}

int parse_percent(const char *text, uint32_t *parts, struct error *error)
{
	uint64_t value = 0;
	int rc = parse_quantity(text, &percent_quantity, &value, error);

	if (rc)
		return rc;
	if (value > PARSE_PERCENT_WHOLE)
		return error_set(error, ERANGE, "'%s' is more than 100%%", text);
	*parts = (uint32_t)value;
	return 0;
}

int parse_number(const char *text, const char *what, uint64_t lowest, uint64_t highest,
		 uint64_t *number, struct error *error)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	unsigned char first = (unsigned char)text[hex ? 2 : 0];
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, hex ? 16 : 10);
	if (!(hex ? isxdigit(first) : isdigit(first)) || *end)
		return error_set(error, EINVAL, "%s must be a whole number, not '%s'", what, text);
	if (errno == ERANGE || value < lowest || value > highest)
		return error_set(error, ERANGE, "%s must be from %llu to %llu, not %s", what,
				 (unsigned long long)lowest, (unsigned long long)highest, text);
	*number = value;
	return 0;
}
