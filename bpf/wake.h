/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Tells the worker that a QP's ack line changed: the order of steps is that of
 * <xdp2roce/ack_map.h>. */
#ifndef BPF_WAKE_H
#define BPF_WAKE_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include <xdp2roce/ack_map.h>

#include "maps.h"

/* Out of the hot path: a worker that is busy never sleeps. */
static __always_inline void wake_sleeper(__u32 index, struct worker_line *line)
{
	__u64 word = index;
	void *ring;

	if (__sync_lock_test_and_set(&line->sleeping, 0) == 0)
		return;
	ring = bpf_map_lookup_elem(&wake, &index);
	/* A full ring is readable, so that the worker does not sleep on it. */
	if (ring)
		bpf_ringbuf_output(ring, &word, sizeof(word), BPF_RB_FORCE_WAKEUP);
}

static __always_inline void tell_worker(__u32 qp_index, __u32 worker_index)
{
	__u32 word_index = qp_index / ACK_MAP_QPS_PER_WORD;
	__u64 bit = 1ull << qp_index % ACK_MAP_QPS_PER_WORD;
	__u64 *word = bpf_map_lookup_elem(&pending, &word_index);
	struct worker_line *line;
	__u64 before;

	if (!word)
		return;
	before = __sync_fetch_and_or(word, bit);
	/* Only the form that returns the old value is a full barrier; without a use it is not
	 * chosen. */
	asm volatile("" : : "r"(before) : "memory");
	line = bpf_map_lookup_elem(&worker, &worker_index);
	if (line && READ_ONCE(line->sleeping))
		wake_sleeper(worker_index, line);
}

#endif
