/* SPDX-License-Identifier: BSD-2-Clause */
/* Packet mode and the record: which packets a message becomes, in RC and in UC. */
#include <criterion/criterion.h>
#include <endian.h>
#include <string.h>

#include <xdp2roce/xdp2roce.h>

#include "../../user/engine/qp.h"

#define PMTU 256u
#define SLOT 2048u
#define SLOTS 3u
#define ADDRESS 0x10000u
#define RING 64u

static uint8_t memory[RING * 4096] __attribute__((aligned(4096)));
static uint8_t payload[SLOT];
static uint8_t target[SLOT * SLOTS];
static struct qp qp;

struct seen {
	uint8_t opcode;
	uint64_t address;
	uint32_t length; /* payload bytes */
	uint32_t immediate;
	bool ackreq;
};

static struct qp_config base(void)
{
	return (struct qp_config){
		.framer = { .local_ip = { [10] = 0xFF, 0xFF },
			    .remote_ip = { [10] = 0xFF, 0xFF },
			    .ttl = 64 },
		.start_psn = 0xFFFFF8,
		.remote_address = ADDRESS,
		.slot_size = SLOT,
		.slot_count = SLOTS,
		.pmtu = PMTU,
		.immediate = true,
		.packet_mode = true,
		.ring = RING,
		.chunk = 4096,
	};
}

static void open_qp(const struct qp_config *config)
{
	struct error error;

	for (uint32_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7 + i / 256);
	memset(target, 0xEE, sizeof(target));
	cr_assert_eq(qp_open(&qp, config, memory, 0, &error), 0, "%s", error.text);
	qp.credits.unlimited = true;
}

/* The next packet; its payload is written to the target, as a receiver would. False when there is
 * none. */
static bool next(struct seen *seen)
{
	static uint64_t at;
	const uint8_t *bth_at, *rest;
	const struct roce_bth *bth;
	struct frame frame;
	uint32_t operation, pad;

	if (qp_transmit(&qp, 0, &frame) != QP_FRAME)
		return false;
	bth_at = memory + frame.offset + qp.framer.header_len;
	bth = (const void *)bth_at;
	rest = bth_at + sizeof(*bth);
	operation = bth->opcode & 0x1F;
	pad = (bth->flags & ROCE_BTH_PAD_MASK) >> ROCE_BTH_PAD_SHIFT;
	*seen = (struct seen){ .opcode = bth->opcode, .ackreq = bth->ackreq };
	if (operation == ROCE_RC_WRITE_FIRST || operation >= ROCE_RC_WRITE_ONLY) {
		const struct roce_reth *reth = (const void *)rest;

		seen->address = at = be64toh(reth->address);
		rest += sizeof(*reth);
	}
	if (operation == ROCE_RC_WRITE_LAST_IMM || operation == ROCE_RC_WRITE_ONLY_IMM) {
		seen->immediate = be32toh(((const struct roce_immdt *)(const void *)rest)->value);
		rest += sizeof(struct roce_immdt);
	}
	seen->length =
		(uint32_t)(memory + frame.offset + frame.length - ROCE_ICRC_LEN - rest) - pad;
	cr_assert_leq(at - ADDRESS + seen->length, sizeof(target));
	memcpy(target + (at - ADDRESS), rest, seen->length);
	at += seen->length;
	return true;
}

static void start(uint64_t declared, uint64_t available, bool ended)
{
	cr_assert_eq(qp_message(&qp, declared), 0);
	qp_payload(&qp, payload, available, ended);
}

static void expect(uint8_t opcode, uint64_t address, uint32_t length)
{
	struct seen seen;

	cr_assert(next(&seen), "a packet is missing");
	cr_expect_eq(seen.opcode, opcode, "opcode %02x, expected %02x", seen.opcode, opcode);
	cr_expect_eq(seen.address, address, "address %lx, expected %lx", seen.address, address);
	cr_expect_eq(seen.length, length, "length %u, expected %u", seen.length, length);
}

static void expect_nothing(void)
{
	struct seen seen;

	cr_expect(!next(&seen), "a packet too many");
}

Test(engine_segmentation, packet_mode_known_length)
{
	struct qp_config config = base();

	open_qp(&config);
	start(2 * PMTU + 5, 2 * PMTU + 5, true);
	expect(ROCE_RC_WRITE_ONLY, ADDRESS, PMTU);
	expect(ROCE_RC_WRITE_ONLY, ADDRESS + PMTU, PMTU);
	expect(ROCE_RC_WRITE_ONLY_IMM, ADDRESS + 2 * PMTU, 5);
	expect_nothing();
	cr_expect(!memcmp(target, payload, 2 * PMTU + 5));

	/* A whole number of packets: the length was declared, so the last one is known to be it. */
	start(2 * PMTU, 2 * PMTU, false);
	expect(ROCE_RC_WRITE_ONLY, ADDRESS + SLOT, PMTU);
	expect(ROCE_RC_WRITE_ONLY_IMM, ADDRESS + SLOT + PMTU, PMTU);
	expect_nothing();
	cr_expect(!qp_message_open(&qp));
}

