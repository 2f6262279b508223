/* SPDX-License-Identifier: BSD-2-Clause */
#include "record.h"

#include <endian.h>
#include <isa-l/crc.h>
#include <string.h>

#include <xdp2roce/xdp2roce.h>

#define CRC_PIECE (1u << 30) /* the library counts bytes with an int */

static bool is_zero(const struct xdp2roce_record *record)
{
	static const struct xdp2roce_record zero;

	return !memcmp(record, &zero, sizeof(zero));
}

static enum record_fault check(const struct xdp2roce_record *raw, uint64_t slot_size,
			       uint64_t number, uint32_t slot_count)
{
	uint64_t message = le64toh(raw->message);

	if (is_zero(raw))
		return RECORD_ABSENT;
	if (le32toh(raw->magic) != XDP2ROCE_RECORD_MAGIC)
		return RECORD_MAGIC;
	if (le16toh(raw->version) != XDP2ROCE_RECORD_VERSION ||
	    (le16toh(raw->flags) & ~XDP2ROCE_RECORD_SHORT))
		return RECORD_VERSION;
	if ((uint32_t)message != (uint32_t)number || message % slot_count != number % slot_count)
		return RECORD_MESSAGE;
	if (le64toh(raw->length) > slot_size - XDP2ROCE_RECORD_SIZE)
		return RECORD_LENGTH;
	return RECORD_GOOD;
}

enum record_fault record_read(struct record *record, const uint8_t *slot, uint64_t slot_size,
			      uint64_t number, uint32_t slot_count)
{
	struct xdp2roce_record raw;

	memcpy(&raw, slot + slot_size - XDP2ROCE_RECORD_SIZE, sizeof(raw));
	/* No read of the slot may be put off until after a check. */
	__asm__ volatile("" : : "r"(&raw) : "memory");
	*record = (struct record){
		.message = le64toh(raw.message),
		.tai_ns = le64toh(raw.tai_ns),
		.length = le64toh(raw.length),
		.missing = le64toh(raw.missing),
		.stream = le32toh(raw.stream),
		.crc = le32toh(raw.crc),
		.short_message = le16toh(raw.flags) & XDP2ROCE_RECORD_SHORT,
	};
	return check(&raw, slot_size, number, slot_count);
}

enum record_fault record_check(const struct record *record, const uint8_t *payload)
{
	uint32_t crc = ~0u;

	for (uint64_t at = 0; at < record->length; at += CRC_PIECE) {
		uint64_t left = record->length - at;

		crc = crc32_iscsi((unsigned char *)(uintptr_t)(payload + at),
				  (int)(left < CRC_PIECE ? left : CRC_PIECE), crc);
	}
	return ~crc == record->crc ? RECORD_GOOD : RECORD_CRC;
}

const char *record_fault_text(enum record_fault fault)
{
	static const char *const texts[] = {
		[RECORD_GOOD] = "nothing is wrong",
		[RECORD_ABSENT] = "it was not written",
		[RECORD_MAGIC] = "it does not start with its magic number",
		[RECORD_VERSION] = "it is of another version: use the same one at both ends",
		[RECORD_MESSAGE] = "it is of another message",
		[RECORD_LENGTH] = "its length is more than its slot holds",
		[RECORD_CRC] = "its CRC is not that of the payload",
	};

	return texts[fault];
}
