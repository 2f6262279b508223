/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader of the record, against good and hostile ones. */
#include <criterion/criterion.h>
#include <endian.h>
#include <stddef.h>
#include <string.h>

#include <xdp2roce/xdp2roce.h>

#include "../../user/receiver/record.h"

#define SLOT 1024u
#define SLOTS 3u
#define NUMBER 7u /* in slot 1 */

static uint8_t slot[SLOT];

/* Bit by bit, so that the library is not checked with itself. */
static uint32_t crc32c(const uint8_t *bytes, uint64_t length)
{
	uint32_t crc = ~0u;

	for (uint64_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
	}
	return ~crc;
}

static void write_record(uint64_t message, uint64_t length)
{
	struct xdp2roce_record raw = {
		.magic = htole32(XDP2ROCE_RECORD_MAGIC),
		.version = htole16(XDP2ROCE_RECORD_VERSION),
		.flags = htole16(XDP2ROCE_RECORD_SHORT),
		.stream = htole32(0x01020304),
		.message = htole64(message),
		.tai_ns = htole64(1795996800000000000u),
		.length = htole64(length),
		.missing = htole64(2),
	};

	for (uint32_t i = 0; i < SLOT; i++)
		slot[i] = (uint8_t)(i * 11 + i / 256);
	raw.crc = htole32(crc32c(slot, length <= SLOT ? length : 0));
	memcpy(slot + SLOT - sizeof(raw), &raw, sizeof(raw));
}

Test(record, good_ones_are_taken)
{
	const uint64_t lengths[] = { 0, 1, 63, 64, 959, SLOT - XDP2ROCE_RECORD_SIZE };
	struct record record;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		write_record(NUMBER, lengths[i]);
		cr_assert_eq(record_read(&record, slot, SLOT, NUMBER, SLOTS), RECORD_GOOD);
		cr_expect_eq(record_check(&record, slot), RECORD_GOOD, "length %lu", lengths[i]);
		cr_expect_eq(record.length, lengths[i]);
		cr_expect_eq(record.message, NUMBER);
		cr_expect_eq(record.tai_ns, 1795996800000000000u);
		cr_expect_eq(record.stream, 0x01020304);
		cr_expect_eq(record.missing, 2);
		cr_expect(record.short_message);
	}
}

Test(record, crc_is_the_one_of_iscsi)
{
	/* RFC 3720 B.4: 32 bytes of zeros. */
	const uint8_t zeros[32] = { 0 };
	struct record record = { .length = sizeof(zeros), .crc = 0x8A9136AA };

	cr_expect_eq(record_check(&record, zeros), RECORD_GOOD);
	record.crc ^= 1;
	cr_expect_eq(record_check(&record, zeros), RECORD_CRC);
}

/* One field of a good record is overwritten. */
struct row {
	const char *what;
	size_t at, bytes;
	uint64_t value;
	enum record_fault fault;
};

#define FIELD(name)                                                                                \
	offsetof(struct xdp2roce_record, name), sizeof(((struct xdp2roce_record *)0)->name)

Test(record, hostile_ones_are_refused)
{
	static const struct row rows[] = {
		{ "other magic", FIELD(magic), 0x52433259, RECORD_MAGIC },
		{ "magic of the other byte order", FIELD(magic), 0x58324352, RECORD_MAGIC },
		{ "version 0", FIELD(version), 0, RECORD_VERSION },
		{ "version 2", FIELD(version), 2, RECORD_VERSION },
		{ "unknown flag", FIELD(flags), 0x8001, RECORD_VERSION },
		{ "a message before", FIELD(message), NUMBER - 1, RECORD_MESSAGE },
		{ "the slot's next message", FIELD(message), NUMBER + SLOTS, RECORD_MESSAGE },
		{ "other high half, so another slot", FIELD(message), NUMBER + (1ull << 32),
		  RECORD_MESSAGE },
		{ "all ones", FIELD(message), UINT64_MAX, RECORD_MESSAGE },
		{ "one byte too long", FIELD(length), SLOT - 63, RECORD_LENGTH },
		{ "as long as the slot", FIELD(length), SLOT, RECORD_LENGTH },
		{ "longest of all", FIELD(length), UINT64_MAX, RECORD_LENGTH },
		{ "longer by 2^32", FIELD(length), (1ull << 32) + 100, RECORD_LENGTH },
		{ "shorter than its payload", FIELD(length), 99, RECORD_CRC },
		{ "longer than its payload", FIELD(length), 101, RECORD_CRC },
		{ "empty", FIELD(length), 0, RECORD_CRC },
		{ "other CRC", FIELD(crc), 0, RECORD_CRC },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t value = htole64(rows[i].value);
		enum record_fault fault;
		struct record record;

		write_record(NUMBER, 100);
		memcpy(slot + SLOT - XDP2ROCE_RECORD_SIZE + rows[i].at, &value, rows[i].bytes);
		fault = record_read(&record, slot, SLOT, NUMBER, SLOTS);
		if (fault == RECORD_GOOD)
			fault = record_check(&record, slot);
		cr_expect_eq(fault, rows[i].fault, "%s: %s", rows[i].what,
			     record_fault_text(fault));
	}
}

Test(record, high_half_of_the_number_is_the_records)
{
	uint64_t number = NUMBER + 3 * (1ull << 32); /* the same slot of three */
	struct record record;

	write_record(number, 10);
	cr_expect_eq(record_read(&record, slot, SLOT, NUMBER, SLOTS), RECORD_GOOD);
	cr_expect_eq(record.message, number);
}

Test(record, nothing_written_is_no_bad_record)
{
	struct record record;

	memset(slot, 0, sizeof(slot));
	cr_expect_eq(record_read(&record, slot, SLOT, 0, SLOTS), RECORD_ABSENT);
	slot[SLOT - 1] = 1;
	cr_expect_eq(record_read(&record, slot, SLOT, 0, SLOTS), RECORD_MAGIC);
}

Test(record, any_damaged_payload_byte_is_seen)
{
	struct record record;

	write_record(NUMBER, 300);
	cr_assert_eq(record_read(&record, slot, SLOT, NUMBER, SLOTS), RECORD_GOOD);
	for (uint32_t i = 0; i < 301; i++) {
		slot[i] ^= 0x10;
		cr_expect_eq(record_check(&record, slot), i < 300 ? RECORD_CRC : RECORD_GOOD);
		slot[i] ^= 0x10;
	}
}

Test(record, smallest_slot)
{
	struct record record;

	write_record(NUMBER, 0);
	cr_expect_eq(record_read(&record, slot + SLOT - 65, 65, NUMBER, SLOTS), RECORD_GOOD);
	write_record(NUMBER, 2);
	cr_expect_eq(record_read(&record, slot + SLOT - 65, 65, NUMBER, SLOTS), RECORD_LENGTH);
}
