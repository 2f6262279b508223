/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AF_XDP over a veth pair. Each test process makes a network namespace of its own, which vanishes
 * with it; the far end of the pair is read with AF_PACKET.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../user/xsk/xsk.h"

#define ETHERTYPE 0x88B5 /* IEEE 802 local experimental: nothing else on the pair uses it */
#define ENTRIES 64u
#define CHUNKS 64u

static struct xsk *xsk;
static struct error error;
static int receiver = -1;

static void command(const char *line)
{
	cr_assert_eq(system(line), 0, "%s", line);
}

static void make_pair(void)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE) };
	struct timeval timeout = { .tv_sec = 2 };

	if (unshare(CLONE_NEWNET) < 0)
		cr_skip_test("no network namespace of our own: %s (needs root)", strerror(errno));
	if (system("command -v ip >/dev/null") != 0)
		cr_skip_test("the ip program (iproute2) is not installed");
	command("ip link add near mtu 9000 type veth peer name far mtu 9000");
	command("ip link set near up && ip link set far up");
	receiver = socket(AF_PACKET, SOCK_RAW, 0);
	cr_assert_geq(receiver, 0, "%s", strerror(errno));
	address.sll_ifindex = (int)if_nametoindex("far");
	cr_assert_eq(bind(receiver, (struct sockaddr *)&address, sizeof(address)), 0);
	setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
}

static struct xsk_config config_of(bool multi_buffer)
{
	return (struct xsk_config){
		.interface = "near",
		.umem_bytes = (size_t)CHUNKS * XSK_CHUNK,
		.tx_entries = ENTRIES,
		.multi_buffer = multi_buffer,
	};
}

static void open_xsk(bool multi_buffer)
{
	struct xsk_config config = config_of(multi_buffer);
	int rc = xsk_open(&xsk, &config, &error);

	if (rc == -EAFNOSUPPORT)
		cr_skip_test("%s", error.text);
	cr_assert_eq(rc, 0, "%s", error.text);
	cr_assert_eq(error.text[0], '\0');
}

static void setup(void)
{
	make_pair();
	open_xsk(true);
}

static void teardown(void)
{
	if (xsk)
		cr_expect_eq(xsk_invalid(xsk), 0);
	xsk_close(xsk);
}

TestSuite(xsk, .init = setup, .fini = teardown, .timeout = 60);
TestSuite(xsk_open, .init = make_pair, .timeout = 60);

/* An Ethernet frame whose every byte depends on its tag and its position. */
static void build(uint8_t *frame, uint32_t length, uint32_t tag)
{
	memset(frame, 0xff, 6); /* broadcast: reaches the far end whatever its address */
	memcpy(frame + 6, "\x02\x00\x00\x00\x00\x01", 6);
	frame[12] = ETHERTYPE >> 8;
	frame[13] = ETHERTYPE & 0xff;
	for (uint32_t i = 14; i < length; i++)
		frame[i] = (uint8_t)(tag * 31 + i * 7 + (i >> 8));
}

static void expect_frame(const uint8_t *frame, uint32_t length)
{
	static uint8_t got[16384];
	ssize_t n = recv(receiver, got, sizeof(got), 0);

	cr_assert_eq(n, (ssize_t)length, "%zd bytes instead of %u", n, length);
	cr_assert_arr_eq(got, frame, length);
}

