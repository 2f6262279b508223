/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The RoCEv2 wire format: opcodes, headers, PSN arithmetic, AETH code tables.
 *
 * Shared by the XDP program, the engine, the software responder and the tests; holds no state and
 * calls nothing. Every multi-byte field on the wire is big-endian, the ICRC alone is little-endian.
 * Order of a frame: Ethernet, IPv4 or IPv6, UDP, BTH, extension headers, payload, pad, ICRC.
 */
#ifndef XDP2ROCE_ROCE_H
#define XDP2ROCE_ROCE_H

#include <linux/types.h>

#define ROCE_UDP_PORT 4791          /* destination port of every RoCEv2 frame */
#define ROCE_UDP_SOURCE_MIN 0xC000u /* source ports in use: 0xC000…0xFFFF, constant per QP */
#define ROCE_PKEY_DEFAULT 0xFFFFu
#define ROCE_ICRC_LEN 4
#define ROCE_ICRC_SEED 0xDEBB20E3u   /* CRC-32 register after the 8 bytes 0xFF of the dummy LRH */
#define ROCE_MAX_MESSAGE 0x80000000u /* largest DMALen, bytes */
#define ROCE_PSN_MASK 0xFFFFFFu
#define ROCE_CNP_RESERVED_LEN 16 /* zero bytes after the BTH of a CNP */

/* BTH opcodes: transport (RC 000, UC 001, CNP 100) in bits 7..5, operation in bits 4..0. */
enum roce_opcode {
	ROCE_RC_WRITE_FIRST = 0x06,
	ROCE_RC_WRITE_MIDDLE = 0x07,
	ROCE_RC_WRITE_LAST = 0x08,
	ROCE_RC_WRITE_LAST_IMM = 0x09,
	ROCE_RC_WRITE_ONLY = 0x0A,
	ROCE_RC_WRITE_ONLY_IMM = 0x0B,
	ROCE_RC_ACKNOWLEDGE = 0x11,
	ROCE_UC_WRITE_FIRST = 0x26,
	ROCE_UC_WRITE_MIDDLE = 0x27,
	ROCE_UC_WRITE_LAST = 0x28,
	ROCE_UC_WRITE_LAST_IMM = 0x29,
	ROCE_UC_WRITE_ONLY = 0x2A,
	ROCE_UC_WRITE_ONLY_IMM = 0x2B,
	ROCE_CNP = 0x81,
};

#define ROCE_TRANSPORT_MASK 0xE0u
#define ROCE_TRANSPORT_RC 0x00u
#define ROCE_TRANSPORT_UC 0x20u

/* Byte 1 of the BTH. */
#define ROCE_BTH_SOLICITED 0x80u
#define ROCE_BTH_MIGREQ 0x40u
#define ROCE_BTH_PAD_SHIFT 4
#define ROCE_BTH_PAD_MASK 0x30u
#define ROCE_BTH_TVER_MASK 0x0Fu
/* Byte 8 of the BTH. */
#define ROCE_BTH_ACKREQ 0x80u

struct roce_bth {
	__u8 opcode;
	__u8 flags; /* SE, MigReq, pad count, transport version */
	__be16 pkey;
	__u8 ecn; /* FECN, BECN and reserved bits: masked in the ICRC */
	__u8 dest_qpn[3];
	__u8 ackreq; /* AckReq in bit 7, the rest reserved and zero */
	__u8 psn[3];
} __attribute__((packed));

struct roce_reth {
	__be64 address;
	__be32 rkey;
	__be32 length; /* DMALen: bytes of the whole message */
} __attribute__((packed));

struct roce_immdt {
	__be32 value;
} __attribute__((packed));

struct roce_aeth {
	__u8 syndrome;
	__u8 msn[3];
} __attribute__((packed));

/* AETH syndrome: kind in bits 6..5, value in bits 4..0, bit 7 zero. */
#define ROCE_AETH_KIND_MASK 0xE0u
#define ROCE_AETH_VALUE_MASK 0x1Fu
#define ROCE_AETH_ACK 0x00u
#define ROCE_AETH_RNR 0x20u
#define ROCE_AETH_NAK 0x60u
#define ROCE_CREDITS_UNLIMITED 0x1Fu /* value of an ACK whose responder sets no limit */

enum roce_nak {
	ROCE_NAK_SEQUENCE = 0x60, /* PSN sequence error: go back to the PSN and resend */
	ROCE_NAK_INVALID_REQUEST = 0x61,
	ROCE_NAK_REMOTE_ACCESS = 0x62,
	ROCE_NAK_REMOTE_OPERATION = 0x63,
};

/* True for the three NAKs that end a queue pair; 0x64…0x7F are reserved and ignored, as hfi1 does.
 */
static inline int roce_nak_is_fatal(__u8 syndrome)
{
	return syndrome >= ROCE_NAK_INVALID_REQUEST && syndrome <= ROCE_NAK_REMOTE_OPERATION;
}

static inline __u32 roce_get24(const __u8 *b)
{
	return (__u32)b[0] << 16 | (__u32)b[1] << 8 | b[2];
}

static inline void roce_put24(__u8 *b, __u32 value)
{
	b[0] = (__u8)(value >> 16);
	b[1] = (__u8)(value >> 8);
	b[2] = (__u8)value;
}

/* PSN, MSN and SSN are 24-bit serial numbers. */
static inline __u32 roce_psn_add(__u32 psn, __u32 n)
{
	return (psn + n) & ROCE_PSN_MASK;
}

/* a − b in serial arithmetic, −2^23 … 2^23−1: negative when a is older than b. */
static inline __s32 roce_psn_diff(__u32 a, __u32 b)
{
	return (__s32)((a - b) << 8) >> 8;
}

/* Pad bytes that bring a payload to a multiple of four. */
static inline __u32 roce_pad(__u32 length)
{
	return -length & 3;
}

/* Receive work requests that an AETH credit code 0…30 stands for (31 is unlimited). */
static inline __u32 roce_credits(__u32 code)
{
	/* 0 1 2 3 4 6 8 12 16 24 …: from code 2 on, each power of two is followed by its 1.5-fold.
	 */
	__u32 shift = (code >> 1) & 15;

	if (code < 2)
		return code;
	return code & 1 ? 3u << (shift - 1) : 1u << shift;
}

/* Nanoseconds that an RNR NAK timer code 0…31 asks the requester to wait. */
static inline __u64 roce_rnr_ns(__u32 code)
{
	/* In units of 10 µs; code 0 is the longest wait of all. */
	static const __u32 units[32] = {
		65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
		48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return (__u64)units[code & 31] * 10000;
}

#endif
