/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The libibverbs receiver: the choice of a GID and the N−1 books without a device; what needs one
 * runs where there is one, soft-RoCE included.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/udmabuf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../user/receiver/memory.h"
#include "../../user/receiver/verbs.h"
#include "../../user/receiver/verbs_gid.h"
#include "../../user/receiver/verbs_ledger.h"

#define IPV4(last) { [10] = 0xFF, [11] = 0xFF, [12] = 192, [13] = 0, [14] = 2, [15] = (last) }
#define IPV6(last) { [0] = 0x20, [1] = 0x01, [2] = 0x0D, [3] = 0xB8, [15] = (last) }
#define ROW(d, p, i, t, n, ip)                                                                     \
	{ .device = d, .port = p, .index = i, .type = VERBS_GID_##t, .ifindex = n, .gid = ip }

/* A dual-port NIC as mlx5 shows it, each GID once for v1 and once for v2; rxe; InfiniBand. */
static const struct verbs_gid table[] = {
	ROW(0, 1, 0, ROCE_V1, 3, IPV6(1)), ROW(0, 1, 1, ROCE_V2, 3, IPV6(1)),
	ROW(0, 1, 2, ROCE_V1, 3, IPV4(1)), ROW(0, 1, 3, ROCE_V2, 3, IPV4(1)),
	ROW(0, 2, 0, ROCE_V2, 4, IPV4(2)), ROW(0, 2, 1, ROCE_V2, 5, IPV4(9)),
	ROW(1, 1, 0, ROCE_V2, 6, IPV4(9)), ROW(2, 1, 0, INFINIBAND, 0, IPV6(5)),
	ROW(3, 1, 0, ROCE_V1, 7, IPV4(8)),
};

#define ROWS (sizeof(table) / sizeof(table[0]))

static const struct {
	const char *what;
	struct verbs_gid_wish wish;
	int result;
} wishes[] = {
	{ "IPv4, and not its v1 twin", { 0, -1, IPV4(1), 3 }, 3 },
	{ "IPv6, and not its v1 twin", { 0, -1, IPV6(1), 3 }, 1 },
	{ "the interface is not known", { 0, -1, IPV4(1), 0 }, 3 },
	{ "the interface is another one", { 0, -1, IPV4(1), 77 }, 3 },
	{ "two devices have it: the first", { 0, -1, IPV4(9), 0 }, 5 },
	{ "two devices have it: that of the interface", { 0, -1, IPV4(9), 6 }, 6 },
	{ "the port decides", { 2, -1, IPV4(2), 0 }, 4 },
	{ "on another port", { 1, -1, IPV4(2), 0 }, -EADDRNOTAVAIL },
	{ "nobody has it", { 0, -1, IPV4(200), 0 }, -EADDRNOTAVAIL },
	{ "RoCE v1 only", { 0, -1, IPV4(8), 0 }, -EPROTONOSUPPORT },
	{ "InfiniBand only", { 0, -1, IPV6(5), 0 }, -EPROTONOSUPPORT },
	{ "no such port", { 3, -1, IPV4(1), 0 }, -ENOENT },
	{ "by index, whatever the address", { 1, 3, IPV4(77), 0 }, 3 },
	{ "by index on the second port", { 2, 1, IPV4(77), 0 }, 5 },
	{ "by index, of v1", { 1, 2, IPV4(1), 0 }, -EPROTONOSUPPORT },
	{ "by index, of the other family", { 1, 1, IPV4(1), 0 }, -EAFNOSUPPORT },
	{ "no such index", { 1, 4, IPV4(1), 0 }, -ENOENT },
};

Test(verbs, gid_choice)
{
	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		int result = verbs_gid_choose(table, ROWS, &wishes[i].wish);

		cr_expect_eq(result, wishes[i].result, "%s: %d, expected %d", wishes[i].what,
			     result, wishes[i].result);
	}
	cr_expect_eq(verbs_gid_choose(NULL, 0, &wishes[0].wish), -EADDRNOTAVAIL);
}

Test(verbs, ledger_refuses_one_slot)
{
	struct verbs_ledger ledger;
	struct error error = { "" };

	cr_expect_eq(verbs_ledger_open(&ledger, 1, &error), -EINVAL);
	cr_expect(error.text[0]);
}

static void open_ledger(struct verbs_ledger *ledger, uint32_t slots)
{
	struct error error;

	cr_assert_eq(verbs_ledger_open(ledger, slots, &error), 0);
	ledger->posted = verbs_ledger_room(ledger);
}

