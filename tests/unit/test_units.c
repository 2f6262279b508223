/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "../../user/cli/units.h"

#define UNTOUCHED 0xDEADBEEFull

struct row {
	const char *text;
	int rc;
	uint64_t value;
};

typedef int parser(const char *text, uint64_t *value, struct error *error);

static int percent(const char *text, uint64_t *value, struct error *error)
{
	uint32_t parts = (uint32_t)*value;
	int rc = parse_percent(text, &parts, error);

	*value = parts;
	return rc;
}

static void check(parser *parse, const struct row *rows, size_t count)
{
	for (const struct row *row = rows; row < rows + count; row++) {
		struct error error = { "" };
		uint64_t value = UNTOUCHED;
		int rc = parse(row->text, &value, &error);

		cr_expect_eq(rc, row->rc, "'%s': %d, expected %d", row->text, rc, row->rc);
		cr_expect_eq(value, row->rc ? UNTOUCHED : row->value, "'%s': %llu", row->text,
			     (unsigned long long)value);
		cr_expect_eq(!error.text[0], !row->rc, "'%s': '%s'", row->text, error.text);
	}
}

#define CHECK(parse, rows) check(parse, rows, sizeof(rows) / sizeof(rows[0]))

Test(units, size)
{
	static const struct row rows[] = {
		{ "0", 0, 0 },
		{ "4096", 0, 4096 },
		{ "1B", 0, 1 },
		{ "4K", 0, 4096 },
		{ "4KiB", 0, 4096 },
		{ "4kB", 0, 4000 },
		{ "4MiB", 0, 4 << 20 },
		{ "4MB", 0, 4000000 },
		{ "1.5GiB", 0, 1610612736 },
		{ "2TiB", 0, 2ull << 40 },
		{ "3TB", 0, 3000000000000 },
		{ "0.5K", 0, 512 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "16777216TiB", -ERANGE, 0 },
		{ "0.3", -EINVAL, 0 },
		{ "0.3K", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "KiB", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "1 KiB", -EINVAL, 0 },
		{ "1kib", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 },
		{ ".5K", -EINVAL, 0 },
		{ "1.2.3K", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1ms", -EINVAL, 0 },
	};

	CHECK(parse_size, rows);
}

Test(units, duration)
{
	static const struct row rows[] = {
		{ "0", 0, 0 },
		{ "0s", 0, 0 },
		{ "7ns", 0, 7 },
		{ "500us", 0, 500000 },
		{ "500µs", 0, 500000 },
		{ "20ms", 0, 20000000 },
		{ "1.5s", 0, 1500000000 },
		{ "2min", 0, 120000000000 },
		{ "1h", 0, 3600000000000 },
		{ "20", -EINVAL, 0 },
		{ "20m", -EINVAL, 0 },
		{ "0.5ns", -EINVAL, 0 },
		{ "-1ms", -EINVAL, 0 },
		{ "9999999h", -ERANGE, 0 },
	};

	CHECK(parse_duration, rows);
}

Test(units, percent)
{
	static const struct row rows[] = {
		{ "0%", 0, 0 },
		{ "1%", 0, 10000000 },
		{ "0.05%", 0, 500000 },
		{ "100%", 0, PARSE_PERCENT_WHOLE },
		{ "100.1%", -ERANGE, 0 },
		{ "101%", -ERANGE, 0 },
		{ "1", -EINVAL, 0 },
		{ "%", -EINVAL, 0 },
		{ "-1%", -EINVAL, 0 },
		{ "1%%", -EINVAL, 0 },
		{ "0.00000001%", -EINVAL, 0 },
	};

	CHECK(percent, rows);
}

static int two_to_thirty_one(const char *text, uint64_t *value, struct error *error)
{
	return parse_number(text, "the code", 2, 31, value, error);
}

Test(units, number)
{
	static const struct row rows[] = {
		{ "2", 0, 2 },
		{ "31", 0, 31 },
		{ "0x1f", 0, 31 },
		{ "010", 0, 10 },
		{ "1", -ERANGE, 0 },
		{ "32", -ERANGE, 0 },
		{ "99999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "0x", -EINVAL, 0 },
		{ "0x-5", -EINVAL, 0 },
		{ "-5", -EINVAL, 0 },
		{ "5K", -EINVAL, 0 },
	};

	CHECK(two_to_thirty_one, rows);
}
