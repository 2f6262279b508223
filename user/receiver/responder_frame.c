/* SPDX-License-Identifier: BSD-2-Clause */
#include "responder_frame.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>
#include <zlib.h>

#define VLAN_TAG 4
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define UDP_HEADER 8
#define BTH_LENGTH ((uint32_t)sizeof(struct roce_bth))
#define DONT_FRAGMENT 0x4000u
#define REPLY_TTL 64

static uint16_t get16(const uint8_t *b)
{
	return (uint16_t)(b[0] << 8 | b[1]);
}

static void put16(uint8_t *b, uint32_t value)
{
	b[0] = (uint8_t)(value >> 8);
	b[1] = (uint8_t)value;
}

/* RFC 1071, in host order; 0 over a header whose checksum field is right. */
static uint16_t ipv4_checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (int at = 0; at < IPV4_HEADER; at += 2)
		sum += get16(header + at);
	sum = (sum & 0xFFFF) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)~sum;
}

/* Length of the IP payload, 0 when the header is not one that RoCEv2 uses or contradicts the frame.
 */
static uint32_t parse_ipv4(struct responder_frame *frame, size_t length)
{
	static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };
	const uint8_t *ip = frame->ip;
	uint32_t total;

	if (length < IPV4_HEADER || ip[0] != 0x45 || ip[9] != IPPROTO_UDP)
		return 0;
	total = get16(ip + 2);
	if (total > length || total < IPV4_HEADER + UDP_HEADER)
		return 0;
	if ((get16(ip + 6) & ~DONT_FRAGMENT) != 0 || ipv4_checksum(ip) != 0)
		return 0;
	memcpy(frame->source, mapped, sizeof(mapped));
	memcpy(frame->destination, mapped, sizeof(mapped));
	memcpy(frame->source + 12, ip + 12, 4);
	memcpy(frame->destination + 12, ip + 16, 4);
	return total - IPV4_HEADER;
}

static uint32_t parse_ipv6(struct responder_frame *frame, size_t length)
{
	const uint8_t *ip = frame->ip;
	uint32_t payload;

	if (length < IPV6_HEADER || ip[0] >> 4 != 6 || ip[6] != IPPROTO_UDP)
		return 0;
	payload = get16(ip + 4);
	if (payload > length - IPV6_HEADER)
		return 0;
	memcpy(frame->source, ip + 8, 16);
	memcpy(frame->destination, ip + 24, 16);
	return payload;
}

static bool parse_bth(struct responder_frame *frame, const uint8_t *udp, uint32_t ip_payload)
{
	uint32_t overhead = UDP_HEADER + BTH_LENGTH + ROCE_ICRC_LEN;

	if (ip_payload < overhead || get16(udp + 4) != ip_payload ||
	    get16(udp + 2) != ROCE_UDP_PORT)
		return false;
	frame->bth = (const struct roce_bth *)(udp + UDP_HEADER);
	if (frame->bth->flags & ROCE_BTH_TVER_MASK)
		return false;
	/* Full and limited members of the default partition may both talk to us, a full member. */
	if ((ntohs(frame->bth->pkey) & 0x7FFF) != (ROCE_PKEY_DEFAULT & 0x7FFF))
		return false;
	frame->body = udp + UDP_HEADER + BTH_LENGTH;
	frame->body_length = ip_payload - overhead;
	frame->dest_qpn = roce_get24(frame->bth->dest_qpn);
	frame->psn = roce_get24(frame->bth->psn);
	return true;
}

bool responder_frame_parse(struct responder_frame *frame, const uint8_t *bytes, size_t length)
{
	uint32_t header = ETH_HLEN, ip_payload;
	uint16_t type;

	if (length < ETH_HLEN + VLAN_TAG)
		return false;
	type = get16(bytes + 12);
	if (type == ETH_P_8021Q) {
		type = get16(bytes + 16);
		header += VLAN_TAG;
	}
	if (type != ETH_P_IP && type != ETH_P_IPV6)
		return false;
	frame->ethernet = bytes;
	frame->ethernet_length = header;
	frame->ip = bytes + header;
	frame->ipv6 = type == ETH_P_IPV6;
	ip_payload = frame->ipv6 ? parse_ipv6(frame, length - header)
				 : parse_ipv4(frame, length - header);
	return ip_payload >= UDP_HEADER &&
	       parse_bth(frame, frame->ip + (frame->ipv6 ? IPV6_HEADER : IPV4_HEADER), ip_payload);
}

/* CRC over the headers with what routers may change set to ones, then over the rest of the frame.
 */
