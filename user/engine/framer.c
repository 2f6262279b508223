/* SPDX-License-Identifier: BSD-2-Clause */
#include "framer.h"

#include <string.h>

#include "icrc.h"

/* Offsets in the IPv4 header. */
enum {
	IP_TOS = 1,
	IP_LENGTH = 2,
	IP_FLAGS = 6,
	IP_TTL = 8,
	IP_PROTOCOL = 9,
	IP_CHECKSUM = 10,
	IP_SOURCE = 12,
	IP_DESTINATION = 16
};
/* Offsets in the UDP header. */
enum { UDP_SOURCE = 0, UDP_DESTINATION = 2, UDP_LENGTH = 4, UDP_CHECKSUM = 6 };

static void put16(uint8_t *to, uint32_t value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}

static uint16_t fold(uint32_t sum)
{
	sum = (sum & 0xFFFF) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)~sum;
}

void framer_init(struct framer *framer, const struct framer_config *config)
{
	uint8_t *ethernet = framer->masked, *ip = ethernet + ETHERNET_LEN, *udp = ip + IPV4_LEN;

	memset(framer, 0, sizeof(*framer));
	framer->tos = config->tos;
	framer->ttl = config->ttl;

	memcpy(ethernet, config->remote_mac, 6);
	memcpy(ethernet + 6, config->local_mac, 6);
	put16(ethernet + 12, 0x0800);

	ip[0] = 0x45;
	ip[IP_TOS] = config->tos;
	put16(ip + IP_FLAGS, 0x4000); /* DF; the identification stays 0, both are under the ICRC */
	ip[IP_TTL] = config->ttl;
	ip[IP_PROTOCOL] = 17;
	memcpy(ip + IP_SOURCE, config->local_ip, 4);
	memcpy(ip + IP_DESTINATION, config->remote_ip, 4);
	for (uint32_t i = 0; i < IPV4_LEN; i += 2)
		framer->checksum += (uint32_t)ip[i] << 8 | ip[i + 1];

	put16(udp + UDP_SOURCE, config->udp_source_port);
	put16(udp + UDP_DESTINATION, ROCE_UDP_PORT);

	ip[IP_TOS] = 0xFF;
	ip[IP_TTL] = 0xFF;
	put16(ip + IP_CHECKSUM, 0xFFFF);
	put16(udp + UDP_CHECKSUM, 0xFFFF);
}

uint32_t framer_finish(const struct framer *framer, uint8_t *transport, uint32_t transport_len)
{
	uint8_t *frame = transport - FRAMER_HEADER, *ip = frame + ETHERNET_LEN,
		*udp = ip + IPV4_LEN;
	struct roce_bth *bth = (struct roce_bth *)transport;
	uint32_t udp_len = UDP_LEN + transport_len + ROCE_ICRC_LEN, ip_len = IPV4_LEN + udp_len;
	uint8_t *end = transport + transport_len;
	uint32_t icrc;

	memcpy(frame, framer->masked, FRAMER_HEADER);
	put16(ip + IP_LENGTH, ip_len);
	put16(udp + UDP_LENGTH, udp_len);

	/* The variant fields are ones now and get their values afterwards: one pass over the frame.
	 */
	bth->ecn = 0xFF;
	icrc = icrc_of_masked(ip, (size_t)(end - ip));
	bth->ecn = 0;
	ip[IP_TOS] = framer->tos;
	ip[IP_TTL] = framer->ttl;
	put16(ip + IP_CHECKSUM, fold(framer->checksum + ip_len));
	put16(udp + UDP_CHECKSUM, 0);

	end[0] = (uint8_t)icrc;
	end[1] = (uint8_t)(icrc >> 8);
	end[2] = (uint8_t)(icrc >> 16);
	end[3] = (uint8_t)(icrc >> 24);
	return ETHERNET_LEN + ip_len;
}

uint16_t framer_source_port(uint32_t local_qpn, uint32_t remote_qpn)
{
	uint64_t v = (uint64_t)local_qpn * remote_qpn;
	uint32_t label;

	v ^= v >> 20;
	v ^= v >> 40;
	label = (uint32_t)v & 0xFFFFF;
	return (uint16_t)(ROCE_UDP_SOURCE_MIN | ((label & 0x3FFF) ^ (label >> 14)));
}
