/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Framer: Ethernet, IPv4 and UDP around a RoCEv2 packet, and the ICRC at its end, in place.
 *
 * A frame lies in its slot like this; headers grow backwards from the payload, so that the payload
 * is always at the same, 64-byte aligned offset:
 *
 *   0                       FRAME_PAYLOAD                                         slot size
 *   │ free │ Eth IPv4 UDP BTH (RETH) (ImmDt) │ payload │ pad │ ICRC │ free            │
 */
#ifndef USER_ENGINE_FRAMER_H
#define USER_ENGINE_FRAMER_H

#include <stdint.h>

#include <xdp2roce/roce.h>

#define FRAME_PAYLOAD 128u /* offset of the payload in a slot, bytes */
#define ETHERNET_LEN 14u
#define IPV4_LEN 20u
#define UDP_LEN 8u
#define FRAMER_HEADER (ETHERNET_LEN + IPV4_LEN + UDP_LEN)
/* Bytes of an IP packet around the payload at most: IP, UDP, BTH, RETH, ImmDt, ICRC. */
#define FRAMER_IP_OVERHEAD                                                                         \
	(IPV4_LEN + UDP_LEN + sizeof(struct roce_bth) + sizeof(struct roce_reth) +                 \
	 sizeof(struct roce_immdt) + ROCE_ICRC_LEN)

struct framer_config {
	uint8_t local_mac[6], remote_mac[6];
	uint8_t local_ip[4], remote_ip[4];
	uint16_t udp_source_port;
	uint8_t tos; /* DSCP << 2 | ECN */
	uint8_t ttl;
};

struct framer {
	/* Headers with the fields that the ICRC leaves out set to ones, lengths zero. */
	uint8_t masked[FRAMER_HEADER];
	uint8_t tos, ttl;
	uint32_t checksum; /* sum of the true IPv4 header's words, length and checksum zero */
};

void framer_init(struct framer *framer, const struct framer_config *config);

/*
 * Completes a frame whose BTH (at transport), extension headers, payload and pad are in place;
 * transport_len counts all of these. The BTH's ecn byte is set here. Needs FRAMER_HEADER bytes
 * before transport and ROCE_ICRC_LEN after. Returns the frame's length, Ethernet to ICRC; it starts
 * at transport − FRAMER_HEADER.
 */
uint32_t framer_finish(const struct framer *framer, uint8_t *transport, uint32_t transport_len);

/* UDP source port by the rule common to Linux drivers: symmetric in the two QPNs, 0xC000…0xFFFF. */
uint16_t framer_source_port(uint32_t local_qpn, uint32_t remote_qpn);

#endif
