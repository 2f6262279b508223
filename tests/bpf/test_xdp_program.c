/* SPDX-License-Identifier: BSD-2-Clause */
/* The loader, on a veth pair in a network namespace that ends with the test. */
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>

#include "../../user/daemon/xdp_program.h"
#include "frame.h"

#define QPS 128u
#define WORKERS 3u
#define INDEX 70u
#define GENERATION 9u
#define QPN (GENERATION << 16 | INDEX)

/* A namespace with the pair "ours" and "peer", both up. */
static int make_namespace(void)
{
	if (unshare(CLONE_NEWNET) != 0)
		cr_skip_test("no network namespace can be made (%s): run as root", strerror(errno));
	if (system("ip link add ours type veth peer name peer && ip link set lo up && "
		   "ip link set ours up && ip link set peer up") != 0)
		cr_skip_test("no veth pair can be made: iproute2 and the veth driver are needed");
	return (int)if_nametoindex("ours");
}

static void open_program(struct xdp_program *program, int ifindex, const char *interface)
{
	struct error error = { 0 };
	int rc = xdp_program_open(program, ifindex, interface, QPS, WORKERS, &error);

	if (rc == -EPERM)
		cr_skip_test("BPF is not permitted here: %s", error.text);
	cr_assert(rc == 0, "%s", error.text);
}

static struct bpf_xdp_query_opts query(int ifindex)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, found);

	cr_assert(bpf_xdp_query(ifindex, 0, &found) == 0);
	return found;
}

static void open_qp(struct xdp_program *program, uint32_t worker)
{
	struct qp_line *line = &program->qp[INDEX];

	line->worker = worker;
	line->start_psn = 100;
	line->highest_psn = 200;
	memcpy(line->local_ip, frame_local_ipv4, 16);
	memcpy(line->remote_ip, frame_remote_ipv4, 16);
	__atomic_store_n(&line->open, QP_OPEN | GENERATION, __ATOMIC_RELEASE);
}

static void send_frame(const char *interface, const struct frame_spec *spec)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_halen = ETH_ALEN,
				  .sll_ifindex = (int)if_nametoindex(interface) };
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	struct frame frame;

	frame_build(&frame, spec);
	cr_assert(fd >= 0);
	cr_assert(sendto(fd, frame.bytes, frame.length, 0, (void *)&to, sizeof(to)) ==
		  (ssize_t)frame.length);
	close(fd);
}

static bool is_readable(int fd, int milliseconds)
{
	struct pollfd wake = { .fd = fd, .events = POLLIN };

	return poll(&wake, 1, milliseconds) == 1;
}

/* A frame from the wire reaches the maps and the sleeping worker through what was opened. */
static void check_way_of_an_ack(struct xdp_program *program, const char *from)
{
	struct xdp_counters count;
	uint32_t worker = 2;

	open_qp(program, worker);
	program->worker[worker].sleeping = 1;
	send_frame(from,
		   &(struct frame_spec){ .qpn = QPN, .psn = 150, .syndrome = 0x1F, .msn = 4 });
	cr_assert(is_readable(xdp_program_wake_fd(program, worker), 2000), "not woken");
	cr_expect(!is_readable(xdp_program_wake_fd(program, 0), 0), "another worker was woken");
	xdp_program_drain_wake(program, worker);
	cr_expect(!is_readable(xdp_program_wake_fd(program, worker), 0), "not drained");
	cr_expect(program->worker[worker].sleeping == 0);
	cr_expect(program->ack[INDEX].ack == ack_word(150, GENERATION, 0x1F, 4));
	cr_expect(program->pending[INDEX / 64] == 1ull << INDEX % 64);
	cr_expect(xdp_program_counters(program, &count) == 0 && count.acks == 1);
}

Test(xdp_program, native_on_veth)
{
	int ifindex = make_namespace();
	struct xdp_program program;
	struct bpf_xdp_query_opts found;

	open_program(&program, ifindex, "ours");
	cr_expect(program.native && program.native_refused[0] == 0);
	cr_expect(program.qps == QPS);
	found = query(ifindex);
	cr_expect(found.drv_prog_id == program.program_id && program.program_id != 0);
	check_way_of_an_ack(&program, "peer");
	cr_expect(xdp_program_wake_fd(&program, WORKERS) == -EINVAL);
	xdp_program_close(&program);
	cr_expect(query(ifindex).prog_id == 0, "still attached after close");
}

/* The loopback device has no native mode. */
Test(xdp_program, generic_where_native_is_refused)
{
	struct xdp_program program;
	int ifindex;

	make_namespace();
	ifindex = (int)if_nametoindex("lo");
	open_program(&program, ifindex, "lo");
	cr_expect(!program.native);
	cr_expect(strstr(program.native_refused, "EOPNOTSUPP"), "%s", program.native_refused);
	cr_expect(query(ifindex).skb_prog_id == program.program_id);
	check_way_of_an_ack(&program, "lo");
	xdp_program_close(&program);
	cr_expect(query(ifindex).prog_id == 0);
}

static int load_other(const char *name)
{
	struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, name, "GPL", pass, 2, NULL);

	if (fd == -EPERM)
		cr_skip_test("BPF is not permitted here: run as root");
	cr_assert(fd >= 0);
	return fd;
}

