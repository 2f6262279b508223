/* SPDX-License-Identifier: BSD-2-Clause */
#include "icrc.h"

#include <isa-l/crc.h>
#include <string.h>

#include <xdp2roce/roce.h>

#define IPV4_LEN 20
#define IPV6_LEN 40
#define UDP_LEN 8

/* ISA-L takes and returns the register inverted, as zlib does. */
static uint32_t crc_update(uint32_t crc, const uint8_t *bytes, size_t length)
{
	return crc32_gzip_refl(crc, bytes, length);
}

uint32_t icrc_of_masked(const uint8_t *masked, size_t length)
{
	return crc_update(~ROCE_ICRC_SEED, masked, length);
}

static void mask_ipv4(uint8_t *ip)
{
	ip[1] = 0xFF;           /* TOS */
	ip[8] = 0xFF;           /* TTL */
	ip[10] = ip[11] = 0xFF; /* header checksum */
}

static void mask_ipv6(uint8_t *ip)
{
	ip[0] |= 0x0F; /* traffic class and flow label */
	ip[1] = ip[2] = ip[3] = 0xFF;
	ip[7] = 0xFF; /* hop limit */
}

int icrc_of_frame(const uint8_t *ip, size_t length, uint32_t *icrc)
{
	uint8_t masked[IPV6_LEN + UDP_LEN + sizeof(struct roce_bth)];
	size_t ip_len, head;

	if (length < 1)
		return -1;
	ip_len = ip[0] >> 4 == 4 ? IPV4_LEN : IPV6_LEN;
	head = ip_len + UDP_LEN + sizeof(struct roce_bth);
	if (length < head || (ip[0] != 0x45 && ip[0] >> 4 != 6))
		return -1;

	memcpy(masked, ip, head);
	if (ip_len == IPV4_LEN)
		mask_ipv4(masked);
	else
		mask_ipv6(masked);
	masked[ip_len + 6] = masked[ip_len + 7] = 0xFF; /* UDP checksum */
	masked[ip_len + UDP_LEN + 4] = 0xFF;            /* FECN, BECN, reserved */

	*icrc = crc_update(icrc_of_masked(masked, head), ip + head, length - head);
	return 0;
}
