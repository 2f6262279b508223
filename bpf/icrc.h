/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The invariant CRC of a RoCEv2 frame: CRC-32 from the IP header to the byte before the ICRC, with the
 * fields that routers may change taken as ones. Slicing-by-8, unrolled for the two lengths that exist
 * here; the caller has checked that the bytes are there.
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

#define ICRC_IPV4_0 ICRC_BYTES(1, 1)			      /* TOS */
#define ICRC_IPV4_8 (ICRC_BYTES(0, 0) | ICRC_BYTES(2, 3))     /* TTL, header checksum */
#define ICRC_IPV4_24 ICRC_BYTES(2, 3)			      /* UDP checksum */
#define ICRC_IPV4_32 ICRC_BYTES(0, 0)			      /* BTH byte 4 */
#define ICRC_IPV6_0 (0x0Full | ICRC_BYTES(1, 3) | ICRC_BYTES(7, 7)) /* class, label, hop limit */
#define ICRC_IPV6_40 ICRC_BYTES(6, 7)			      /* UDP checksum */
#define ICRC_IPV6_48 ICRC_BYTES(4, 4)			      /* BTH byte 4 */

static __always_inline __u32 icrc_8(__u32 crc, const void *bytes, __u64 mask)
{
	__u64 word = (*(const __u64 *)bytes | mask) ^ crc;

	return crc_table[7][word & 0xFF] ^ crc_table[6][word >> 8 & 0xFF] ^
	       crc_table[5][word >> 16 & 0xFF] ^ crc_table[4][word >> 24 & 0xFF] ^
	       crc_table[3][word >> 32 & 0xFF] ^ crc_table[2][word >> 40 & 0xFF] ^
	       crc_table[1][word >> 48 & 0xFF] ^ crc_table[0][word >> 56];
}

static __always_inline __u32 icrc_4(__u32 crc, const void *bytes)
{
	__u32 word = *(const __u32 *)bytes ^ crc;

	return crc_table[3][word & 0xFF] ^ crc_table[2][word >> 8 & 0xFF] ^
	       crc_table[1][word >> 16 & 0xFF] ^ crc_table[0][word >> 24];
}

/* IP header to the end of the BTH. */
static __always_inline __u32 icrc_headers(const struct frame *frame)
{
	const void *ip = frame->ip;
	__u32 crc = ROCE_ICRC_SEED;

	if (frame->ipv6) {
		crc = icrc_8(crc, ip, ICRC_IPV6_0);
		crc = icrc_8(crc, ip + 8, 0);
		crc = icrc_8(crc, ip + 16, 0);
		crc = icrc_8(crc, ip + 24, 0);
		crc = icrc_8(crc, ip + 32, 0);
		crc = icrc_8(crc, ip + 40, ICRC_IPV6_40);
		crc = icrc_8(crc, ip + 48, ICRC_IPV6_48);
		return icrc_4(crc, ip + 56);
	}
	crc = icrc_8(crc, ip, ICRC_IPV4_0);
	crc = icrc_8(crc, ip + 8, ICRC_IPV4_8);
	crc = icrc_8(crc, ip + 16, 0);
	crc = icrc_8(crc, ip + 24, ICRC_IPV4_24);
	return icrc_8(crc, ip + 32, ICRC_IPV4_32);
}

/* True when the ICRC after the AETH of an acknowledgement is right. */
static __always_inline bool icrc_ack_is_right(const struct frame *frame)
{
	const void *rest = frame->bth + 1;
	__u32 crc = icrc_4(icrc_headers(frame), rest);

	return ~crc == *(const __u32 *)(rest + sizeof(struct roce_aeth));
}

/* True when the ICRC after the reserved bytes of a CNP is right. */
static __always_inline bool icrc_cnp_is_right(const struct frame *frame)
{
	const void *rest = frame->bth + 1;
	__u32 crc = icrc_8(icrc_8(icrc_headers(frame), rest, 0), rest + 8, 0);

	return ~crc == *(const __u32 *)(rest + ROCE_CNP_RESERVED_LEN);
}

#endif
