/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The maps of <xdp2roce/ack_map.h>. The sizes of qp, ack and pending are set again before the load;
 * wake is filled by user space with one ring buffer per worker.
 */
#ifndef BPF_MAPS_H
#define BPF_MAPS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include <xdp2roce/ack_map.h>

/* One whole load, neither repeated nor torn: the other side changes these words while we look. */
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ACK_MAP_QPS);
	__type(key, __u32);
	__type(value, struct qp_line);
} qp SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ACK_MAP_QPS);
	__type(key, __u32);
	__type(value, struct ack_line);
} ack SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ACK_MAP_QPS / ACK_MAP_QPS_PER_WORD);
	__type(key, __u32);
	__type(value, __u64);
} pending SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ACK_MAP_WORKERS);
	__type(key, __u32);
	__type(value, struct worker_line);
} worker SEC(".maps");

struct wake_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ACK_MAP_WAKE_BYTES);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ACK_MAP_WORKERS);
	__type(key, __u32);
	__array(values, struct wake_ring);
} wake SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xdp_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} layout SEC(".maps");

#endif
