/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A RoCEv2 frame as the responder sees it: taken apart and checked on the way in, put together for
 * the reply on the way out. Knows no queue pair.
 */
#ifndef USER_RECEIVER_RESPONDER_FRAME_H
#define USER_RECEIVER_RESPONDER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xdp2roce/roce.h>

/* Ethernet with VLAN tag, IPv6, UDP, BTH, AETH, ICRC: the largest reply. */
#define RESPONDER_REPLY_MAX (18 + 40 + 8 + 12 + 4 + ROCE_ICRC_LEN)

/* Points into the frame it was taken from. */
struct responder_frame {
	const uint8_t *ethernet;
	const uint8_t *ip;
	const struct roce_bth *bth;
	const uint8_t
		*body; /* what follows the BTH: extension headers, payload, pad, not the ICRC */
	uint32_t body_length;     /* bytes */
	uint32_t ethernet_length; /* 14, or 18 with a VLAN tag */
	bool ipv6;
	uint8_t source[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t destination[16];
	uint32_t dest_qpn;
	uint32_t psn;
};

/*
 * Takes a whole Ethernet frame apart, with at most one VLAN tag. False for everything that a strict
 * NIC drops without an answer: not IPv4 or IPv6 with UDP to port 4791, IP options, extension
 * headers or fragments, lengths that contradict each other or the frame, a wrong IPv4 header
 * checksum, a transport version other than 0, a P_Key outside the default partition. Bytes after
 * the IP packet are ignored. The ICRC is not looked at.
 */
bool responder_frame_parse(struct responder_frame *frame, const uint8_t *bytes, size_t length);

bool responder_frame_icrc_good(const struct responder_frame *frame);

/*
 * Writes the acknowledgement of a frame: back to where it came from, with its VLAN tag. Returns its
 * length; reply holds RESPONDER_REPLY_MAX bytes.
 */
uint32_t responder_frame_reply(const struct responder_frame *frame, uint32_t local_qpn,
			       uint32_t peer_qpn, uint32_t psn, uint8_t syndrome, uint32_t msn,
			       uint8_t *reply);

#endif
