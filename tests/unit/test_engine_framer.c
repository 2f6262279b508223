/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers before the transport: IPv6, a VLAN tag, DSCP, ECN, TTL, and what is refused. */
#include <criterion/criterion.h>
#include <string.h>

#include "../../user/engine/icrc.h"
#include "../../user/engine/qp.h"

#define IPV4(d) { [10] = 0xFF, [11] = 0xFF, [12] = 192, 0, 2, d }
#define IPV6(d) { 0xFD, [15] = d }

static uint8_t memory[16 * 4096] __attribute__((aligned(4096)));
static const uint8_t payload[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* Reference frame V8: IPv6, RC Write Only of 8 bytes, UDP checksum 0, class and label 0, hop
 * limit 1. */
static const uint8_t reference_v8[] = {
	0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x86, 0xdd, 0x60,
	0x00, 0x00, 0x00, 0x00, 0x30, 0x11, 0x01, 0xfd, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0xfd, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc1, 0x23, 0x12, 0xb7, 0x00, 0x30,
	0x00, 0x00, 0x0a, 0x40, 0xff, 0xff, 0x00, 0x00, 0x00, 0x12, 0x80, 0x00, 0x0a, 0xbc, 0x00,
	0x00, 0x7f, 0x12, 0x34, 0x56, 0x70, 0x00, 0x00, 0x00, 0x12, 0x34, 0x00, 0x00, 0x00, 0x08,
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0xd3, 0xbb, 0x54, 0xa9,
};

static struct qp_config base(bool ipv6)
{
	struct qp_config config = {
		.framer = { .local_mac = { 2 },
			    .remote_mac = { 2, 0, 0, 0, 0, 2 },
			    .local_ip = IPV4(1),
			    .remote_ip = IPV4(2),
			    .udp_source_port = 0xC123,
			    .ttl = 1 },
		.remote_qpn = 0x12,
		.start_psn = 0xABC,
		.rkey = 0x1234,
		.remote_address = 0x7f1234567000,
		.slot_size = 4096,
		.slot_count = 2,
		.pmtu = 256,
		.ring = 16,
		.chunk = 4096,
	};
	static const uint8_t local[16] = IPV6(1), remote[16] = IPV6(2);

	if (ipv6) {
		memcpy(config.framer.local_ip, local, 16);
		memcpy(config.framer.remote_ip, remote, 16);
	}
	return config;
}

/* The frame of a message of 8 bytes. */
static uint32_t build(const struct qp_config *config, uint8_t frame[256])
{
	struct frame place;
	struct error error;
	struct qp qp;

	cr_assert_eq(qp_open(&qp, config, memory, 0, &error), 0, "%s", error.text);
	cr_assert_eq(qp_message(&qp, sizeof(payload)), 0);
	qp_payload(&qp, payload, sizeof(payload), true);
	cr_assert_eq(qp_transmit(&qp, 0, &place), QP_FRAME);
	memcpy(frame, memory + place.offset, place.length);
	qp_close(&qp);
	return place.length;
}

Test(engine_framer, ipv6_reproduces_the_reference_frame)
{
	struct qp_config config = base(true);
	uint8_t frame[256];

	cr_assert_eq(build(&config, frame), sizeof(reference_v8));
	for (size_t i = 0; i < sizeof(reference_v8); i++)
		cr_expect_eq(frame[i], reference_v8[i], "byte %zu is %02x, expected %02x", i,
			     frame[i], reference_v8[i]);
}

Test(engine_framer, a_vlan_tag_is_four_bytes_more_and_not_under_the_icrc)
{
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		struct qp_config config = base(ipv6);
		uint8_t plain[256], tagged[256];
		uint32_t length = build(&config, plain);
		static const uint8_t tag[4] = { 0x81, 0x00, 0xAF, 0xFE };

		config.framer.vlan_id = 4094;
		config.framer.vlan_pcp = 5;
		cr_assert_eq(build(&config, tagged), length + 4);
		cr_expect(!memcmp(tagged, plain, 12));
		cr_expect(!memcmp(tagged + 12, tag, 4));
		cr_expect(!memcmp(tagged + 16, plain + 12, length - 12));
	}
}

Test(engine_framer, dscp_ecn_and_ttl_stand_in_their_fields_and_not_under_the_icrc)
{
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		struct qp_config config = base(ipv6);
		uint8_t plain[256], marked[256];
		uint32_t length = build(&config, plain), sum = 0;

		config.framer.dscp = 46;
		config.framer.ecn = 2;
		config.framer.ttl = 255;
		cr_assert_eq(build(&config, marked), length);
		cr_expect(!memcmp(marked + length - 4, plain + length - 4, 4), "ICRC differs");
		if (ipv6) {
			cr_expect_eq((marked[14] & 15) << 4 | marked[15] >> 4, 46 << 2 | 2);
			cr_expect_eq(marked[14] >> 4, 6);
			cr_expect_eq(marked[14 + 7], 255);
			continue;
		}
		cr_expect_eq(marked[14 + 1], 46 << 2 | 2);
		cr_expect_eq(marked[14 + 8], 255);
		for (int i = 0; i < 20; i += 2)
			sum += (uint32_t)marked[14 + i] << 8 | marked[15 + i];
		cr_expect_eq((sum & 0xFFFF) + (sum >> 16), 0xFFFF, "IPv4 header checksum");
	}
}

Test(engine_framer, settings_out_of_range_are_refused)
{
	static const uint8_t v6[16] = IPV6(2);
	struct qp_config rows[5];
	struct error error;
	struct qp qp;

	for (int i = 0; i < 5; i++)
		rows[i] = base(false);
	rows[0].framer.dscp = 64;
	rows[1].framer.ecn = 4;
	rows[2].framer.vlan_id = 4095;
	rows[3].framer.vlan_pcp = 8;
	memcpy(rows[4].framer.remote_ip, v6, 16);
	for (int i = 0; i < 5; i++)
		cr_expect_eq(qp_open(&qp, &rows[i], memory, 0, &error), -EINVAL, "row %d", i);
}
