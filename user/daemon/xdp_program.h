/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loads and attaches the ACK processor, and gives access to its maps (<xdp2roce/ack_map.h>).
 *
 * Attached by an unpinned bpf_link: the kernel detaches it when the process ends, however it ends.
 * Native mode where the driver has it, generic mode otherwise. One object per interface; the maps
 * are shared by all workers, each of which touches only its own lines. Needs CAP_BPF and
 * CAP_NET_ADMIN.
 */
#ifndef USER_DAEMON_XDP_PROGRAM_H
#define USER_DAEMON_XDP_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/ack_map.h>
#include <xdp2roce/error.h>

struct xdp_program {
	/* Mapped read-write; valid until xdp_program_close. */
	struct qp_line *qp;         /* [qps] */
	struct ack_line *ack;       /* [qps] */
	uint64_t *pending;          /* [qps / 64] */
	struct worker_line *worker; /* [ACK_MAP_WORKERS] */
	uint32_t qps;
	uint32_t program_id;
	bool native;              /* else generic */
	char native_refused[128]; /* why not native; empty when native */
	void *internal;           /* skeleton, link, ring buffers */
};

/*
 * qps: entries of the qp and ack maps, a multiple of 64, at most 65536. workers: 1…ACK_MAP_WORKERS,
 * each gets a wake ring buffer. Refused with the cure: missing privilege; kernel too old; an XDP
 * program already attached to the interface (its name and id are named), never replaced.
 */
int xdp_program_open(struct xdp_program *program, int ifindex, const char *interface, uint32_t qps,
		     uint32_t workers, struct error *error);
void xdp_program_close(struct xdp_program *program);

/* A descriptor that polls readable when XDP woke this worker, and what takes the wake-ups back. */
int xdp_program_wake_fd(const struct xdp_program *program, uint32_t worker);
void xdp_program_drain_wake(struct xdp_program *program, uint32_t worker);

/* Sums of the per-CPU counters. */
int xdp_program_counters(const struct xdp_program *program, struct xdp_counters *sum);

#endif
