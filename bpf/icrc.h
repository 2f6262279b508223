/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The invariant CRC of a RoCEv2 frame: CRC-32 from the IP header to the byte before the ICRC, with
 * the fields that routers may change taken as ones. Slicing-by-8, unrolled for the two lengths that
 * exist here; the caller has checked that the bytes are there.
 */
#ifndef BPF_ICRC_H
#define BPF_ICRC_H

#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_helpers.h>
#include <bpf/crc_table.h>

#include <xdp2roce/roce.h>

#include "parse.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "masks and slices are for little-endian");

/* Bytes a…b (0…7) of a word as ones. */
#define ICRC_BYTES(a, b) (~0ull >> (56 - 8 * ((b) - (a))) << 8 * (a))

#define ICRC_IPV4_0 ICRC_BYTES(1, 1)                                /* TOS */
#define ICRC_IPV4_8 (ICRC_BYTES(0, 0) | ICRC_BYTES(2, 3))           /* TTL, header checksum */
#define ICRC_IPV4_24 ICRC_BYTES(2, 3)                               /* UDP checksum */
#define ICRC_IPV4_32 ICRC_BYTES(0, 0)                               /* BTH byte 4 */
#define ICRC_IPV6_0 (0x0Full | ICRC_BYTES(1, 3) | ICRC_BYTES(7, 7)) /* class, label, hop limit */
#define ICRC_IPV6_40 ICRC_BYTES(6, 7)                               /* UDP checksum */
#define ICRC_IPV6_48 ICRC_BYTES(4, 4)                               /* BTH byte 4 */

/*
 * The tables behind a pointer that the compiler cannot see through: one register and constant
 * offsets, where it would otherwise spill the addresses of eight tables.
 */
static __always_inline const __u8 *icrc_tables(void)
{
	const void *tables = crc_table;

	asm volatile("" : "+r"(tables));
	return tables;
}

/* Table k at the byte of word that starts at this bit. */
#define ICRC_LOOKUP(tables, k, word, bit)                                                          \
	(*(const __u32 *)((tables) + ((word) >> (bit) & 0xFF) * 4 + (k) * 1024))

/* The half of the word that the register does not reach is looked up while the other one waits for
 * it. */
static __always_inline __u32 icrc_8(const __u8 *tables, __u32 crc, const void *bytes, __u64 mask)
{
	__u64 word = *(const __u64 *)bytes | mask;
	__u64 high = word >> 32, low = (__u32)word ^ crc;

	high = ICRC_LOOKUP(tables, 3, high, 0) ^ ICRC_LOOKUP(tables, 2, high, 8) ^
	       ICRC_LOOKUP(tables, 1, high, 16) ^ ICRC_LOOKUP(tables, 0, high, 24);
	low = ICRC_LOOKUP(tables, 7, low, 0) ^ ICRC_LOOKUP(tables, 6, low, 8) ^
	      ICRC_LOOKUP(tables, 5, low, 16) ^ ICRC_LOOKUP(tables, 4, low, 24);
	return high ^ low;
}

static __always_inline __u32 icrc_4(const __u8 *tables, __u32 crc, const void *bytes)
{
	__u64 word = *(const __u32 *)bytes ^ crc;

	return ICRC_LOOKUP(tables, 3, word, 0) ^ ICRC_LOOKUP(tables, 2, word, 8) ^
	       ICRC_LOOKUP(tables, 1, word, 16) ^ ICRC_LOOKUP(tables, 0, word, 24);
}

/* IP header to the end of the BTH. Each branch has tables of its own, or the compiler mixes them
 * up. */
static __always_inline __u32 icrc_headers(const struct frame *frame)
{
	const __u8 *tables;
	const void *ip = frame->ip;
	__u32 crc = ROCE_ICRC_SEED;

	if (frame->ipv6) {
		tables = icrc_tables();
		crc = icrc_8(tables, crc, ip, ICRC_IPV6_0);
		crc = icrc_8(tables, crc, ip + 8, 0);
		crc = icrc_8(tables, crc, ip + 16, 0);
		crc = icrc_8(tables, crc, ip + 24, 0);
		crc = icrc_8(tables, crc, ip + 32, 0);
		crc = icrc_8(tables, crc, ip + 40, ICRC_IPV6_40);
		crc = icrc_8(tables, crc, ip + 48, ICRC_IPV6_48);
		return icrc_4(tables, crc, ip + 56);
	}
	tables = icrc_tables();
	crc = icrc_8(tables, crc, ip, ICRC_IPV4_0);
	crc = icrc_8(tables, crc, ip + 8, ICRC_IPV4_8);
	crc = icrc_8(tables, crc, ip + 16, 0);
	crc = icrc_8(tables, crc, ip + 24, ICRC_IPV4_24);
	return icrc_8(tables, crc, ip + 32, ICRC_IPV4_32);
}

/*
 * The BTH is followed by an AETH, or by the reserved bytes of a CNP; then comes the ICRC.
 *
 * The caller has checked the length, but the verifier of Linux 6.1 does not see that it belongs to
 * the kind: each kind checks its own once more. The barrier keeps the compiler from dropping that.
 */
static __always_inline bool icrc_is_right(const struct frame *frame, bool cnp)
{
	const void *rest = frame->bth + 1;
	__u32 crc = icrc_headers(frame);
	const __u8 *tables = icrc_tables();

	asm volatile("" : "+r"(rest));
	if (cnp) {
		if (rest + ROCE_CNP_RESERVED_LEN + ROCE_ICRC_LEN > frame->end)
			return false;
		crc = icrc_8(tables, crc, rest, 0);
		crc = icrc_8(tables, crc, rest + 8, 0);
		return ~crc == *(const __u32 *)(rest + ROCE_CNP_RESERVED_LEN);
	}
	if (rest + sizeof(struct roce_aeth) + ROCE_ICRC_LEN > frame->end)
		return false;
	crc = icrc_4(tables, crc, rest);
	return ~crc == *(const __u32 *)(rest + sizeof(struct roce_aeth));
}

#endif
