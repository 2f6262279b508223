/* SPDX-License-Identifier: BSD-2-Clause */
/* ICRC against the reference frames, and frames of the engine that must equal them byte for byte.
 */
#include <criterion/criterion.h>

#include "../../user/engine/icrc.h"
#include "engine_rig.h"
#include "icrc_vectors.h"

#define VECTORS (sizeof(icrc_vectors) / sizeof(*icrc_vectors))

static uint32_t from_hex(const char *hex, uint8_t *bytes)
{
	uint32_t length = (uint32_t)strlen(hex) / 2;

	for (uint32_t i = 0; i < length; i++) {
		char digits[3] = { hex[2 * i], hex[2 * i + 1], 0 };

		bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return length;
}

/* The named frame without a VLAN tag. */
static uint32_t vector(const char *name, uint8_t *bytes)
{
	uint32_t length;

	for (size_t i = 0; i < VECTORS; i++) {
		if (strcmp(icrc_vectors[i].name, name))
			continue;
		length = from_hex(icrc_vectors[i].hex, bytes);
		if (be_get(bytes + 12, 2) != 0x8100)
			return length;
		memmove(bytes + 12, bytes + 16, length - 16);
		return length - 4;
	}
	cr_assert_fail("no vector %s", name);
	return 0;
}

Test(engine_icrc, reference_frames)
{
	cr_assert_eq(VECTORS, 31);
	for (size_t i = 0; i < VECTORS; i++) {
		uint8_t frame[2048];
		uint32_t length = vector(icrc_vectors[i].name, frame), icrc = 0;
		const uint8_t *ip = frame + AT_IP;

		cr_assert_eq(icrc_of_frame(ip, length - AT_IP - 4, &icrc), 0);
		cr_expect_eq(icrc, frame_icrc(frame, length), "%s", icrc_vectors[i].name);
		cr_expect_eq(icrc, icrc_bitwise(ip, length - AT_IP - 4), "%s bitwise",
			     icrc_vectors[i].name);
	}
}

/* Section 3: which bits are under the ICRC and which are not. */
Test(engine_icrc, masks)
{
	static const char *const names[] = { "V1", "V7" };

	for (size_t i = 0; i < 2; i++) {
		uint8_t frame[2048];
		uint32_t length = vector(names[i], frame) - AT_IP - 4, udp = i ? 40 : 20, good,
			 icrc;
		uint8_t *ip = frame + AT_IP;

		cr_assert_eq(icrc_of_frame(ip, length, &good), 0);
		/* IPv4: version and IHL say where the headers are; IPv6: the version does. */
		for (uint32_t bit = i ? 4 : 8; bit < 8 * length; bit++) {
			uint32_t byte = bit / 8;
			bool masked = byte == udp + 6 || byte == udp + 7 || byte == udp + 12;

			masked |= i ? byte < 4 || byte == 7
				    : byte == 1 || byte == 8 || byte == 10 || byte == 11;
			ip[byte] ^= 0x80 >> bit % 8;
			cr_assert_eq(icrc_of_frame(ip, length, &icrc), 0);
			cr_assert_eq(icrc == good, masked, "%s byte %u bit %u", names[i], byte,
				     bit % 8);
			ip[byte] ^= 0x80 >> bit % 8;
		}
	}
}

Test(engine_icrc, refuses_what_is_no_frame)
{
	uint8_t frame[2048];
	uint32_t icrc;

	vector("V1", frame);
	for (size_t length = 0; length < 20 + 8 + 12; length++)
		cr_expect_eq(icrc_of_frame(frame + AT_IP, length, &icrc), -1, "length %zu", length);
	cr_expect_eq(icrc_of_frame(frame + AT_IP, 40, &icrc), 0);
	for (int first = 0; first < 256; first++) {
		frame[AT_IP] = (uint8_t)first;
		cr_expect_eq(icrc_of_frame(frame + AT_IP, 64, &icrc),
			     first == 0x45 || first >> 4 == 6 ? 0 : -1, "first byte 0x%x", first);
	}
	for (size_t length = 0; length < 40 + 8 + 12; length++) {
		frame[AT_IP] = 0x60;
		cr_expect_eq(icrc_of_frame(frame + AT_IP, length, &icrc), -1, "IPv6 %zu", length);
	}
}

Test(engine_icrc, every_length_against_bitwise)
{
	uint8_t packet[4200];

	for (size_t i = 0; i < sizeof(packet); i++)
		packet[i] = (uint8_t)(i * i >> 3 ^ i);
	packet[0] = 0x45;
	for (size_t length = 40; length < sizeof(packet); length += length < 400 ? 1 : 97) {
		uint32_t icrc;

		cr_assert_eq(icrc_of_frame(packet, length, &icrc), 0);
		cr_assert_eq(icrc, icrc_bitwise(packet, length), "length %zu", length);
	}
}

/* Reference frames that the engine can send (no SE, no IPv6, ID 0): PMTU 256, one message. */
static const struct made {
	const char *name;
	uint32_t length; /* of the message */
	uint32_t packet; /* of the message: this frame */
	uint64_t message;
	bool immediate;
} made[] = {
	{ "V1", 8, 0, 0, false },
	{ "V4", 0, 0, 0, false },
	{ "V9", 600, 0, 0, false },
	{ "V10", 600, 1, 0, false },
	{ "V11", 600, 2, 0, false },
	{ "A1", 8, 0, 0, false },
	{ "A2", 5, 0, 0, false },
	{ "A3", 0, 0, 0, false },
	{ "A7", 257, 1, 0xffffffffdeadbeefull, true },
};

/* Everything that the engine is told comes from the frame; what it does with it must be the frame.
 */
static struct qp_config config_of(const struct made *row, const uint8_t *frame)
{
	struct qp_config config = rig_config();
	const uint8_t *reth = frame + AT_AFTER_BTH;

	memcpy(config.framer.remote_mac, frame, 6);
	memcpy(config.framer.local_mac, frame + 6, 6);
	memcpy(config.framer.local_ip + 12, frame + AT_IP + 12, 4);
	memcpy(config.framer.remote_ip + 12, frame + AT_IP + 16, 4);
	config.framer.dscp = frame[AT_IP + 1] >> 2;
	config.framer.ecn = frame[AT_IP + 1] & 3;
	config.framer.ttl = frame[AT_IP + 8];
	config.framer.udp_source_port = (uint16_t)be_get(frame + AT_UDP, 2);
	config.remote_qpn = be_get(frame + AT_BTH + 5, 3);
	config.start_psn = (frame_psn(frame) - row->packet) & 0xFFFFFF;
	config.immediate = row->immediate;
	if (opcode_has_reth(frame_opcode(frame))) {
		config.remote_address = (uint64_t)be_get(reth, 4) << 32 | be_get(reth + 4, 4);
		config.rkey = be_get(reth + 8, 4);
	}
	return config;
}

static void make(const struct made *row)
{
	uint8_t want[2048], payload[1024] = { 0 }, memory[16 * 4096] __attribute__((aligned(4096)));
	uint32_t length = vector(row->name, want), at = frame_payload_at(want);
	struct qp_config config = config_of(row, want);
	struct error error;
	struct frame frame;
	struct qp qp;

	config.ring = 16;
	memcpy(payload + row->packet * 256, want + at, length - at - 4);
	cr_assert_eq(qp_open(&qp, &config, memory, 0, &error), 0);
	qp.packetizer.message = row->message;
	cr_assert_eq(qp_message(&qp, row->length), 0);
	qp_payload(&qp, payload, row->length, true);
	for (uint32_t i = 0; i <= row->packet; i++) {
		cr_assert_eq(qp_transmit(&qp, 0, &frame), QP_FRAME);
		/* A message with immediate goes on when its first packet is answered. */
		qp_receive(&qp, 0, frame.psn, 0x1F, 0);
	}
	cr_assert_eq(frame.length, length, "%s: %u bytes, not %u", row->name, frame.length, length);
	for (uint32_t i = 0; i < length; i++)
		cr_assert_eq(memory[frame.offset + i], want[i], "%s: byte %u", row->name, i);
	qp_close(&qp);
}

Test(engine_icrc, reproduced_byte_for_byte)
{
	for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++)
		make(&made[i]);
}

