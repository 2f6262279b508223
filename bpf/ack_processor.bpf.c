/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Takes the ACKs, NAKs, RNR NAKs and CNPs of open QPs off the wire and leaves what they say in the
 * maps of <xdp2roce/ack_map.h>.
 *
 * A frame from the peer of an open QP to that QP is ours and goes no further, whatever is wrong
 * with it: it is counted under its reason. Every other frame is passed on untouched.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <xdp2roce/ack_map.h>
#include <xdp2roce/roce.h>

#include "icrc.h"
#include "maps.h"
#include "parse.h"
#include "record.h"
#include "wake.h"

#define PKEY_BASE_MASK 0x7FFFu /* without the membership bit */

static __always_inline bool same_address(const __u8 *stored, const struct address *address)
{
	const __u64 *words = (const void *)stored;

	return words[0] == address->head && words[1] == address->tail;
}

static __always_inline bool header_is_right(const struct roce_bth *bth)
{
	return (bth->flags & (ROCE_BTH_TVER_MASK | ROCE_BTH_PAD_MASK)) == 0 &&
	       (bpf_ntohs(bth->pkey) & PKEY_BASE_MASK) == (ROCE_PKEY_DEFAULT & PKEY_BASE_MASK);
}

/* The BTH is followed by exactly this many bytes and the ICRC, say UDP and IP, and they are there.
 */
static __always_inline bool length_is_right(const struct frame *frame, __u32 after_bth)
{
	__u32 rest = after_bth + ROCE_ICRC_LEN;
	__u32 udp = sizeof(*frame->udp) + sizeof(*frame->bth) + rest;

	return bpf_ntohs(frame->udp->len) == udp && frame->ip_udp_length == udp &&
	       (const void *)(frame->bth + 1) + rest <= frame->end;
}

static __always_inline bool take_acknowledgement(const struct frame *frame, __u32 generation,
						 const struct qp_line *qp_line,
						 struct ack_line *line, struct xdp_counters *count)
{
	const struct roce_aeth *aeth = (const void *)(frame->bth + 1);
	struct acknowledgement a = {
		.psn = roce_get24(frame->bth->psn),
		.msn = roce_get24(aeth->msn),
		.syndrome = aeth->syndrome,
		.generation = generation,
		.start_psn = READ_ONCE(qp_line->start_psn),
		.highest_psn = READ_ONCE(qp_line->highest_psn),
	};
	__u32 kind = a.syndrome & ROCE_AETH_KIND_MASK;
	bool taken;

	if (kind == ROCE_AETH_ACK) {
		taken = record_ack(line, &a, count);
	} else if (kind == ROCE_AETH_RNR) {
		taken = record_nak(line, &line->rnr, &a, count);
	} else if (kind == ROCE_AETH_NAK && a.syndrome <= ROCE_NAK_REMOTE_OPERATION) {
		taken = record_nak(line, &line->nak, &a, count);
	} else {
		count->bad_header++;
		return false;
	}
	if (taken)
		__sync_fetch_and_add(&line->acks, 1);
	return taken;
}

/* True when the ack line says something new; every other frame is counted under its reason. */
static __always_inline bool take(const struct frame *frame, __u32 generation,
				 const struct qp_line *qp_line, struct ack_line *line,
				 struct xdp_counters *count)
{
	__u8 opcode = frame->bth->opcode;
	bool cnp = opcode == ROCE_CNP;

	if (!header_is_right(frame->bth)) {
		count->bad_header++;
		return false;
	}
	if (opcode != ROCE_RC_ACKNOWLEDGE && !cnp) {
		count->bad_opcode++;
		return false;
	}
	if (!length_is_right(frame, cnp ? ROCE_CNP_RESERVED_LEN : sizeof(struct roce_aeth))) {
		count->bad_length++;
		return false;
	}
	if (!icrc_is_right(frame, cnp)) {
		count->bad_icrc++;
		return false;
	}
	if (!cnp)
		return take_acknowledgement(frame, generation, qp_line, line, count);
	__sync_fetch_and_add(&line->cnps, 1);
	count->cnps++;
	return true;
}

SEC("xdp.frags")
int ack_processor(struct xdp_md *ctx)
{
	__u32 qpn, index, open, generation, zero = 0;
	struct xdp_counters *count;
	struct qp_line *qp_line;
	struct ack_line *line;
	struct frame frame;

	if (!parse(ctx, &frame))
		return XDP_PASS;
	qpn = roce_get24(frame.bth->dest_qpn);
	index = qpn_index(qpn);
	if (index < ACK_MAP_FIRST_INDEX)
		return XDP_PASS;
	qp_line = bpf_map_lookup_elem(&qp, &index);
	line = bpf_map_lookup_elem(&ack, &index);
	count = bpf_map_lookup_elem(&counters, &zero);
	if (!qp_line || !line || !count)
		return XDP_PASS;
	open = READ_ONCE(qp_line->open);
	if (!(open & QP_OPEN) || !same_address(qp_line->remote_ip, &frame.source) ||
	    !same_address(qp_line->local_ip, &frame.destination))
		return XDP_PASS;

	generation = open & 0xFF;
	if (qpn_generation(qpn) != generation)
		count->stale_generation++;
	else if (take(&frame, generation, qp_line, line, count))
		tell_worker(index, READ_ONCE(qp_line->worker));
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
