/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a test sees in a frame: offsets and checks written from the wire format alone, with a
 * bitwise ICRC. Nothing of the engine is used here.
 */
#ifndef TESTS_UNIT_ENGINE_FRAME_H
#define TESTS_UNIT_ENGINE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Offsets in an untagged IPv4 frame. */
enum { AT_IP = 14, AT_UDP = 34, AT_BTH = 42, AT_AFTER_BTH = 54 };

static inline uint32_t be_get(const uint8_t *bytes, uint32_t count)
{
	uint32_t value = 0;

	for (uint32_t i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

static inline uint32_t frame_psn(const uint8_t *frame)
{
	return be_get(frame + AT_BTH + 9, 3);
}

static inline bool frame_ackreq(const uint8_t *frame)
{
	return frame[AT_BTH + 8] & 0x80;
}

static inline uint8_t frame_opcode(const uint8_t *frame)
{
	return frame[AT_BTH];
}

static inline uint32_t frame_pad(const uint8_t *frame)
{
	return frame[AT_BTH + 1] >> 4 & 3;
}

static inline bool opcode_has_reth(uint8_t opcode)
{
	return opcode == 0x06 || opcode == 0x0A || opcode == 0x0B;
}

static inline bool opcode_has_immediate(uint8_t opcode)
{
	return opcode == 0x09 || opcode == 0x0B;
}

static inline bool opcode_is_last(uint8_t opcode)
{
	return opcode >= 0x08 && opcode <= 0x0B;
}

static inline uint32_t frame_payload_at(const uint8_t *frame)
{
	uint8_t opcode = frame_opcode(frame);

	return AT_AFTER_BTH + (opcode_has_reth(opcode) ? 16 : 0) +
	       (opcode_has_immediate(opcode) ? 4 : 0);
}

/* CRC-32, one bit at a time; the register goes in and out as it is, not inverted. */
static inline uint32_t crc_bitwise(uint32_t crc, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
	}
	return crc;
}

/* ICRC of an IPv4 or IPv6 packet (IP header to pad) by the letter: dummy LRH, masks, inversion. */
static inline uint32_t icrc_bitwise(const uint8_t *ip, size_t length)
{
	static const uint8_t lrh[8] = { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF };
	uint8_t packet[9000];
	size_t udp = ip[0] >> 4 == 4 ? 20 : 40;

	memcpy(packet, ip, length);
	if (udp == 20) {
		packet[1] = packet[8] = packet[10] = packet[11] = 0xFF;
	} else {
		packet[0] |= 0x0F;
		packet[1] = packet[2] = packet[3] = packet[7] = 0xFF;
	}
	packet[udp + 6] = packet[udp + 7] = 0xFF;
	packet[udp + 12] = 0xFF;
	return ~crc_bitwise(crc_bitwise(0xFFFFFFFFu, lrh, 8), packet, length);
}

/* The last four bytes of a frame, least significant first. */
static inline uint32_t frame_icrc(const uint8_t *frame, uint32_t length)
{
	const uint8_t *at = frame + length - 4;

	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* What is wrong with the frame's envelope (IPv4, UDP, constants of the BTH), or NULL. */
static inline const char *frame_fault(const uint8_t *frame, uint32_t length)
{
	const uint8_t *ip = frame + AT_IP, *udp = frame + AT_UDP, *bth = frame + AT_BTH;
	uint32_t sum = 0;

	if (length < AT_AFTER_BTH + 4)
		return "too short";
	if (be_get(frame + 12, 2) != 0x0800 || ip[0] != 0x45)
		return "EtherType or IPv4 version and length";
	if (be_get(ip + 2, 2) != length - AT_IP)
		return "IPv4 total length";
	if (be_get(ip + 4, 2) != 0 || be_get(ip + 6, 2) != 0x4000)
		return "identification 0, DF";
	if (ip[9] != 17)
		return "protocol";
	for (int i = 0; i < 20; i += 2)
		sum += be_get(ip + i, 2);
	if (sum % 0xFFFF)
		return "IPv4 header checksum";
	if (be_get(udp, 2) < 0xC000 || be_get(udp + 2, 2) != 4791)
		return "UDP ports";
	if (be_get(udp + 4, 2) != length - AT_UDP || be_get(udp + 6, 2) != 0)
		return "UDP length or checksum";
	if ((bth[1] & 0xCF) != 0x40 || be_get(bth + 2, 2) != 0xFFFF || bth[4])
		return "SE 0, MigReq 1, TVer 0, P_Key FFFF, byte 4 zero";
	if (bth[8] & 0x7F)
		return "reserved bits beside AckReq";
	if (bth[0] < 0x06 || bth[0] > 0x0B)
		return "opcode is no RC write";
	return NULL;
}

static inline bool frame_icrc_right(const uint8_t *frame, uint32_t length)
{
	return frame_icrc(frame, length) == icrc_bitwise(frame + AT_IP, length - AT_IP - 4);
}

#endif
