/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Builds the frames of the BPF tests from a description: all zero is a good ACK over IPv4 of PSN 0
 * to QPN 0. What a field cannot say is said by edits, made before the checksums, or by changing the
 * bytes afterwards.
 */
#ifndef TESTS_BPF_FRAME_H
#define TESTS_BPF_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_EDITS 4

enum frame_layer { LAYER_NONE, LAYER_ETHERNET, LAYER_IP, LAYER_UDP, LAYER_BTH };

struct frame_edit {
	enum frame_layer layer;
	int offset;
	uint8_t value;
};

struct frame_spec {
	uint8_t opcode; /* 0: RC Acknowledge */
	uint32_t qpn;
	uint32_t psn;
	uint8_t syndrome;
	uint32_t msn;
	bool ipv6;
	uint16_t vlan_type; /* 0: no tag */
	bool second_vlan;
	int options;       /* bytes of IPv4 options or of an IPv6 extension header */
	int extra;         /* bytes more than the opcode has, inside UDP; negative: fewer */
	int padding;       /* bytes after the ICRC, outside IP */
	bool wrong_source; /* not the peer's address */
	bool wrong_destination;
	bool bad_icrc;
	struct frame_edit edits[FRAME_EDITS];
};

struct frame {
	uint8_t bytes[256];
	size_t length;
	size_t ip, udp, bth, icrc; /* offsets */
	bool ipv6;
};

/* The peer is 192.0.2.2 or fd00::2, we are 192.0.2.1 or fd00::1, as in a QP line. */
extern const uint8_t frame_local_ipv4[16], frame_remote_ipv4[16];
extern const uint8_t frame_local_ipv6[16], frame_remote_ipv6[16];

void frame_build(struct frame *frame, const struct frame_spec *spec);

/* Sets the IPv4 header checksum and the ICRC again after bytes were changed. */
void frame_seal(struct frame *frame);

/* True for bits that the ICRC does not cover: Ethernet, VLAN, and the masked fields. */
bool frame_bit_is_masked(const struct frame *frame, size_t byte, int bit);

/* Takes a frame from hexadecimal text. */
void frame_from_hex(struct frame *frame, const char *hex);

#endif
