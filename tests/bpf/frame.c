/* SPDX-License-Identifier: BSD-2-Clause */
#include "frame.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include <xdp2roce/roce.h>

#define MAPPED 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF

const uint8_t frame_local_ipv4[16] = { MAPPED, 192, 0, 2, 1 };
const uint8_t frame_remote_ipv4[16] = { MAPPED, 192, 0, 2, 2 };
const uint8_t frame_local_ipv6[16] = { 0xFD, [15] = 1 };
const uint8_t frame_remote_ipv6[16] = { 0xFD, [15] = 2 };

static void put(struct frame *frame, const void *bytes, size_t length)
{
	memcpy(frame->bytes + frame->length, bytes, length);
	frame->length += length;
}

static void put8(struct frame *frame, unsigned int value)
{
	frame->bytes[frame->length++] = (uint8_t)value;
}

static void put16(struct frame *frame, unsigned int value)
{
	put8(frame, value >> 8);
	put8(frame, value);
}

static void put24(struct frame *frame, uint32_t value)
{
	put8(frame, value >> 16);
	put16(frame, value);
}

static void put_zeros(struct frame *frame, int count)
{
	while (count-- > 0)
		put8(frame, 0);
}

static void put_ethernet(struct frame *frame, const struct frame_spec *spec)
{
	static const uint8_t macs[12] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 };

	put(frame, macs, sizeof(macs));
	if (spec->second_vlan) {
		put16(frame, 0x88A8);
		put16(frame, 7);
	}
	if (spec->vlan_type) {
		put16(frame, spec->vlan_type);
		put16(frame, 100);
	}
	put16(frame, spec->ipv6 ? 0x86DD : 0x0800);
}

static void put_ipv4(struct frame *frame, const struct frame_spec *spec, unsigned int udp_length)
{
	put8(frame, 0x45 + (unsigned int)spec->options / 4);
	put8(frame, 0x02);
	put16(frame, 20 + (unsigned int)spec->options + udp_length);
	put16(frame, 0x1234);
	put16(frame, 0x4000);
	put8(frame, 64);
	put8(frame, 17);
	put16(frame, 0);
	put(frame, frame_remote_ipv4 + 12, 4);
	put(frame, frame_local_ipv4 + 12, 4);
	if (spec->wrong_source)
		frame->bytes[frame->length - 5] ^= 4;
	if (spec->wrong_destination)
		frame->bytes[frame->length - 1] ^= 4;
	put_zeros(frame, spec->options);
}

static void put_ipv6(struct frame *frame, const struct frame_spec *spec, unsigned int udp_length)
{
	put16(frame, 0x6021);
	put16(frame, 0x2345);
	put16(frame, udp_length + (unsigned int)spec->options);
	put8(frame, spec->options ? 0 : 17);
	put8(frame, 64);
	put(frame, frame_remote_ipv6, 16);
	put(frame, frame_local_ipv6, 16);
	if (spec->wrong_source)
		frame->bytes[frame->length - 17] ^= 4;
	if (spec->wrong_destination)
		frame->bytes[frame->length - 1] ^= 4;
	if (spec->options) {
		put8(frame, 17);
		put_zeros(frame, spec->options - 1);
	}
}

static void put_bth(struct frame *frame, const struct frame_spec *spec, uint8_t opcode)
{
	put8(frame, opcode);
	put8(frame, 0);
	put16(frame, ROCE_PKEY_DEFAULT);
	put8(frame, opcode == ROCE_CNP ? 0x40 : 0);
	put24(frame, spec->qpn);
	put8(frame, 0);
	put24(frame, spec->psn);
}

/* What follows the BTH, cut or filled to its length. */
static void put_rest(struct frame *frame, const struct frame_spec *spec, uint8_t opcode, int length)
{
	size_t start = frame->length;

	if (opcode != ROCE_CNP) {
		put8(frame, spec->syndrome);
		put24(frame, spec->msn);
	}
	put_zeros(frame, (int)start + length - (int)frame->length);
	frame->length = start + (size_t)length;
}

