/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the XDP program and user space tell each other: the layout of the BPF maps.
 *
 *   map        kind                          one entry per   written by
 *   qp         ARRAY, mmapable               QP              user space
 *   ack        ARRAY, mmapable               QP              XDP (zeroed by user space at open)
 *   pending    ARRAY, mmapable               64 QPs          XDP sets bits, the worker takes them
 *   worker     ARRAY, mmapable               worker          both, see sleeping
 *   wake       ARRAY_OF_MAPS of RINGBUF      worker          XDP
 *   counters   PERCPU_ARRAY, one entry       CPU             XDP
 *   layout     ARRAY, one entry              -               user space at load: ACK_MAP_VERSION
 *
 * A local QPN is generation(8) << 16 | index(16). The index is the position in the arrays; indexes
 * 0 and 1 are never used. The generation is 1…255: random at start, one up at every open of the
 * index (255 is followed by 1). Every word in the ack line carries the generation that it was
 * validated against; a word with another generation is empty.
 *
 * Each word is one naturally aligned 64-bit value, read and written whole. No meaning may be taken
 * from the order in which two words change.
 */
#ifndef XDP2ROCE_ACK_MAP_H
#define XDP2ROCE_ACK_MAP_H

#include <linux/types.h>

#define ACK_MAP_VERSION 1
#define ACK_MAP_QPS 4096 /* entries of qp and ack by default; a multiple of 64, at most 65536 */
#define ACK_MAP_FIRST_INDEX 2 /* indexes 0 and 1 are not used */
#define ACK_MAP_WORKERS 64
#define ACK_MAP_QPS_PER_WORD 64
#define ACK_MAP_WAKE_BYTES 4096 /* size of a worker's wake ring buffer */

#define QP_OPEN 0x100u /* bit in qp_line.open */

/*
 * One QP as user space describes it.
 * Open: set open = 0, wait until no slot of the ring has an outstanding submission, zero the ack
 * line, fill this line in, then store open = QP_OPEN | generation with release.
 */
struct qp_line {
	__u32 open;         /* 0 closed, else QP_OPEN | generation */
	__u32 worker;       /* index of the worker that owns the QP: which one to wake */
	__u32 start_psn;    /* first PSN; nothing before it can be acknowledged */
	__u32 highest_psn;  /* highest PSN ever submitted, start_psn − 1 before the first;
			     * stored with release before the kick */
	__u8 local_ip[16];  /* network byte order; an IPv4 address as ::ffff:a.b.c.d */
	__u8 remote_ip[16]; /* only frames from here to local_ip are taken */
	__u8 reserved[16];
} __attribute__((aligned(64)));

/*
 * One QP as XDP saw it acknowledged.
 * ack: PSN(24) | generation(8) | syndrome(8) | MSN(24), the newest acknowledgement.
 * nak and rnr: PSN(24) | generation(8) | syndrome(8) | sequence(24), most significant first. The
 * sequence goes up by one with every NAK of that kind, so that a repeated one is seen.
 * The reader applies ack before nak and rnr: a NAK acknowledges what is before its PSN, and no
 * more.
 */
struct ack_line {
	__u64 ack;
	__u64 nak; /* PSN sequence error or fatal NAK; a fatal one is never overwritten */
	__u64 rnr;
	__u64 acks; /* ACK, NAK and RNR NAK frames that were taken, all generations since zeroed */
	__u64 cnps; /* congestion notification packets */
	__u64 reserved[3];
} __attribute__((aligned(64)));

/*
 * A worker's sleep flag. Wake-up without loss: XDP writes the record, sets the QP's bit in pending
 * with an atomic fetch-or (a full barrier), then reads sleeping; if set, exchanges it with 0 and,
 * when the exchange returned 1, sends one word through the worker's ring buffer in wake. The worker
 * sets sleeping, makes a full fence, looks at pending once more, and only then sleeps.
 */
struct worker_line {
	__u32 sleeping;
	__u32 reserved[15];
} __attribute__((aligned(64)));

/* Frames to UDP 4791, by what became of them. Every field but the first three counts a drop. */
struct xdp_counters {
	__u64 acks; /* acknowledgements written to the ack word */
	__u64 naks; /* NAKs written, RNR NAKs included */
	__u64 cnps;
	__u64 stale_acks;  /* PSN before the window, or nothing newer than what is known */
	__u64 invalid_psn; /* PSN that was never submitted */
	__u64 bad_icrc;
	__u64 bad_opcode;       /* not an acknowledgement and not a CNP */
	__u64 bad_length;       /* UDP length or frame too short or too long for the opcode */
	__u64 bad_header;       /* transport version, pad count, P_Key or reserved syndrome */
	__u64 stale_generation; /* QPN of an earlier life of the QP, from its peer */
	__u64 contended;        /* compare-and-swap lost four times; the next ACK makes up for it */
};

static inline __u64 ack_word(__u32 psn, __u32 generation, __u32 syndrome, __u32 low24)
{
	return (__u64)psn << 40 | (__u64)generation << 32 | (__u64)syndrome << 24 | low24;
}

static inline __u32 ack_word_psn(__u64 word)
{
	return (__u32)(word >> 40);
}

static inline __u32 ack_word_generation(__u64 word)
{
	return (__u32)(word >> 32) & 0xFF;
}

static inline __u32 ack_word_syndrome(__u64 word)
{
	return (__u32)(word >> 24) & 0xFF;
}

/* MSN of an ack word, sequence of a nak or rnr word. */
static inline __u32 ack_word_low24(__u64 word)
{
	return (__u32)word & 0xFFFFFF;
}

static inline __u32 qpn_index(__u32 qpn)
{
	return qpn & 0xFFFF;
}

static inline __u32 qpn_generation(__u32 qpn)
{
	return qpn >> 16 & 0xFF;
}

#endif
