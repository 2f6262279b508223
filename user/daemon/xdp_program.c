/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls: bpf, mmap, netlink through libbpf. libbpf's own messages are kept off the terminal:
 * what a person needs of them is in the sentence.
 */
#include "xdp_program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <linux/if_link.h>

#include <bpf/ack_processor.skel.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

struct internal {
	struct ack_processor *skeleton;
	int link;
	uint32_t workers;
	uint32_t cpus;
	int wake_fd[ACK_MAP_WORKERS];
	struct ring_buffer *wake[ACK_MAP_WORKERS];
};

static size_t page_round(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

static int refuse_privilege(struct error *error, int code, const char *what)
{
	return error_set(
		error, code,
		"%s was refused (%s): it needs the capabilities CAP_BPF and CAP_NET_ADMIN; "
		"run as root, or grant them",
		what, strerrorname_np(code));
}

/* Name and id of a loaded program, as far as we may know them. */
static void describe_program(uint32_t id, char *text, size_t size)
{
	struct bpf_prog_info info = { 0 };
	__u32 length = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id);

	if (fd >= 0 && bpf_prog_get_info_by_fd(fd, &info, &length) == 0 && info.name[0])
		snprintf(text, size, "\"%s\", program id %u", info.name, id);
	else
		snprintf(text, size, "program id %u", id);
	if (fd >= 0)
		close(fd);
}

/* An offloaded program may stay: it runs on the card, in front of ours. */
static int refuse_if_attached(int ifindex, const char *interface, struct error *error)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	char program[64];
	int rc = bpf_xdp_query(ifindex, 0, &query);
	uint32_t id;

	if (rc)
		return error_set(error, -rc,
				 "asking the kernel for the XDP program of %s failed (%s)",
				 interface, strerrorname_np(-rc));
	id = query.drv_prog_id ? query.drv_prog_id : query.skb_prog_id;
	if (!id)
		return 0;
	describe_program(id, program, sizeof(program));
	return error_set(
		error, EBUSY,
		"%s already has an XDP program (%s, %s mode), which is not replaced: stop the "
		"program that owns it, or detach it with \"ip link set dev %s xdp%s off\"",
		interface, program, query.drv_prog_id ? "native" : "generic", interface,
		query.drv_prog_id ? "drv" : "generic");
}

static int refuse_load(struct error *error, int code)
{
	struct utsname host;

	/* EACCES is the verifier's word, not one about privilege. */
	if (code == EPERM)
		return refuse_privilege(error, code, "loading the XDP program");
	if (code == ENOMEM)
		return error_set(
			error, code,
			"no memory for the BPF maps (%s): fewer QPs, or a higher memory limit "
			"of this service, are needed",
			strerrorname_np(code));
	uname(&host);
	return error_set(
		error, code,
		"the kernel refused the XDP program (%s): Linux 6.1 or later is needed, this "
		"is %s",
		strerrorname_np(code), host.release);
}

static int load(struct internal *in, uint32_t qps, struct error *error)
{
	struct ack_processor *skeleton = ack_processor__open();
	uint32_t zero = 0, version = ACK_MAP_VERSION;
	int rc;

	if (!skeleton)
		return refuse_load(error, errno);
	in->skeleton = skeleton;
	rc = bpf_map__set_max_entries(skeleton->maps.qp, qps);
	if (!rc)
		rc = bpf_map__set_max_entries(skeleton->maps.ack, qps);
	if (!rc)
		rc = bpf_map__set_max_entries(skeleton->maps.pending, qps / ACK_MAP_QPS_PER_WORD);
	/* libbpf itself rounds the inner map of wake up to a page. */
	if (!rc)
		rc = ack_processor__load(skeleton);
	if (!rc)
		rc = bpf_map_update_elem(bpf_map__fd(skeleton->maps.layout), &zero, &version,
					 BPF_ANY);
	return rc ? refuse_load(error, -rc) : 0;
}

static int ignore_wake(void *context, void *data, size_t size)
{
	(void)context;
	(void)data;
	(void)size;
	return 0;
}