static void edit(struct frame *frame, const struct frame_edit *edit)
{
	size_t layer[] = { [LAYER_ETHERNET] = 0,
			   [LAYER_IP] = frame->ip,
			   [LAYER_UDP] = frame->udp,
			   [LAYER_BTH] = frame->bth };

	if (edit->layer != LAYER_NONE)
		frame->bytes[layer[edit->layer] + (size_t)edit->offset] = edit->value;
}

/* CRC-32 over dummy LRH and frame, one byte at a time, masked bits as ones. */
static uint32_t icrc(const struct frame *frame)
{
	static const uint8_t lrh[8] = { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF };
	uLong crc = crc32(0, lrh, sizeof(lrh));

	for (size_t byte = frame->ip; byte < frame->icrc; byte++) {
		uint8_t value = frame->bytes[byte];

		for (int bit = 0; bit < 8; bit++)
			if (frame_bit_is_masked(frame, byte, bit))
				value |= (uint8_t)(1 << bit);
		crc = crc32(crc, &value, 1);
	}
	return (uint32_t)crc;
}

static void set_ipv4_checksum(struct frame *frame)
{
	uint8_t *ip = frame->bytes + frame->ip;
	uint32_t sum = 0;

	ip[10] = ip[11] = 0;
	for (size_t i = 0; i < frame->udp - frame->ip; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	sum = (sum & 0xFFFF) + (sum >> 16);
	sum = ~((sum & 0xFFFF) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

void frame_seal(struct frame *frame)
{
	uint32_t crc;

	if (!frame->ipv6)
		set_ipv4_checksum(frame);
	crc = icrc(frame);
	for (int i = 0; i < 4; i++)
		frame->bytes[frame->icrc + (size_t)i] = (uint8_t)(crc >> 8 * i);
}

void frame_build(struct frame *frame, const struct frame_spec *spec)
{
	uint8_t opcode = spec->opcode ? spec->opcode : ROCE_RC_ACKNOWLEDGE;
	int rest = (opcode == ROCE_CNP ? 16 : 4) + spec->extra;
	unsigned int udp_length = 8 + 12 + (unsigned int)rest + 4;

	memset(frame, 0, sizeof(*frame));
	frame->ipv6 = spec->ipv6;
	put_ethernet(frame, spec);
	frame->ip = frame->length;
	if (spec->ipv6)
		put_ipv6(frame, spec, udp_length);
	else
		put_ipv4(frame, spec, udp_length);
	frame->udp = frame->length;
	put16(frame, 0xC123);
	put16(frame, ROCE_UDP_PORT);
	put16(frame, udp_length);
	put16(frame, 0);
	frame->bth = frame->length;
	put_bth(frame, spec, opcode);
	put_rest(frame, spec, opcode, rest);
	frame->icrc = frame->length;
	put_zeros(frame, 4);
	for (int i = 0; i < FRAME_EDITS; i++)
		edit(frame, &spec->edits[i]);
	frame_seal(frame);
	if (spec->bad_icrc)
		frame->bytes[frame->icrc] ^= 1;
	for (int i = 0; i < spec->padding; i++)
		put8(frame, 0xA5);
}

bool frame_bit_is_masked(const struct frame *frame, size_t byte, int bit)
{
	size_t in_ip = byte - frame->ip;

	if (byte < frame->ip)
		return true;
	if (byte == frame->bth + 4 || byte == frame->udp + 6 || byte == frame->udp + 7)
		return true;
	if (frame->ipv6)
		return in_ip == 1 || in_ip == 2 || in_ip == 3 || in_ip == 7 ||
		       (in_ip == 0 && bit < 4);
	return in_ip == 1 || in_ip == 8 || in_ip == 10 || in_ip == 11;
}

void frame_from_hex(struct frame *frame, const char *hex)
{
	unsigned int value;

	memset(frame, 0, sizeof(*frame));
	for (; sscanf(hex, "%2x", &value) == 1; hex += 2)
		put8(frame, value);
}
