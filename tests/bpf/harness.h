/* SPDX-License-Identifier: BSD-2-Clause */
/* The XDP program under BPF_PROG_TEST_RUN, with its maps mapped and one QP open. */
#ifndef TESTS_BPF_HARNESS_H
#define TESTS_BPF_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/ack_processor.skel.h>

#include <xdp2roce/ack_map.h>

#include "frame.h"

#define HARNESS_QPS 192u
#define HARNESS_INDEX 70u        /* bit 6 of the second pending word */
#define HARNESS_CLOSED_INDEX 71u /* this and the next are filled in like the other, but closed */
#define HARNESS_GENERATION 0xA7u
#define HARNESS_QPN (HARNESS_GENERATION << 16 | HARNESS_INDEX)
#define HARNESS_WORKER 3u

struct harness {
	struct ack_processor *skeleton;
	struct qp_line *qp;
	struct ack_line *ack;
	uint64_t *pending;
	struct worker_line *worker;
	int wake_fd; /* ring buffer of HARNESS_WORKER */
};

/* Loads, or skips the test with the reason. Ends with the process: Criterion has one for each test.
 */
void harness_open(struct harness *harness);

/*
 * Zeroes counters, ack lines, pending and sleep flags, and opens the QP at HARNESS_INDEX anew. The
 * lines 0 and 1, which may not be used, are filled in the same way.
 */
void harness_open_qp(struct harness *harness, bool ipv6, uint32_t start_psn, uint32_t highest_psn);

/* The verdict; fails the test when the program changed the frame. */
uint32_t harness_run(struct harness *harness, const uint8_t *bytes, size_t length);

struct xdp_counters harness_counters(struct harness *harness);

/* True when nothing in the maps says that a frame was seen; with_counters false: but for the
 * counters. */
bool harness_untouched(struct harness *harness, bool with_counters);

#endif
