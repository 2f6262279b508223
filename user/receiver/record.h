/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The record at the end of a slot, as its reader takes it (<xdp2roce/xdp2roce.h>). Read from the
 * contract and not from what writes it; CRC-32C by ISA-L. No I/O.
 */
#ifndef USER_RECEIVER_RECORD_H
#define USER_RECEIVER_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct record {
	uint64_t message;
	uint64_t tai_ns;
	uint64_t length; /* payload bytes, at most slot size − 64 */
	uint64_t missing;
	uint32_t stream;
	uint32_t crc;
	bool short_message; /* the source ended before the declared length */
};

enum record_fault {
	RECORD_GOOD,
	RECORD_ABSENT,  /* nothing was ever written there */
	RECORD_MAGIC,   /* no record */
	RECORD_VERSION, /* of another version, or with flags that this one does not have */
	RECORD_MESSAGE, /* of another message */
	RECORD_LENGTH,  /* longer than its slot */
	RECORD_CRC,     /* the payload is not the one that was sent */
};

/*
 * Takes the record out of a slot that may change at any time: it is copied once, and only the copy
 * is looked at. number: the message's by its immediate, of which the low 32 bits count; slot_count:
 * the record's number must belong to this slot. With RECORD_MESSAGE record->message is the number
 * that was found; otherwise record is valid with RECORD_GOOD alone.
 */
enum record_fault record_read(struct record *record, const uint8_t *slot, uint64_t slot_size,
			      uint64_t number, uint32_t slot_count);

/* Is this, record->length bytes, the payload that was sent? RECORD_GOOD or RECORD_CRC. */
enum record_fault record_check(const struct record *record, const uint8_t *payload);

/* What is wrong, as the end of a sentence. */
const char *record_fault_text(enum record_fault fault);

#endif