Test(engine_segmentation, packet_mode_unknown_length_ends_with_an_empty_write)
{
	struct qp_config config = base();

	open_qp(&config);
	start(SLOT, PMTU - 1, false);
	expect_nothing(); /* the packet is not full, and more may come */
	qp_payload(&qp, payload, PMTU, false);
	expect(ROCE_RC_WRITE_ONLY, ADDRESS, PMTU);
	expect_nothing();
	qp_payload(&qp, payload, PMTU, true);
	expect(ROCE_RC_WRITE_ONLY_IMM, ADDRESS + PMTU, 0);
	cr_expect_eq(qp.counters.short_messages, 0);

	start(SLOT, 3, true);
	expect(ROCE_RC_WRITE_ONLY_IMM, ADDRESS + SLOT, 3);
	start(SLOT, 0, true);
	expect(ROCE_RC_WRITE_ONLY_IMM, ADDRESS + 2 * SLOT, 0);
	expect_nothing();
}

Test(engine_segmentation, packet_mode_fills_the_slot_and_no_more)
{
	struct qp_config config = base();

	open_qp(&config);
	cr_expect_eq(qp_message(&qp, SLOT + 1), -EMSGSIZE);
	start(SLOT, SLOT, false);
	for (uint32_t i = 0; i + 1 < SLOT / PMTU; i++)
		expect(ROCE_RC_WRITE_ONLY, ADDRESS + i * PMTU, PMTU);
	expect(ROCE_RC_WRITE_ONLY_IMM, ADDRESS + SLOT - PMTU, PMTU);
	expect_nothing();
}

Test(engine_segmentation, packet_mode_asks_for_an_answer_at_the_end_and_every_sixteenth)
{
	struct qp_config config = base();
	uint32_t asked = 0, last = 0, n = 0;
	struct seen seen;

	config.pmtu = 256;
	config.slot_size = 20 * PMTU;
	config.slot_count = 2;
	config.remote_address = ADDRESS;
	open_qp(&config);
	cr_assert_eq(qp_message(&qp, 1), 0);
	qp_payload(&qp, payload, 1, true);
	cr_assert(next(&seen) && seen.ackreq);
	/* Of a longer message only the packets that must. */
	cr_assert_eq(qp_message(&qp, 7 * PMTU), 0);
	qp_payload(&qp, payload, 7 * PMTU, true);
	qp.packetizer.message = 0; /* back to the first slot: the target here is small */
	for (; next(&seen); n++) {
		asked += seen.ackreq;
		last = seen.ackreq ? n : last;
	}
	cr_expect_eq(n, 7);
	cr_expect_eq(asked, 1);
	cr_expect_eq(last, 6);
}

Test(engine_segmentation, packet_mode_counts_every_packet_for_credits)
{
	struct qp_config config = base();
	struct seen seen;

	open_qp(&config);
	qp.credits.unlimited = false;
	start(2 * PMTU + 1, 2 * PMTU + 1, true);
	/* Two plain writes are not limited; the third consumes a receive, and goes without credit.
	 */
	for (int i = 0; i < 3; i++)
		cr_assert(next(&seen), "packet %d", i);
	cr_expect_eq(qp.credits.ssn, 4);
	cr_expect_eq(qp.credits.lsn, 2);
	start(1, 1, true);
	expect_nothing();
	qp_receive(&qp, 0, qp_highest_psn(&qp), 0x01, 3);
	cr_expect(next(&seen), "credit for one message came");
}

/* A receiver that gives no credit beyond each answer: every message still gets through. The ring
 * holds them all, since nothing completes here. */
Test(engine_segmentation, packet_mode_asks_for_credit_before_it_waits_for_it)
{
	struct qp_config config = base();
	struct seen seen;
	uint32_t msn = 0;

	config.record = true;
	open_qp(&config);
	qp.credits.unlimited = false;
	for (int message = 0; message < 15; message++) {
		start(2 * PMTU + 1, 2 * PMTU + 1, true);
		while (qp_message_open(&qp)) {
			bool asked = false;

			for (; next(&seen); msn++)
				asked |= seen.ackreq;
			cr_assert(asked, "message %d waits, and nothing asks for an answer",
				  message);
			/* The answer comes when the next message is under way, too. */
			if (!qp_message_open(&qp))
				break;
			qp_receive(&qp, 0, qp_highest_psn(&qp), 0x00, msn);
		}
	}
	cr_expect_eq(msn, 15 * 4);
}

