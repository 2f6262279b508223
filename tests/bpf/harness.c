/* SPDX-License-Identifier: BSD-2-Clause */
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void *map_memory(const struct bpf_map *map)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (size_t)bpf_map__value_size(map) * bpf_map__max_entries(map);
	void *memory = mmap(NULL, (bytes + page - 1) / page * page, PROT_READ | PROT_WRITE,
			    MAP_SHARED, bpf_map__fd(map), 0);

	cr_assert(memory != MAP_FAILED, "mmap of %s: %s", bpf_map__name(map), strerror(errno));
	return memory;
}

void harness_open(struct harness *harness)
{
	struct ack_processor *skeleton;
	uint32_t worker = HARNESS_WORKER;
	int rc;

	libbpf_set_print(NULL);
	skeleton = ack_processor__open();
	cr_assert(skeleton != NULL);
	bpf_map__set_max_entries(skeleton->maps.qp, HARNESS_QPS);
	bpf_map__set_max_entries(skeleton->maps.ack, HARNESS_QPS);
	bpf_map__set_max_entries(skeleton->maps.pending, HARNESS_QPS / ACK_MAP_QPS_PER_WORD);
	rc = ack_processor__load(skeleton);
	if (rc == -EPERM)
		cr_skip_test("BPF is not permitted here: run as root");
	cr_assert(rc == 0, "load: %s", strerror(-rc));
	harness->skeleton = skeleton;
	harness->qp = map_memory(skeleton->maps.qp);
	harness->ack = map_memory(skeleton->maps.ack);
	harness->pending = map_memory(skeleton->maps.pending);
	harness->worker = map_memory(skeleton->maps.worker);
	harness->wake_fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "wake_ring", 0, 0,
					  (uint32_t)sysconf(_SC_PAGESIZE), NULL);
	cr_assert(harness->wake_fd >= 0);
	cr_assert(bpf_map_update_elem(bpf_map__fd(skeleton->maps.wake), &worker, &harness->wake_fd,
				      BPF_ANY) == 0);
}

static void zero_counters(struct harness *harness)
{
	struct xdp_counters *zero = calloc((size_t)libbpf_num_possible_cpus(), sizeof(*zero));
	int fd = bpf_map__fd(harness->skeleton->maps.counters);
	uint32_t key = 0;

	cr_assert(zero && bpf_map_update_elem(fd, &key, zero, BPF_ANY) == 0);
	free(zero);
}

static void fill_line(struct qp_line *line, bool ipv6, uint32_t start_psn, uint32_t highest_psn)
{
	line->worker = HARNESS_WORKER;
	line->start_psn = start_psn;
	line->highest_psn = highest_psn;
	memcpy(line->local_ip, ipv6 ? frame_local_ipv6 : frame_local_ipv4, 16);
	memcpy(line->remote_ip, ipv6 ? frame_remote_ipv6 : frame_remote_ipv4, 16);
	__atomic_store_n(&line->open, QP_OPEN | HARNESS_GENERATION, __ATOMIC_RELEASE);
}

void harness_open_qp(struct harness *harness, bool ipv6, uint32_t start_psn, uint32_t highest_psn)
{
	zero_counters(harness);
	memset(harness->ack, 0, HARNESS_QPS * sizeof(*harness->ack));
	memset(harness->pending, 0, HARNESS_QPS / 8);
	memset(harness->worker, 0, ACK_MAP_WORKERS * sizeof(*harness->worker));
	fill_line(&harness->qp[0], ipv6, start_psn, highest_psn);
	fill_line(&harness->qp[1], ipv6, start_psn, highest_psn);
	fill_line(&harness->qp[HARNESS_INDEX], ipv6, start_psn, highest_psn);
	fill_line(&harness->qp[HARNESS_CLOSED_INDEX], ipv6, start_psn, highest_psn);
	harness->qp[HARNESS_CLOSED_INDEX].open = 0;
	harness->qp[HARNESS_CLOSED_INDEX + 1] = harness->qp[HARNESS_CLOSED_INDEX];
	harness->qp[HARNESS_CLOSED_INDEX + 1].open = HARNESS_GENERATION;
}

uint32_t harness_run(struct harness *harness, const uint8_t *bytes, size_t length)
{
	uint8_t out[512];
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = bytes, .data_size_in = (uint32_t)length,
		    .data_out = out, .data_size_out = sizeof(out), .repeat = 1);
	int rc = bpf_prog_test_run_opts(bpf_program__fd(harness->skeleton->progs.ack_processor),
					&options);

	cr_assert(rc == 0, "test run of %zu bytes: %s", length, strerror(-rc));
	cr_assert(options.data_size_out == length && memcmp(out, bytes, length) == 0,
		  "the program changed the frame");
	return options.retval;
}

struct xdp_counters harness_counters(struct harness *harness)
{
	size_t cpus = (size_t)libbpf_num_possible_cpus(), fields = sizeof(struct xdp_counters) / 8;
	struct xdp_counters *each = calloc(cpus, sizeof(*each)), sum = { 0 };
	uint64_t *from = (uint64_t *)each, *to = (uint64_t *)&sum;
	int fd = bpf_map__fd(harness->skeleton->maps.counters);
	uint32_t key = 0;

	cr_assert(each && bpf_map_lookup_elem(fd, &key, each) == 0);
	for (size_t i = 0; i < cpus * fields; i++)
		to[i % fields] += from[i];
	free(each);
	return sum;
}

bool harness_untouched(struct harness *harness, bool with_counters)
{
	static const struct ack_line no_ack;
	static const struct xdp_counters none;
	struct xdp_counters count = harness_counters(harness);

	for (uint32_t i = 0; i < HARNESS_QPS; i++)
		if (memcmp(&harness->ack[i], &no_ack, sizeof(no_ack)) != 0)
			return false;
	for (uint32_t i = 0; i < HARNESS_QPS / ACK_MAP_QPS_PER_WORD; i++)
		if (harness->pending[i])
			return false;
	return !with_counters || memcmp(&count, &none, sizeof(none)) == 0;
}