/* Whatever the order of completions and releases, posted + unreleased is N−1 once all is posted. */
Test(verbs, ledger_keeps_the_rule)
{
	static const uint32_t slots[] = { 2, 3, 16, 1000 };

	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		struct verbs_ledger ledger;
		uint32_t number = 0;

		srand(1);
		open_ledger(&ledger, slots[i]);
		cr_assert_eq(ledger.posted, slots[i] - 1);
		for (int step = 0; step < 20000; step++) {
			if (ledger.posted && rand() % 2)
				cr_assert_eq(verbs_ledger_complete(&ledger, number++, 7), 0);
			else if (ledger.completed != ledger.released)
				verbs_ledger_release(&ledger, ledger.released + 1);
			cr_assert_leq(ledger.posted + ledger.completed - ledger.released,
				      slots[i] - 1);
			if (rand() % 3)
				ledger.posted += verbs_ledger_room(&ledger);
		}
		cr_expect_gt(ledger.completed, slots[i]);
		cr_expect_eq(ledger.bytes, ledger.completed * 7);
		verbs_ledger_close(&ledger);
	}
}

Test(verbs, ledger_completes_nothing_that_was_not_posted)
{
	struct verbs_ledger ledger;

	open_ledger(&ledger, 3);
	cr_expect_eq(verbs_ledger_complete(&ledger, 0, 1), 0);
	cr_expect_eq(verbs_ledger_complete(&ledger, 1, 1), 0);
	cr_expect_eq(verbs_ledger_complete(&ledger, 2, 1), -EPROTO);
	cr_expect_eq(ledger.completed, 2);
	cr_expect_eq(verbs_ledger_room(&ledger), 0, "both slots are still the reader's");
	verbs_ledger_release(&ledger, 1);
	cr_expect_eq(verbs_ledger_room(&ledger), 1);
	verbs_ledger_close(&ledger);
}

/* Immediates are the low half of the number, and may jump either way. */
Test(verbs, ledger_extends_the_immediate)
{
	static const struct {
		uint32_t immediate;
		uint64_t number;
	} rows[] = {
		{ 0xFFFFFFFE, 0xFFFFFFFE },  { 0xFFFFFFFF, 0xFFFFFFFF }, { 0, 0x100000000 },
		{ 3, 0x100000003 },          { 2, 0x100000002 },         { 0xFFFFFFFD, 0xFFFFFFFD },
		{ 0x7FFFFFFD, 0x17FFFFFFD },
	};
	struct verbs_ledger ledger;

	open_ledger(&ledger, 10);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct receiver_message message;

		cr_assert_eq(verbs_ledger_complete(&ledger, rows[i].immediate, (uint32_t)i), 0);
		message = verbs_ledger_message(&ledger, i);
		cr_expect_eq(message.number, rows[i].number, "%zu: %llx", i,
			     (unsigned long long)message.number);
		cr_expect_eq(message.slot, rows[i].number % 10);
		cr_expect_eq(message.length, i);
	}
	verbs_ledger_close(&ledger);
}

Test(receiver_memory, is_zero_and_aligned)
{
	struct receiver_memory memory = { 0 };
	struct error error = { "" };

	cr_assert_eq(receiver_memory_open(&memory, 10001, false, &error), 0);
	cr_expect_eq((uintptr_t)memory.bytes % 4096, 0);
	cr_expect_geq(memory.mapped, 10001);
	for (size_t i = 0; i < 10001; i++)
		cr_assert_eq(memory.bytes[i], 0);
	receiver_memory_close(&memory);
	receiver_memory_close(&memory);
	cr_expect_eq(receiver_memory_open(&memory, 0, false, &error), -EINVAL);
	cr_expect_lt(receiver_memory_open(&memory, SIZE_MAX - 5, false, &error), 0);
	cr_expect_lt(receiver_memory_open(&memory, (size_t)1 << 62, false, &error), 0);
}

Test(receiver_memory, huge)
{
	struct receiver_memory memory = { 0 };
	struct error error = { "" };
	int rc = receiver_memory_open(&memory, 1000, true, &error);

	if (rc) {
		cr_expect(strstr(error.text, "hugepages"), "%s", error.text);
		cr_skip_test("no huge pages here: %s", error.text);
	}
	cr_expect_geq(memory.mapped, 65536);
	memory.bytes[memory.mapped - 1] = 1;
	receiver_memory_close(&memory);
}

/* With a device: it receives from itself, so that nobody else is needed. */

