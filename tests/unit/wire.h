/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Builds RoCEv2 frames for the tests of the responder, byte by byte and with a bitwise CRC: shares
 * nothing with the code under test but the numbers of the opcodes.
 */
#ifndef TESTS_UNIT_WIRE_H
#define TESTS_UNIT_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WIRE_MAX 4400

struct wire {
	uint8_t opcode;
	uint32_t qpn, psn;
	bool ackreq;
	uint64_t address;
	uint32_t rkey, dma_length;
	uint32_t immediate;
	const uint8_t *payload;
	uint32_t length;
	bool ipv6, vlan;
	uint8_t source, destination; /* last byte of the addresses */
	int pad; /* −1: the right one; else the pad count to claim, and to have */
	uint16_t pkey;
	uint8_t tver;
	uint32_t trailer; /* bytes after the IP packet */
};

static inline bool wire_has_reth(uint8_t opcode)
{
	uint8_t operation = opcode & 0x1F;

	return operation == 0x06 || operation == 0x0A || operation == 0x0B;
}

static inline bool wire_has_immediate(uint8_t opcode)
{
	uint8_t operation = opcode & 0x1F;

	return operation == 0x09 || operation == 0x0B;
}

static inline void wire_put(uint8_t **at, uint64_t value, int bytes)
{
	while (bytes--)
		*(*at)++ = (uint8_t)(value >> 8 * bytes);
}

/* The ICRC of the packet that starts at ip and ends before its ICRC, one bit at a time. */
static inline uint32_t wire_icrc(const uint8_t *ip, uint32_t length)
{
	bool ipv6 = ip[0] >> 4 == 6;
	uint32_t header = ipv6 ? 40 : 20, crc = 0xFFFFFFFF;

	for (uint32_t i = 0; i < length + 8; i++) {
		uint32_t at = i - 8;
		uint8_t byte = i < 8 ? 0xFF : ip[at];

		if (i >= 8 && ipv6 && at == 0)
			byte |= 0x0F;
		if (i >= 8 && ipv6 && (at == 1 || at == 2 || at == 3 || at == 7))
			byte = 0xFF;
		if (i >= 8 && !ipv6 && (at == 1 || at == 8 || at == 10 || at == 11))
			byte = 0xFF;
		if (i >= 8 && (at == header + 6 || at == header + 7 || at == header + 12))
			byte = 0xFF;
		crc ^= byte;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
	}
	return ~crc;
}

static inline void wire_ip(uint8_t **at, const struct wire *wire, uint32_t udp_length)
{
	uint8_t *ip = *at;
	uint32_t sum = 0;

	if (wire->ipv6) {
		wire_put(at, 0x60000000, 4);
		wire_put(at, udp_length, 2);
		wire_put(at, 17 << 8 | 64, 2);
		for (int i = 0; i < 2; i++) {
			wire_put(at, 0xFD00000000000000, 8);
			wire_put(at, i ? wire->destination : wire->source, 8);
		}
		return;
	}
	wire_put(at, 0x4500, 2);
	wire_put(at, 20 + udp_length, 2);
	wire_put(at, 0x00004000, 4);
	wire_put(at, 0x40110000, 4);
	wire_put(at, 0xC0000200 | wire->source, 4);
	wire_put(at, 0xC0000200 | wire->destination, 4);
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xFFFF) + (sum >> 16);
	ip[10] = (uint8_t)(~sum >> 8);
	ip[11] = (uint8_t)~sum;
}

/* Writes the frame and returns its length. */
static inline uint32_t wire_build(const struct wire *wire, uint8_t *frame)
{
	uint32_t pad = wire->pad < 0 ? -wire->length & 3 : (uint32_t)wire->pad;
	uint32_t udp_length = 8 + 12 + (wire_has_reth(wire->opcode) ? 16 : 0) +
			      (wire_has_immediate(wire->opcode) ? 4 : 0) + wire->length + pad + 4;
	uint8_t *at = frame, *ip;
	uint32_t icrc;

	wire_put(&at, 0x020000000002, 6);
	wire_put(&at, 0x020000000001, 6);
	if (wire->vlan)
		wire_put(&at, 0x81006007, 4);
	wire_put(&at, wire->ipv6 ? 0x86DD : 0x0800, 2);
	ip = at;
	wire_ip(&at, wire, udp_length);
	wire_put(&at, 0xC12312B7, 4);
	wire_put(&at, udp_length << 16, 4);
	wire_put(&at, wire->opcode, 1);
	wire_put(&at, 0x40 | pad << 4 | wire->tver, 1);
	wire_put(&at, wire->pkey, 2);
	wire_put(&at, wire->qpn, 4);
	wire_put(&at, (uint32_t)wire->ackreq << 31 | wire->psn, 4);
	if (wire_has_reth(wire->opcode)) {
		wire_put(&at, wire->address, 8);
		wire_put(&at, wire->rkey, 4);
		wire_put(&at, wire->dma_length, 4);
	}
	if (wire_has_immediate(wire->opcode))
		wire_put(&at, wire->immediate, 4);
	if (wire->length)
		memcpy(at, wire->payload, wire->length);
	at += wire->length;
	wire_put(&at, 0, (int)pad);
	icrc = wire_icrc(ip, (uint32_t)(at - ip));
	wire_put(&at, __builtin_bswap32(icrc), 4);
	memset(at, 0xEE, wire->trailer);
	return (uint32_t)(at - frame) + wire->trailer;
}

#endif