static uint32_t compute_icrc(const uint8_t *ip, bool ipv6, const uint8_t *body,
			     uint32_t body_length)
{
	uint32_t ip_length = ipv6 ? IPV6_HEADER : IPV4_HEADER;
	uint8_t masked[IPV6_HEADER + UDP_HEADER + sizeof(struct roce_bth)];
	uint8_t *udp = masked + ip_length;
	uLong crc = (uint32_t)~ROCE_ICRC_SEED; /* zlib keeps the register inverted between calls */

	memcpy(masked, ip, ip_length + UDP_HEADER + BTH_LENGTH);
	if (ipv6) {
		masked[0] |= 0x0F;
		memset(masked + 1, 0xFF, 3);
		masked[7] = 0xFF;
	} else {
		masked[1] = 0xFF;
		masked[8] = 0xFF;
		memset(masked + 10, 0xFF, 2);
	}
	memset(udp + 6, 0xFF, 2);
	udp[UDP_HEADER + offsetof(struct roce_bth, ecn)] = 0xFF;
	crc = crc32(crc, masked, ip_length + UDP_HEADER + BTH_LENGTH);
	/* zlib takes a null pointer, not a length of 0, as a request for the initial value. */
	return (uint32_t)crc32(crc, body, body_length);
}

static void put_icrc(uint8_t *at, uint32_t icrc)
{
	for (int i = 0; i < ROCE_ICRC_LEN; i++)
		at[i] = (uint8_t)(icrc >> 8 * i);
}

bool responder_frame_icrc_good(const struct responder_frame *frame)
{
	uint8_t icrc[ROCE_ICRC_LEN];

	put_icrc(icrc, compute_icrc(frame->ip, frame->ipv6, frame->body, frame->body_length));
	return !memcmp(icrc, frame->body + frame->body_length, sizeof(icrc));
}

/* The source port that Linux drivers derive from the two QPNs: constant per QP, spread over paths.
 */
static uint32_t udp_source_port(uint32_t local_qpn, uint32_t peer_qpn)
{
	uint64_t v = (uint64_t)local_qpn * peer_qpn;
	uint32_t label;

	v ^= v >> 20;
	v ^= v >> 40;
	label = v & 0xFFFFF;
	return ROCE_UDP_SOURCE_MIN | ((label & 0x3FFF) ^ label >> 14);
}

static void put_ip(uint8_t *ip, const struct responder_frame *frame, uint32_t udp_length)
{
	if (frame->ipv6) {
		ip[0] = 0x60;
		put16(ip + 4, udp_length);
		ip[6] = IPPROTO_UDP;
		ip[7] = REPLY_TTL;
		memcpy(ip + 8, frame->destination, 16);
		memcpy(ip + 24, frame->source, 16);
		return;
	}
	ip[0] = 0x45;
	put16(ip + 2, IPV4_HEADER + udp_length);
	put16(ip + 6, DONT_FRAGMENT);
	ip[8] = REPLY_TTL;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, frame->destination + 12, 4);
	memcpy(ip + 16, frame->source + 12, 4);
	put16(ip + 10, ipv4_checksum(ip));
}

uint32_t responder_frame_reply(const struct responder_frame *frame, uint32_t local_qpn,
			       uint32_t peer_qpn, uint32_t psn, uint8_t syndrome, uint32_t msn,
			       uint8_t *reply)
{
	uint32_t udp_length = UDP_HEADER + BTH_LENGTH + sizeof(struct roce_aeth) + ROCE_ICRC_LEN;
	uint8_t *ip = reply + frame->ethernet_length;
	uint8_t *udp = ip + (frame->ipv6 ? IPV6_HEADER : IPV4_HEADER);
	struct roce_bth *bth = (struct roce_bth *)(udp + UDP_HEADER);
	struct roce_aeth *aeth = (struct roce_aeth *)(bth + 1);

	memset(reply, 0, RESPONDER_REPLY_MAX);
	memcpy(reply, frame->ethernet + ETH_ALEN, ETH_ALEN);
	memcpy(reply + ETH_ALEN, frame->ethernet, ETH_ALEN);
	memcpy(reply + 2 * ETH_ALEN, frame->ethernet + 2 * ETH_ALEN,
	       frame->ethernet_length - 2 * ETH_ALEN);
	put_ip(ip, frame, udp_length);
	put16(udp, udp_source_port(local_qpn, peer_qpn));
	put16(udp + 2, ROCE_UDP_PORT);
	put16(udp + 4, udp_length);
	bth->opcode = ROCE_RC_ACKNOWLEDGE;
	bth->flags = ROCE_BTH_MIGREQ;
	bth->pkey = htons(ROCE_PKEY_DEFAULT);
	roce_put24(bth->dest_qpn, peer_qpn);
	roce_put24(bth->psn, psn);
	aeth->syndrome = syndrome;
	roce_put24(aeth->msn, msn);
	put_icrc((uint8_t *)(aeth + 1),
		 compute_icrc(ip, frame->ipv6, (uint8_t *)aeth, sizeof(*aeth)));
	return (uint32_t)(udp + udp_length - reply);
}
