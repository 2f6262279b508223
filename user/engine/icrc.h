/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariant CRC of a RoCEv2 frame: CRC-32 as in the Ethernet FCS over the frame from the IP header
 * to the pad, preceded by eight bytes 0xFF, with the fields that routers may change set to ones.
 */
#ifndef USER_ENGINE_ICRC_H
#define USER_ENGINE_ICRC_H

#include <stddef.h>
#include <stdint.h>

/* ICRC of `length` bytes whose variant fields are ones already. Stored least significant byte
 * first. */
uint32_t icrc_of_masked(const uint8_t *masked, size_t length);

/*
 * ICRC of a frame as it is on the wire: `ip` points to the IPv4 (no options) or IPv6 (no extension
 * headers) header, length reaches to the end of the pad, ICRC excluded. Returns 0 or −1 when that
 * is no such frame (too short for IP, UDP and BTH, or another IP version). The bytes are not
 * changed.
 */
int icrc_of_frame(const uint8_t *ip, size_t length, uint32_t *icrc);

#endif