static int make_wake_ring(struct internal *in, uint32_t worker, struct error *error)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "wake_ring", 0, 0,
				page_round(ACK_MAP_WAKE_BYTES), NULL);
	int rc;

	if (fd < 0)
		return refuse_load(error, -fd);
	in->wake_fd[worker] = fd;
	rc = bpf_map_update_elem(bpf_map__fd(in->skeleton->maps.wake), &worker, &fd, BPF_ANY);
	if (rc)
		return refuse_load(error, -rc);
	in->wake[worker] = ring_buffer__new(fd, ignore_wake, NULL, NULL);
	if (!in->wake[worker])
		return error_set(error, errno, "mapping the wake-up ring of worker %u failed (%s)",
				 worker, strerrorname_np(errno));
	return 0;
}

static void *map_memory(const struct bpf_map *map)
{
	size_t bytes = (size_t)bpf_map__value_size(map) * bpf_map__max_entries(map);
	void *memory = mmap(NULL, page_round(bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
			    bpf_map__fd(map), 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void unmap_memory(const struct bpf_map *map, void *memory)
{
	if (memory)
		munmap(memory,
		       page_round((size_t)bpf_map__value_size(map) * bpf_map__max_entries(map)));
}

static int map_all(struct xdp_program *program, struct error *error)
{
	struct internal *in = program->internal;

	program->qp = map_memory(in->skeleton->maps.qp);
	program->ack = map_memory(in->skeleton->maps.ack);
	program->pending = map_memory(in->skeleton->maps.pending);
	program->worker = map_memory(in->skeleton->maps.worker);
	if (!program->qp || !program->ack || !program->pending || !program->worker)
		return error_set(error, errno, "mapping the BPF maps into memory failed (%s)",
				 strerrorname_np(errno));
	return 0;
}

static int create_link(int program_fd, int ifindex, uint32_t mode)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = mode);

	return bpf_link_create(program_fd, ifindex, BPF_XDP, &options);
}

/* Whether generic mode could still work after native mode was refused like this. */
static bool only_native_is_refused(int code)
{
	return code != EBUSY && code != EEXIST && code != EPERM && code != ENODEV && code != ENOMEM;
}

static int attach(struct xdp_program *program, int ifindex, const char *interface,
		  struct error *error)
{
	struct internal *in = program->internal;
	int fd = bpf_program__fd(in->skeleton->progs.ack_processor);
	int link = create_link(fd, ifindex, XDP_FLAGS_DRV_MODE);
	int rc;

	program->native = link >= 0;
	if (link < 0 && only_native_is_refused(-link)) {
		snprintf(program->native_refused, sizeof(program->native_refused),
			 "the driver of %.16s refused native mode (%s)", interface,
			 strerrorname_np(-link));
		link = create_link(fd, ifindex, XDP_FLAGS_SKB_MODE);
	}
	if (link >= 0) {
		in->link = link;
		return 0;
	}
	if (link == -EPERM)
		return refuse_privilege(error, EPERM, "attaching the XDP program");
	if (link == -EBUSY || link == -EEXIST) {
		/* Someone was faster than our first look. */
		rc = refuse_if_attached(ifindex, interface, error);
		if (rc)
			return rc;
	}
	return error_set(error, -link, "attaching the XDP program to %s failed (%s)", interface,
			 strerrorname_np(-link));
}

static int identify(struct xdp_program *program, struct error *error)
{
	struct internal *in = program->internal;
	struct bpf_prog_info info = { 0 };
	__u32 length = sizeof(info);
	int rc = bpf_prog_get_info_by_fd(bpf_program__fd(in->skeleton->progs.ack_processor), &info,
					 &length);

	program->program_id = info.id;
	if (rc)
		return error_set(error, -rc, "asking for the id of the XDP program failed (%s)",
				 strerrorname_np(-rc));
	return 0;
}

static int open_quietly(struct xdp_program *program, int ifindex, const char *interface,
			uint32_t workers, struct error *error)
{
	struct internal *in = program->internal;
	int rc = refuse_if_attached(ifindex, interface, error);

	if (!rc)
		rc = load(in, program->qps, error);
	for (uint32_t i = 0; !rc && i < workers; i++)
		rc = make_wake_ring(in, i, error);
	if (!rc)
		rc = map_all(program, error);
	if (!rc)
		rc = identify(program, error);
	if (!rc)
		rc = attach(program, ifindex, interface, error);
	return rc;
}

int xdp_program_open(struct xdp_program *program, int ifindex, const char *interface, uint32_t qps,
		     uint32_t workers, struct error *error)
{
	libbpf_print_fn_t print;
	struct internal *in;
	int cpus, rc;

	memset(program, 0, sizeof(*program));
	if (qps == 0 || qps > 65536 || qps % ACK_MAP_QPS_PER_WORD)
		return error_set(error, EINVAL,
				 "%u entries for QPs: a multiple of %u up to 65536 is needed", qps,
				 ACK_MAP_QPS_PER_WORD);
	if (workers == 0 || workers > ACK_MAP_WORKERS)
		return error_set(error, EINVAL, "%u workers: 1 to %u are possible", workers,
				 ACK_MAP_WORKERS);
	in = calloc(1, sizeof(*in));
	cpus = libbpf_num_possible_cpus();
	if (!in || cpus < 0) {
		free(in);
		return error_set(error, ENOMEM, "no memory for the XDP program's state");
	}
	in->link = -1;
	in->workers = workers;
	in->cpus = (uint32_t)cpus;
	for (uint32_t i = 0; i < ACK_MAP_WORKERS; i++)
		in->wake_fd[i] = -1;
	program->internal = in;
	program->qps = qps;

	print = libbpf_set_print(NULL);
	rc = open_quietly(program, ifindex, interface, workers, error);
	libbpf_set_print(print);
	if (rc)
		xdp_program_close(program);
	return rc;
}

/* The link goes first, so that no frame meets a half-closed state. */
void xdp_program_close(struct xdp_program *program)
{
	struct internal *in = program->internal;

	if (!in)
		return;
	if (in->link >= 0)
		close(in->link);
	for (uint32_t i = 0; i < in->workers; i++) {
		ring_buffer__free(in->wake[i]);
		if (in->wake_fd[i] >= 0)
			close(in->wake_fd[i]);
	}
	if (in->skeleton) {
		unmap_memory(in->skeleton->maps.qp, program->qp);
		unmap_memory(in->skeleton->maps.ack, program->ack);
		unmap_memory(in->skeleton->maps.pending, program->pending);
		unmap_memory(in->skeleton->maps.worker, program->worker);
	}
	ack_processor__destroy(in->skeleton);
	free(in);
	memset(program, 0, sizeof(*program));
}

int xdp_program_wake_fd(const struct xdp_program *program, uint32_t worker)
{
	const struct internal *in = program->internal;

	return worker < in->workers ? in->wake_fd[worker] : -EINVAL;
}

void xdp_program_drain_wake(struct xdp_program *program, uint32_t worker)
{
	struct internal *in = program->internal;

	if (worker < in->workers)
		ring_buffer__consume(in->wake[worker]);
}

int xdp_program_counters(const struct xdp_program *program, struct xdp_counters *sum)
{
	const struct internal *in = program->internal;
	struct xdp_counters *each = calloc(in->cpus, sizeof(*each));
	uint32_t zero = 0;
	int rc;

	memset(sum, 0, sizeof(*sum));
	if (!each)
		return -ENOMEM;
	rc = bpf_map_lookup_elem(bpf_map__fd(in->skeleton->maps.counters), &zero, each);
	for (uint32_t cpu = 0; rc == 0 && cpu < in->cpus; cpu++) {
		sum->acks += each[cpu].acks;
		sum->naks += each[cpu].naks;
		sum->cnps += each[cpu].cnps;
		sum->stale_acks += each[cpu].stale_acks;
		sum->invalid_psn += each[cpu].invalid_psn;
		sum->bad_icrc += each[cpu].bad_icrc;
		sum->bad_opcode += each[cpu].bad_opcode;
		sum->bad_length += each[cpu].bad_length;
		sum->bad_header += each[cpu].bad_header;
		sum->stale_generation += each[cpu].stale_generation;
		sum->contended += each[cpu].contended;
	}
	free(each);
	return rc;
}