static struct xdp2roce_record record_of(uint32_t slot)
{
	struct xdp2roce_record record;

	memcpy(&record, target + (slot + 1) * SLOT - sizeof(record), sizeof(record));
	return record;
}

/* One bit at a time. */
static uint32_t crc32c(const uint8_t *bytes, uint32_t length)
{
	uint32_t crc = ~0u;

	for (uint32_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
	}
	return ~crc;
}

static void check_record(uint32_t slot, uint64_t message, uint64_t length, uint16_t flags)
{
	struct xdp2roce_record record = record_of(slot);

	cr_expect_eq(le32toh(record.magic), XDP2ROCE_RECORD_MAGIC);
	cr_expect(!memcmp(&record, "X2CR", 4));
	cr_expect_eq(le16toh(record.version), XDP2ROCE_RECORD_VERSION);
	cr_expect_eq(le32toh(record.stream), 9);
	cr_expect_eq(le64toh(record.message), message);
	cr_expect_eq(le64toh(record.tai_ns), 1234567890123456789u + message);
	cr_expect_eq(le64toh(record.length), length);
	cr_expect_eq(le16toh(record.flags), flags);
	cr_expect_eq(le64toh(record.missing), 0);
	cr_expect_eq(le32toh(record.crc), crc32c(payload, (uint32_t)length));
}

static void stamp(void)
{
	qp_stamp(&qp, 1234567890123456789u + qp.packetizer.message);
}

Test(engine_segmentation, record_ends_a_message_in_message_mode)
{
	struct qp_config config = base();
	uint64_t end = ADDRESS + SLOT - XDP2ROCE_RECORD_SIZE;

	config.packet_mode = false;
	config.record = true;
	config.stream = 9;
	open_qp(&config);
	cr_expect_eq(qp_message(&qp, SLOT - XDP2ROCE_RECORD_SIZE + 1), -EMSGSIZE);

	start(PMTU + 1, PMTU + 1, true);
	stamp();
	expect(ROCE_RC_WRITE_FIRST, ADDRESS, PMTU);
	expect(ROCE_RC_WRITE_LAST, 0, 1);
	expect(ROCE_RC_WRITE_ONLY_IMM, end, XDP2ROCE_RECORD_SIZE);
	check_record(0, 0, PMTU + 1, 0);

	/* Nothing but the record. */
	start(0, 0, true);
	stamp();
	expect(ROCE_RC_WRITE_ONLY_IMM, end + SLOT, XDP2ROCE_RECORD_SIZE);
	check_record(1, 1, 0, 0);

	/* The source ends early: zeros to the declared length, and the record tells the true one.
	 */
	start(PMTU, 10, true);
	stamp();
	expect(ROCE_RC_WRITE_ONLY, ADDRESS + 2 * SLOT, PMTU);
	expect(ROCE_RC_WRITE_ONLY_IMM, end + 2 * SLOT, XDP2ROCE_RECORD_SIZE);
	check_record(2, 2, 10, XDP2ROCE_RECORD_SHORT);
	cr_expect_eq(target[2 * SLOT + 10], 0);
	expect_nothing();
}

Test(engine_segmentation, record_ends_a_message_in_packet_mode)
{
	struct qp_config config = base();
	uint64_t end = ADDRESS + SLOT - XDP2ROCE_RECORD_SIZE;
	struct error error;

	config.record = true;
	config.stream = 9;
	config.uc = true;
	open_qp(&config);
	start(SLOT - XDP2ROCE_RECORD_SIZE, PMTU, false);
	stamp();
	expect(ROCE_UC_WRITE_ONLY, ADDRESS, PMTU);
	expect_nothing();
	qp_payload(&qp, payload, PMTU, true);
	expect(ROCE_UC_WRITE_ONLY_IMM, end, XDP2ROCE_RECORD_SIZE);
	expect_nothing();
	check_record(0, 0, PMTU, 0);
	cr_expect_eq(qp.requester.counters.messages, 1);
	cr_expect_eq(qp.requester.counters.bytes, PMTU);
	qp_close(&qp);

	config.slot_size = XDP2ROCE_RECORD_SIZE;
	cr_expect_eq(qp_open(&qp, &config, memory, 0, &error), -EINVAL);
}
