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
/* Offsets in the IPv6 header; traffic class and flow label fill the bits between version and
 * length. */
enum {
	IP6_LENGTH = 4,
	IP6_NEXT_HEADER = 6,
	IP6_HOP_LIMIT = 7,
	IP6_SOURCE = 8,
	IP6_DESTINATION = 24
};
/* Offsets in the UDP header. */
enum { UDP_SOURCE = 0, UDP_DESTINATION = 2, UDP_LENGTH = 4, UDP_CHECKSUM = 6 };

#define PROTOCOL_UDP 17
#define TYPE_VLAN 0x8100
#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86DD

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

bool framer_is_ipv4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };

	return !memcmp(ip, mapped, sizeof(mapped));
}

uint32_t framer_ip_overhead(bool ipv6)
{
	return (ipv6 ? IPV6_LEN : IPV4_LEN) + UDP_LEN +
	       (uint32_t)(sizeof(struct roce_bth) + sizeof(struct roce_reth) +
			  sizeof(struct roce_immdt)) +
	       ROCE_ICRC_LEN;
}

static uint32_t put_ethernet(uint8_t *ethernet, const struct framer_config *config, bool ipv6)
{
	uint32_t at = 12;

	memcpy(ethernet, config->remote_mac, 6);
	memcpy(ethernet + 6, config->local_mac, 6);
	if (config->vlan_id) {
		put16(ethernet + at, TYPE_VLAN);
		put16(ethernet + at + 2, (uint32_t)config->vlan_pcp << 13 | config->vlan_id);
		at += VLAN_LEN;
	}
	put16(ethernet + at, ipv6 ? TYPE_IPV6 : TYPE_IPV4);
	return at + 2;
}

static uint32_t put_ipv4(struct framer *framer, uint8_t *ip, const struct framer_config *config)
{
	ip[0] = 0x45;
	ip[IP_TOS] = framer->tos;
	put16(ip + IP_FLAGS, 0x4000); /* DF; the identification stays 0, both are under the ICRC */
	ip[IP_TTL] = framer->ttl;
	ip[IP_PROTOCOL] = PROTOCOL_UDP;
	memcpy(ip + IP_SOURCE, config->local_ip + 12, 4);
	memcpy(ip + IP_DESTINATION, config->remote_ip + 12, 4);
	for (uint32_t i = 0; i < IPV4_LEN; i += 2)
		framer->checksum += (uint32_t)ip[i] << 8 | ip[i + 1];
	ip[IP_TOS] = 0xFF;
	ip[IP_TTL] = 0xFF;
	put16(ip + IP_CHECKSUM, 0xFFFF);
	return IPV4_LEN;
}

static uint32_t put_ipv6(uint8_t *ip, const struct framer_config *config)
{
	memset(ip, 0xFF, 4);
	ip[0] = 0x6F;
	ip[IP6_NEXT_HEADER] = PROTOCOL_UDP;
	ip[IP6_HOP_LIMIT] = 0xFF;
	memcpy(ip + IP6_SOURCE, config->local_ip, 16);
	memcpy(ip + IP6_DESTINATION, config->remote_ip, 16);
	return IPV6_LEN;
}

void framer_init(struct framer *framer, const struct framer_config *config)
{
	uint8_t *headers = framer->masked, *udp;
	uint32_t at;

	memset(framer, 0, sizeof(*framer));
	framer->ipv6 = !framer_is_ipv4(config->remote_ip);
	framer->tos = (uint8_t)(config->dscp << 2 | config->ecn);
	framer->ttl = config->ttl;

	at = put_ethernet(headers, config, framer->ipv6);
	framer->ip_at = (uint8_t)at;
	at += framer->ipv6 ? put_ipv6(headers + at, config)
			   : put_ipv4(framer, headers + at, config);
	framer->udp_at = (uint8_t)at;
	framer->header_len = (uint8_t)(at + UDP_LEN);

	udp = headers + framer->udp_at;
	put16(udp + UDP_SOURCE, config->udp_source_port);
	put16(udp + UDP_DESTINATION, ROCE_UDP_PORT);
	put16(udp + UDP_CHECKSUM, 0xFFFF);
}

static void unmask_ipv4(const struct framer *framer, uint8_t *ip, uint32_t ip_len)
{
	ip[IP_TOS] = framer->tos;
	ip[IP_TTL] = framer->ttl;
	put16(ip + IP_CHECKSUM, fold(framer->checksum + ip_len));
}

static void unmask_ipv6(const struct framer *framer, uint8_t *ip)
{
	ip[0] = (uint8_t)(0x60 | framer->tos >> 4);
	ip[1] = (uint8_t)(framer->tos << 4);
	ip[2] = 0;
	ip[3] = 0;
	ip[IP6_HOP_LIMIT] = framer->ttl;
}

uint32_t framer_finish(const struct framer *framer, uint8_t *transport, uint32_t transport_len)
{
	uint8_t *frame = transport - framer->header_len, *ip = frame + framer->ip_at;
	uint8_t *udp = frame + framer->udp_at, *end = transport + transport_len;
	struct roce_bth *bth = (struct roce_bth *)transport;
	uint32_t udp_len = UDP_LEN + transport_len + ROCE_ICRC_LEN, icrc;

	memcpy(frame, framer->masked, framer->header_len);
	if (framer->ipv6)
		put16(ip + IP6_LENGTH, udp_len);
	else
		put16(ip + IP_LENGTH, IPV4_LEN + udp_len);
	put16(udp + UDP_LENGTH, udp_len);

	/* The variant fields are ones now and get their values afterwards: one pass over the frame.
	 */
	bth->ecn = 0xFF;
	icrc = icrc_of_masked(ip, (size_t)(end - ip));
	bth->ecn = 0;
	put16(udp + UDP_CHECKSUM, 0);
	if (framer->ipv6)
		unmask_ipv6(framer, ip);
	else
		unmask_ipv4(framer, ip, IPV4_LEN + udp_len);

	end[0] = (uint8_t)icrc;
	end[1] = (uint8_t)(icrc >> 8);
	end[2] = (uint8_t)(icrc >> 16);
	end[3] = (uint8_t)(icrc >> 24);
	return (uint32_t)(end - frame) + ROCE_ICRC_LEN;
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
