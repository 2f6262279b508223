/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Framer: Ethernet with at most one VLAN tag, IPv4 or IPv6, and UDP around a RoCEv2 packet, and the
 * ICRC at its end, in place.
 *
 * A frame lies in its slot like this; headers grow backwards from the payload, so that the payload
 * is always at the same, 64-byte aligned offset:
 *
 *   0                       FRAME_PAYLOAD                                         slot size
 *   │ free │ Eth (VLAN) IP UDP BTH (RETH) (ImmDt) │ payload │ pad │ ICRC │ free            │
 */
#ifndef USER_ENGINE_FRAMER_H
#define USER_ENGINE_FRAMER_H

#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/roce.h>

#define FRAME_PAYLOAD 128u /* offset of the payload in a slot, bytes */
#define ETHERNET_LEN 14u
#define VLAN_LEN 4u
#define IPV4_LEN 20u
#define IPV6_LEN 40u
#define UDP_LEN 8u
#define FRAMER_HEADER_MAX (ETHERNET_LEN + VLAN_LEN + IPV6_LEN + UDP_LEN)
#define FRAMER_VLAN_MAX 4094u

struct framer_config {
	uint8_t local_mac[6], remote_mac[6];
	uint8_t local_ip[16], remote_ip[16]; /* IPv4 as ::ffff:a.b.c.d; both of one family */
	uint16_t udp_source_port;
	uint8_t dscp;     /* 0…63 */
	uint8_t ecn;      /* 0…3 */
	uint8_t ttl;      /* or hop limit, 1…255 */
	uint16_t vlan_id; /* 1…4094, 0: no tag */
	uint8_t vlan_pcp; /* 0…7 */
};

struct framer {
	/* Headers with the fields that the ICRC leaves out set to ones, lengths zero. */
	uint8_t masked[FRAMER_HEADER_MAX];
	uint8_t ip_at;      /* offset of the IP header */
	uint8_t udp_at;     /* offset of the UDP header */
	uint8_t header_len; /* offset of the BTH: what comes before the transport */
	bool ipv6;
	uint8_t tos; /* or traffic class: DSCP << 2 | ECN */
	uint8_t ttl;
	uint32_t checksum; /* sum of the true IPv4 header's words, length and checksum zero */
};

void framer_init(struct framer *framer, const struct framer_config *config);

/*
 * Completes a frame whose BTH (at transport), extension headers, payload and pad are in place;
 * transport_len counts all of these. The BTH's ecn byte is set here. Needs header_len bytes before
 * transport and ROCE_ICRC_LEN after. Returns the frame's length, Ethernet to ICRC; it starts at
 * transport − header_len.
 */
uint32_t framer_finish(const struct framer *framer, uint8_t *transport, uint32_t transport_len);

/* UDP source port by the rule common to Linux drivers: symmetric in the two QPNs, 0xC000…0xFFFF. */
uint16_t framer_source_port(uint32_t local_qpn, uint32_t remote_qpn);

/* Is this address of 16 bytes an IPv4 address? */
bool framer_is_ipv4(const uint8_t ip[16]);

/* Bytes of an IP packet around the payload at most: IP, UDP, BTH, RETH, ImmDt, ICRC. */
uint32_t framer_ip_overhead(bool ipv6);

#endif