static void expect_refusal(int ifindex, const char *name, uint32_t id, const char *mode)
{
	struct xdp_program program;
	struct error error = { 0 };
	char number[16];

	snprintf(number, sizeof(number), "id %u", id);
	cr_expect(xdp_program_open(&program, ifindex, "ours", QPS, WORKERS, &error) == -EBUSY);
	cr_expect(strstr(error.text, name) && strstr(error.text, number) &&
			  strstr(error.text, mode) && strstr(error.text, "ours"),
		  "%s", error.text);
}

Test(xdp_program, other_program_is_not_replaced)
{
	static const uint32_t flags[] = { XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE };
	int ifindex = make_namespace(), fd = load_other("someone_else");

	for (int i = 0; i < 2; i++) {
		cr_assert(bpf_xdp_attach(ifindex, fd, flags[i], NULL) == 0);
		expect_refusal(ifindex, "someone_else", query(ifindex).prog_id,
			       i ? "xdpgeneric off" : "xdpdrv off");
		cr_expect(query(ifindex).prog_id != 0, "the other program was detached");
		cr_assert(bpf_xdp_detach(ifindex, flags[i], NULL) == 0);
	}
	close(fd);
}

Test(xdp_program, second_opener_is_refused)
{
	int ifindex = make_namespace();
	struct xdp_program program;

	open_program(&program, ifindex, "ours");
	expect_refusal(ifindex, "ack_processor", program.program_id, "native");
	cr_expect(query(ifindex).prog_id == program.program_id);
	xdp_program_close(&program);
}

/* The namespace of the parent is that of the child; the id comes through the pipe when it is
 * attached. */
static pid_t start_owner(int ifindex, uint32_t *id)
{
	struct xdp_program program;
	struct error error = { 0 };
	int ready[2];
	pid_t child;

	cr_assert(pipe(ready) == 0);
	child = fork();
	cr_assert(child >= 0);
	if (child == 0) {
		*id = 0;
		if (xdp_program_open(&program, ifindex, "ours", QPS, WORKERS, &error) == 0)
			*id = program.program_id;
		if (write(ready[1], id, sizeof(*id)) != sizeof(*id))
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	cr_assert(read(ready[0], id, sizeof(*id)) == sizeof(*id), "the child died");
	close(ready[0]);
	return child;
}

/* The kernel frees a program a moment after its last user is gone. */
static bool is_gone(uint32_t id)
{
	for (int i = 0; i < 300; i++) {
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd == -ENOENT)
			return true;
		if (fd >= 0)
			close(fd);
		usleep(10000);
	}
	return false;
}

Test(xdp_program, kill_9_leaves_nothing)
{
	int ifindex = make_namespace(), status;
	struct xdp_program program;
	uint32_t id = 0;
	pid_t child = start_owner(ifindex, &id);

	cr_expect(id == 0 || query(ifindex).prog_id == id);
	kill(child, SIGKILL);
	cr_assert(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	if (id == 0)
		cr_skip_test("BPF is not permitted here: run as root");
	cr_expect(query(ifindex).prog_id == 0, "still attached after SIGKILL");
	cr_expect(is_gone(id), "the program is still loaded");
	open_program(&program, ifindex, "ours");
	xdp_program_close(&program);
}

/* In a child, because it gives its privileges away. */
Test(xdp_program, missing_privilege)
{
	int ifindex = make_namespace(), status;
	pid_t child = fork();

	if (child == 0) {
		struct xdp_program program;
		struct error error = { 0 };
		int rc;

		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(2);
		rc = xdp_program_open(&program, ifindex, "ours", QPS, WORKERS, &error);
		_exit(rc == -EPERM && strstr(error.text, "CAP_BPF") &&
				      strstr(error.text, "run as root")
			      ? 0
			      : 1);
	}
	cr_assert(waitpid(child, &status, 0) == child);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

Test(xdp_program, bad_arguments)
{
	static const struct {
		int ifindex;
		uint32_t qps, workers;
		int rc;
	} rows[] = {
		{ 1, 0, 1, -EINVAL },  { 1, 65, 1, -EINVAL },  { 1, 65536 + 64, 1, -EINVAL },
		{ 1, 64, 0, -EINVAL }, { 1, 64, 65, -EINVAL }, { 7777, 64, 1, -ENODEV },
	};

	make_namespace();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct xdp_program program;
		struct error error = { 0 };
		int rc = xdp_program_open(&program, rows[i].ifindex, "none", rows[i].qps,
					  rows[i].workers, &error);

		/* Linux 6.1 itself says EINVAL where there is no such interface. */
		cr_expect(rc == rows[i].rc || rc == -EINVAL, "row %zu: %d, %s", i, rc, error.text);
		cr_expect(error.text[0] != 0);
		xdp_program_close(&program);
	}
}

/* All sizes that can be asked for load and map; and opening leaks no descriptor. */
Test(xdp_program, sizes)
{
	static const uint32_t sizes[] = { 64, ACK_MAP_QPS, 65536 };
	int ifindex = make_namespace(), before = dup(0), after;
	struct error error = { 0 };

	close(before);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct xdp_program program;

		cr_assert(xdp_program_open(&program, ifindex, "ours", sizes[i], ACK_MAP_WORKERS,
					   &error) == 0,
			  "%s", error.text);
		program.qp[sizes[i] - 1].start_psn = 1;
		program.ack[sizes[i] - 1].cnps = 1;
		program.pending[sizes[i] / 64 - 1] = 1;
		program.worker[ACK_MAP_WORKERS - 1].sleeping = 1;
		xdp_program_close(&program);
	}
	after = dup(0);
	cr_expect(after == before, "descriptor %d instead of %d is free", after, before);
	close(after);
}