static void expect_no_frame(void)
{
	uint8_t got[1];

	cr_assert_lt(recv(receiver, got, 1, MSG_DONTWAIT), 0);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Kicks until the TX ring is empty, for at most two seconds. */
static void kick_all(void)
{
	double end = seconds() + 2;
	int rc;

	do
		rc = xsk_kick(xsk);
	while (rc == 1 && seconds() < end);
	cr_assert_eq(rc, 0, "kick: %d", rc);
}

/* Exactly `count` completions come, and no more. */
static void complete_all(uint64_t *offsets, uint32_t count)
{
	double end = seconds() + 2;
	uint64_t more;
	uint32_t n = 0;

	while (n < count && seconds() < end)
		n += xsk_complete(xsk, offsets + n, count - n);
	cr_assert_eq(n, count, "%u of %u completions", n, count);
	cr_assert_eq(xsk_complete(xsk, &more, 1), 0);
	cr_assert_eq(xsk_outstanding(xsk), 0);
	cr_assert_eq(xsk_room(xsk), ENTRIES);
}

Test(xsk, every_frame_size_arrives_intact)
{
	uint64_t offsets[2];

	for (uint32_t length = 60; length <= 4170; length += length < 4080 ? 11 : 1) {
		/* Starts all over the chunk, so that the border falls anywhere in the frame. */
		uint32_t in_chunk = length <= XSK_CHUNK ? length % 61 * 64 : 0;
		uint64_t offset = XSK_CHUNK * (length % 32) + in_chunk;
		uint32_t count = in_chunk + length > XSK_CHUNK ? 2 : 1;

		build(xsk_umem(xsk) + offset, length, length);
		cr_assert_eq(xsk_submit(xsk, offset, length), count, "length %u", length);
		kick_all();
		expect_frame(xsk_umem(xsk) + offset, length);
		complete_all(offsets, count);
	}
}

Test(xsk, a_frame_over_the_border_gives_both_offsets_back)
{
	uint64_t offset = 5 * XSK_CHUNK + 64 - 14, offsets[2];
	uint64_t border = 6 * XSK_CHUNK;

	build(xsk_umem(xsk) + offset, 4170, 1);
	cr_assert_eq(xsk_submit(xsk, offset, 4170), 2);
	cr_assert_eq(xsk_outstanding(xsk), 2);
	kick_all();
	expect_frame(xsk_umem(xsk) + offset, 4170);
	complete_all(offsets, 2);
	cr_assert((offsets[0] == offset && offsets[1] == border) ||
		  (offsets[1] == offset && offsets[0] == border));
}

Test(xsk, nothing_leaves_before_the_kick)
{
	uint64_t offset;

	build(xsk_umem(xsk), 100, 1);
	cr_assert_eq(xsk_submit(xsk, 0, 100), 1);
	expect_no_frame();
	cr_assert_eq(xsk_complete(xsk, &offset, 1), 0);
	kick_all();
	expect_frame(xsk_umem(xsk), 100);
	complete_all(&offset, 1);
	cr_assert_eq(xsk_kick(xsk), 0, "a kick with nothing to send is harmless");
}

Test(xsk, one_frame_three_times_is_three_frames_and_three_completions)
{
	const uint64_t offset = 3 * XSK_CHUNK + 0x100;
	uint64_t offsets[3];

	build(xsk_umem(xsk) + offset, 1098, 9);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(xsk_submit(xsk, offset, 1098), 1);
	kick_all();
	for (int i = 0; i < 3; i++)
		expect_frame(xsk_umem(xsk) + offset, 1098);
	expect_no_frame();
	complete_all(offsets, 3);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(offsets[i], offset, "offset as it was given");
}

Test(xsk, room_goes_to_zero_and_comes_back)
{
	uint64_t offsets[ENTRIES];

	build(xsk_umem(xsk), 1098, 2);
	for (int round = 0; round < 5; round++) {
		for (uint32_t i = 0; i < ENTRIES; i++) {
			cr_assert_eq(xsk_room(xsk), ENTRIES - i);
			cr_assert_eq(xsk_submit(xsk, 0, 1098), 1);
		}
		cr_assert_eq(xsk_room(xsk), 0);
		cr_assert_eq(xsk_submit(xsk, 0, 1098), 0);
		kick_all();
		/* The TX ring is empty now, but the completion ring has no entry to spare. */
		cr_assert_eq(xsk_room(xsk), 0);
		cr_assert_eq(xsk_submit(xsk, 0, 1098), 0);
		for (uint32_t i = 0; i < ENTRIES; i++)
			expect_frame(xsk_umem(xsk), 1098);
		complete_all(offsets, ENTRIES);
	}
}

Test(xsk, half_a_frame_is_never_submitted)
{
	uint64_t offsets[ENTRIES];

	build(xsk_umem(xsk), 4170, 3);
	for (uint32_t i = 0; i < ENTRIES - 1; i++)
		cr_assert_eq(xsk_submit(xsk, 0, 60), 1);
	cr_assert_eq(xsk_room(xsk), 1);
	cr_assert_eq(xsk_submit(xsk, 0, 4170), 0, "two descriptors do not fit into one");
	cr_assert_eq(xsk_outstanding(xsk), ENTRIES - 1);
	kick_all();
	/* Now the TX ring has room, the completion ring has not. */
	cr_assert_eq(xsk_submit(xsk, 0, 4170), 0);
	cr_assert_eq(xsk_outstanding(xsk), ENTRIES - 1);
	for (uint32_t i = 0; i < ENTRIES - 1; i++)
		expect_frame(xsk_umem(xsk), 60);
	expect_no_frame();
	complete_all(offsets, ENTRIES - 1);
}

Test(xsk, many_times_round_the_rings)
{
	const uint32_t lengths[] = { 60, 1098, 2122, 4096, 4170 };
	uint32_t sent = 0, received = 0, completed = 0, descriptors = 0;
	uint64_t offsets[ENTRIES];
	double end = seconds() + 20;

	for (uint32_t i = 0; i < 8; i++)
		build(xsk_umem(xsk) + (uint64_t)i * 2 * XSK_CHUNK, 4170, i);
	while (received < 5000 && seconds() < end) {
		while (sent < 5000) {
			uint32_t n = xsk_submit(xsk, (uint64_t)(sent % 8) * 2 * XSK_CHUNK,
						lengths[sent % 5]);
			if (n == 0)
				break;
			descriptors += n;
			sent++;
		}
		cr_assert_geq(xsk_kick(xsk), 0);
		for (uint8_t peek; recv(receiver, &peek, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
		     received++)
			expect_frame(xsk_umem(xsk) + (uint64_t)(received % 8) * 2 * XSK_CHUNK,
				     lengths[received % 5]);
		completed += xsk_complete(xsk, offsets, ENTRIES);
	}
	cr_assert_eq(received, 5000);
	while (completed < descriptors && seconds() < end)
		completed += xsk_complete(xsk, offsets, ENTRIES);
	cr_assert_eq(completed, descriptors);
	cr_assert_eq(xsk_room(xsk), ENTRIES);
}

Test(xsk, interface_down_then_up_loses_no_descriptor)
{
	uint64_t offsets[4];

	command("ip link set near down");
	for (uint32_t i = 0; i < 4; i++) {
		build(xsk_umem(xsk) + i * XSK_CHUNK, 500 + i, i);
		cr_assert_eq(xsk_submit(xsk, i * XSK_CHUNK, 500 + i), 1);
	}
	cr_assert_eq(xsk_kick(xsk), -ENETDOWN);
	cr_assert_eq(xsk_complete(xsk, offsets, 4), 0);
	cr_assert_eq(xsk_room(xsk), ENTRIES - 4);
	command("ip link set near up");
	/* The far end's carrier follows a moment later. */
	while (system("ip link show near | grep -q LOWER_UP") != 0)
		usleep(1000);
	kick_all();
	for (uint32_t i = 0; i < 4; i++)
		expect_frame(xsk_umem(xsk) + i * XSK_CHUNK, 500 + i);
	complete_all(offsets, 4);
}

Test(xsk, frames_that_the_driver_drops_complete_too)
{
	uint64_t offsets[4];

	command("ip link set far down");
	build(xsk_umem(xsk), 100, 1);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(xsk_submit(xsk, 0, 100), 1);
	kick_all();
	complete_all(offsets, 4);
}

Test(xsk, interface_that_vanishes_is_named_by_the_kick)
{
	cr_assert_eq(xsk_submit(xsk, 0, 100), 1);
	command("ip link delete near");
	cr_assert_eq(xsk_kick(xsk), -ENXIO);
}

static uint32_t count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	uint32_t count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static uint32_t count_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	uint32_t count = 0;

	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "[xsk]") || strstr(line, "socket:") ? 1 : 0;
	fclose(maps);
	return count;
}

