/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which acknowledgements count, and how they get into the QP's ack line.
 *
 *      last acknowledged            highest submitted
 *             │                            │
 *   ── stale ─┼──────── NAK, RNR ──────────┼─ invalid ──▶ PSN, 24-bit serial arithmetic
 *             └─ ACK ──────────────────────┘
 *
 * Acknowledgements of one QP may arrive on several CPUs at once: every word changes by
 * compare-and-swap, and each try judges the word that it is about to replace.
 */
#ifndef BPF_RECORD_H
#define BPF_RECORD_H

#include <linux/types.h>

#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#include <xdp2roce/ack_map.h>
#include <xdp2roce/roce.h>

#include "maps.h"

#define RECORD_TRIES 4

/* What is said about a QP: by whom it was validated, and where its window lies. */
struct acknowledgement {
	__u32 psn;
	__u32 msn;
	__u32 syndrome;
	__u32 generation;
	__u32 start_psn;
	__u32 highest_psn;
};

enum judgement { TAKE, STALE, INVALID };

static __always_inline bool is_of(__u64 word, const struct acknowledgement *a)
{
	return ack_word_generation(word) == a->generation;
}

static __always_inline __u32 last_acknowledged(__u64 ack, const struct acknowledgement *a)
{
	return is_of(ack, a) ? ack_word_psn(ack) : roce_psn_add(a->start_psn, ROCE_PSN_MASK);
}

/* The message number up to which credit is given, in 24-bit serial arithmetic. */
static __always_inline __u32 credit_limit(__u32 msn, __u32 syndrome)
{
	return msn + roce_credits(syndrome & ROCE_AETH_VALUE_MASK);
}

static __always_inline bool credit_is_older(__u64 known, const struct acknowledgement *a)
{
	__u32 syndrome = ack_word_syndrome(known);

	if (a->syndrome == (ROCE_AETH_ACK | ROCE_CREDITS_UNLIMITED))
		return false;
	if (syndrome == (ROCE_AETH_ACK | ROCE_CREDITS_UNLIMITED))
		return true;
	return roce_psn_diff(credit_limit(a->msn, a->syndrome),
			     credit_limit(ack_word_low24(known), syndrome)) < 0;
}

static __always_inline enum judgement judge_ack(__u64 known, const struct acknowledgement *a)
{
	__s32 ahead = roce_psn_diff(a->psn, last_acknowledged(known, a));

	if (ahead < 0)
		return STALE;
	if (roce_psn_diff(a->highest_psn, a->psn) < 0)
		return INVALID;
	if (ahead == 0 && is_of(known, a) && credit_is_older(known, a))
		return STALE;
	return TAKE;
}

/*
 * known is the nak or the rnr word. A responder's expected PSN never goes back, so a copy that is
 * older than what is known must not hide it. But what is known may be long acknowledged, and 2^23
 * packets later it looks newer than anything: it counts only up to the highest PSN.
 */
static __always_inline enum judgement judge_nak(__u64 known, __u32 last,
						const struct acknowledgement *a)
{
	__u32 known_psn = ack_word_psn(known);

	if (roce_psn_diff(a->psn, last) <= 0)
		return STALE;
	if (roce_psn_diff(a->highest_psn, a->psn) < 0)
		return INVALID;
	if (!is_of(known, a))
		return TAKE;
	if (roce_nak_is_fatal(ack_word_syndrome(known)))
		return STALE;
	if (roce_psn_diff(a->psn, known_psn) < 0 && roce_psn_diff(a->highest_psn, known_psn) >= 0)
		return STALE;
	return TAKE;
}

static __always_inline bool refuse(enum judgement judgement, struct xdp_counters *count)
{
	if (judgement == STALE)
		count->stale_acks++;
	else
		count->invalid_psn++;
	return false;
}

static __always_inline bool record_ack(struct ack_line *line, const struct acknowledgement *a,
				       struct xdp_counters *count)
{
	__u64 word = ack_word(a->psn, a->generation, a->syndrome, a->msn);
	__u64 known = READ_ONCE(line->ack);

#pragma clang loop unroll(disable)
	for (int try = 0; try < RECORD_TRIES; try++) {
		enum judgement judgement = judge_ack(known, a);
		__u64 found;

		if (judgement != TAKE)
			return refuse(judgement, count);
		found = __sync_val_compare_and_swap(&line->ack, known, word);
		if (found == known) {
			count->acks++;
			return true;
		}
		known = found;
	}
	count->contended++;
	return false;
}

/* place is the nak or the rnr word of the line. */
static __always_inline bool record_nak(struct ack_line *line, __u64 *place,
				       const struct acknowledgement *a, struct xdp_counters *count)
{
	__u32 last = last_acknowledged(READ_ONCE(line->ack), a);
	__u64 known = READ_ONCE(*place);

#pragma clang loop unroll(disable)
	for (int try = 0; try < RECORD_TRIES; try++) {
		enum judgement judgement = judge_nak(known, last, a);
		__u32 sequence = is_of(known, a) ? ack_word_low24(known + 1) : 1;
		__u64 found;

		if (judgement != TAKE)
			return refuse(judgement, count);
		found = __sync_val_compare_and_swap(place, known,
						    ack_word(a->psn, a->generation, a->syndrome,
							     sequence));
		if (found == known) {
			count->naks++;
			return true;
		}
		known = found;
	}
	count->contended++;
	return false;
}

#endif