static void find_device(struct verbs_config *config)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_gid_entry entries[64];
	ssize_t count = context ? ibv_query_gid_table(context, entries, 64, 0) : 0;
	bool found = false;

	for (ssize_t i = 0; i < count && !found; i++) {
		static const uint8_t ipv4[12] = { [10] = 0xFF, [11] = 0xFF };

		found = entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
			!memcmp(entries[i].gid.raw, ipv4, sizeof(ipv4));
		memcpy(config->choice.ip, entries[i].gid.raw, 16);
		memcpy(config->peer_ip, entries[i].gid.raw, 16);
	}
	if (context)
		ibv_close_device(context);
	if (list)
		ibv_free_device_list(list);
	if (!found)
		cr_skip_test("there is no RDMA device with a RoCEv2 IPv4 address");
}

static struct verbs_config config(void *memory)
{
	return (struct verbs_config){
		.choice = { .gid_index = -1 },
		.peer_qpn = 0x123,
		.psn = 0x456,
		.immediate = true,
		.pmtu = 256,
		.message_size = 4096,
		.slot_size = 4096,
		.slot_count = 4,
		.rnr_timer = 12,
		.memory = memory,
	};
}

Test(verbs, without_a_device)
{
	struct verbs_choice choice = { .gid_index = -1 };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct error error = { "" };

	if (list && *list)
		cr_skip_test("this machine has an RDMA device");
	cr_expect_eq(verbs_check(&choice, &error), -ENODEV);
	cr_expect(strstr(error.text, "rdma_rxe") && strstr(error.text, "--soft"), "%s", error.text);
}

Test(verbs, opens_and_closes)
{
	static _Alignas(4096) uint8_t memory[4 * 4096];
	struct verbs_config wanted = config(memory);
	struct verbs_address address = { 0 };
	struct error error = { "" };
	uint64_t completed = 77;
	struct verbs *verbs;

	find_device(&wanted);
	for (int i = 0; i < 50; i++) {
		wanted.uc = i % 2;
		cr_assert_eq(verbs_open(&verbs, &wanted, &address, &error), 0, "%s", error.text);
		cr_expect_eq(address.address, (uintptr_t)memory);
		cr_expect(!memcmp(address.ip, wanted.choice.ip, 16) && address.qpn && address.port);
		cr_expect_eq(verbs_collect(verbs, &completed, &error), 0, "%s", error.text);
		cr_expect_eq(completed, 0);
		verbs_close(verbs);
	}
	wanted.message_size = UINT64_MAX;
	cr_expect_eq(verbs_open(&verbs, &wanted, &address, &error), -EMSGSIZE);
	wanted.message_size = 4096;
	wanted.slot_count = 1;
	cr_expect_eq(verbs_open(&verbs, &wanted, &address, &error), -EINVAL);
	wanted.slot_count = 0x7FFFFFFF;
	cr_expect_eq(verbs_open(&verbs, &wanted, &address, &error), -EINVAL);
}

static int make_dmabuf(size_t size)
{
	int udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	struct udmabuf_create create = { .size = size };
	int memfd, dmabuf;

	if (udmabuf < 0)
		cr_skip_test("no dma-buf can be made here: /dev/udmabuf: %s", strerror(errno));
	memfd = memfd_create("slots", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	cr_assert(!ftruncate(memfd, (off_t)size) && !fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	create.memfd = (uint32_t)memfd;
	dmabuf = ioctl(udmabuf, UDMABUF_CREATE, &create);
	cr_assert_geq(dmabuf, 0, "udmabuf: %s", strerror(errno));
	close(memfd);
	close(udmabuf);
	return dmabuf;
}

/* Receives, or says in a sentence that the driver cannot; soft-RoCE of most kernels cannot. */
Test(verbs, dmabuf)
{
	struct verbs_config wanted = config(NULL);
	struct verbs_address address;
	struct error error = { "" };
	struct verbs *verbs;
	int rc;

	find_device(&wanted);
	wanted.dmabuf = true;
	wanted.dmabuf_fd = make_dmabuf(8 * 4096);
	wanted.dmabuf_offset = 4 * 4096;
	rc = verbs_open(&verbs, &wanted, &address, &error);
	close(wanted.dmabuf_fd);
	if (rc) {
		cr_expect_eq(rc, -EOPNOTSUPP, "%d: %s", rc, error.text);
		cr_expect(strstr(error.text, "dma-buf"), "%s", error.text);
		cr_skip_test("%s", error.text);
	}
	cr_expect_eq(address.address, wanted.dmabuf_offset);
	verbs_close(verbs);
}
