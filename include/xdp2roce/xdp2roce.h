/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a receiver of xdp2roce streams finds in its memory.
 *
 * Target memory is a ring of N equal slots: message k is written to slot k mod N, from its start.
 * With immediates the immediate is the low 32 bits of k. With records the last 64 bytes of the slot
 * hold a struct xdp2roce_record that is written after the payload: usable payload is then slot size
 * − 64.
 *
 * A reader of a UC slot, which may be overwritten at any time, copies the payload out, then checks
 * the CRC of its copy.
 */
#ifndef XDP2ROCE_XDP2ROCE_H
#define XDP2ROCE_XDP2ROCE_H

#include <stdint.h>

#define XDP2ROCE_RECORD_SIZE 64u
#define XDP2ROCE_RECORD_MAGIC 0x52433258u /* "X2CR" in memory */
#define XDP2ROCE_RECORD_VERSION 1

enum xdp2roce_record_flag {
	XDP2ROCE_RECORD_SHORT = 1, /* the source ended before the declared length */
};

/* Every field is little-endian. */
struct xdp2roce_record {
	uint32_t magic;
	uint16_t version;
	uint16_t flags;
	uint32_t stream;  /* number of the stream at its sender */
	uint32_t crc;     /* CRC-32C (iSCSI) of the payload, length bytes */
	uint64_t message; /* k, counted from 0 */
	uint64_t tai_ns;  /* CLOCK_TAI when the message's first byte was there, ns since 1970 */
	uint64_t length;  /* payload bytes that the source delivered */
	uint64_t missing; /* packets that the source knows it lost */
	uint8_t reserved[16];
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct xdp2roce_record) == XDP2ROCE_RECORD_SIZE, "a record is 64 bytes");

#endif