Test(xsk_open, closing_leaves_nothing_and_the_queue_can_be_opened_again)
{
	uint32_t before = count_descriptors(), mappings = count_mappings();
	uint64_t offset;

	for (int i = 0; i < 10; i++) {
		open_xsk(i & 1);
		build(xsk_umem(xsk), 200, (uint32_t)i);
		cr_assert_eq(xsk_submit(xsk, 0, 200), 1);
		kick_all();
		expect_frame(xsk_umem(xsk), 200);
		complete_all(&offset, 1);
		xsk_close(xsk);
	}
	cr_assert_eq(count_descriptors(), before);
	cr_assert_eq(count_mappings(), mappings);
	cr_assert_eq(system("ip -d link show near | grep -q xdp"), 256, "no program was attached");
}

Test(xsk_open, closing_with_frames_in_flight)
{
	open_xsk(true);
	build(xsk_umem(xsk), 4170, 1);
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(xsk_submit(xsk, 0, 4170), 2);
	cr_assert_geq(xsk_kick(xsk), 0);
	xsk_close(xsk);
	open_xsk(true);
	xsk_close(xsk);
}

Test(xsk_open, a_queue_in_use_is_refused_after_a_while)
{
	struct xsk_config config = config_of(false);
	struct xsk *second;
	double start = seconds();

	open_xsk(false);
	cr_assert_eq(xsk_open(&second, &config, &error), -EBUSY);
	cr_assert_null(second);
	cr_assert(strstr(error.text, "queue 0 of near is in use"), "%s", error.text);
	cr_assert_lt(seconds() - start, 2);
	xsk_close(xsk);
	open_xsk(false);
	xsk_close(xsk);
}