/* V1 with its figures written out: nothing is taken from the frame. */
Test(engine_icrc, v1_by_hand)
{
	static const uint8_t payload[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	uint8_t want[128], memory[16 * 4096] __attribute__((aligned(4096)));
	uint32_t length = vector("V1", want);
	struct qp_config config = rig_config();
	struct error error;
	struct frame frame;
	struct qp qp;

	config.ring = 16;
	config.remote_qpn = 0x12;
	config.start_psn = 0xABC;
	config.rkey = 0x1234;
	cr_assert_eq(qp_open(&qp, &config, memory, 0, &error), 0);
	cr_assert_eq(qp_message(&qp, 8), 0);
	qp_payload(&qp, payload, 8, false);
	cr_assert_eq(qp_transmit(&qp, 0, &frame), QP_FRAME);
	cr_assert_eq(frame.length, length);
	cr_assert(!memcmp(memory + frame.offset, want, length));
	qp_close(&qp);
}

/* Section 1.2, source port rule; QPNs 0x11 and 0x99 gave 0xCA29 on Linux. */
Test(engine_icrc, source_port)
{
	cr_expect_eq(framer_source_port(0x11, 0x99), 0xCA29);
	for (uint32_t i = 1; i < 1000; i++) {
		uint32_t a = i * 0x9E3779B1u & 0xFFFFFF, b = i * 0x85EBCA6Bu & 0xFFFFFF;

		cr_assert_eq(framer_source_port(a, b), framer_source_port(b, a));
		cr_assert_geq(framer_source_port(a, b), 0xC000);
	}
}