struct refusal {
	const char *interface;
	uint32_t queue;
	size_t umem_bytes;
	uint32_t tx_entries;
	int code;
	const char *sentence;
};

Test(xsk_open, refusals_name_the_cure)
{
	static const struct refusal table[] = {
		{ "nowhere", 0, XSK_CHUNK, 64, ENODEV, "there is no interface nowhere" },
		{ "near", 1, XSK_CHUNK, 64, ENODEV, "has no queue 1: it has 1" },
		{ "point", 0, XSK_CHUNK, 64, EOPNOTSUPP, "does not carry Ethernet" },
		{ "near", 0, XSK_CHUNK + 1, 64, EINVAL, "not a multiple of 4096" },
		{ "near", 0, 0, 64, EINVAL, "not a multiple of 4096" },
		{ "near", 0, XSK_CHUNK, 100, EINVAL, "100 entries is not a power of two" },
		{ "near", 0, XSK_CHUNK, 1, EINVAL, "1 entries is not a power of two" },
	};

	command("ip link add point type ipip local 192.0.2.1 remote 192.0.2.2 2>/dev/null || "
		"ip tuntap add point mode tun");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct refusal *row = &table[i];
		struct xsk_config config = {
			.interface = row->interface,
			.queue = row->queue,
			.umem_bytes = row->umem_bytes,
			.tx_entries = row->tx_entries,
		};

		cr_expect_eq(xsk_open(&xsk, &config, &error), -row->code, "row %zu: %s", i,
			     error.text);
		cr_expect(strstr(error.text, row->sentence), "row %zu: %s", i, error.text);
		cr_expect_null(xsk);
	}
}

Test(xsk_open, a_queue_that_cannot_be_counted_is_refused_by_the_bind)
{
	struct xsk_config config = config_of(true);

	if (system("ip link add other type bridge && ip link set other up") != 0)
		cr_skip_test("no bridge device on this kernel");
	config.interface = "other";
	config.queue = 77;
	cr_assert_eq(xsk_open(&xsk, &config, &error), -EINVAL, "%s", error.text);
	cr_assert(strstr(error.text, "queue 77"), "%s", error.text);
}

/* Another user, without any capability; the namespace stays. */
static void drop_privilege(void)
{
	cr_assert_eq(setresuid(65534, 65534, 65534), 0);
}

Test(xsk_open, without_privilege)
{
	struct xsk_config config = config_of(false);

	drop_privilege();
	cr_assert_eq(xsk_open(&xsk, &config, &error), -EPERM, "%s", error.text);
	cr_assert(strstr(error.text, "CAP_NET_RAW"), "%s", error.text);
}

static void drop_ipc_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	cr_assert_eq(syscall(SYS_capget, &header, data), 0);
	data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
	cr_assert_eq(syscall(SYS_capset, &header, data), 0);
}

Test(xsk_open, the_memlock_that_is_needed_is_named)
{
	struct xsk_config config = config_of(false);
	struct rlimit limit = { 65536, 65536 };

	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	drop_ipc_lock();
	cr_assert_eq(xsk_open(&xsk, &config, &error), -ENOBUFS, "%s", error.text);
	cr_assert(strstr(error.text, "at least 256 KiB"), "%s", error.text);
}
