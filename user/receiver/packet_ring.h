/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An AF_PACKET socket that sees the RoCEv2 frames of one interface: they come through a ring shared
 * with the kernel (TPACKET_V2, so that each is seen at once), replies go out with send(). Needs
 * CAP_NET_RAW. One thread.
 */
#ifndef USER_RECEIVER_PACKET_RING_H
#define USER_RECEIVER_PACKET_RING_H

#include <stddef.h>
#include <stdint.h>

#include <xdp2roce/error.h>

/* Frames that fit the ring: several senders' windows of 2048, and the memory it takes is 36 MiB. */
#define PACKET_RING_FRAMES 8192

struct packet_ring {
	int fd;
	uint8_t *map;
	size_t map_size;
	uint32_t next;       /* the frame that the kernel fills next */
	uint64_t ring_drops; /* frames that came while the ring was full */
	uint64_t send_errors;
};

int packet_ring_open(struct packet_ring *ring, int ifindex, const char *interface,
		     struct error *error);
void packet_ring_close(struct packet_ring *ring);

/*
 * The next frame addressed to this machine, NULL when there is none: whole, its VLAN tag in place.
 * It may be written to and belongs to the caller until packet_ring_advance().
 */
uint8_t *packet_ring_peek(struct packet_ring *ring, uint32_t *length);
void packet_ring_advance(struct packet_ring *ring);

/* Does not wait: a frame that the interface does not take now is lost, and counted. */
void packet_ring_send(struct packet_ring *ring, const uint8_t *frame, uint32_t length);

/* Asks the kernel what was lost, and clears pending errors of the socket. */
void packet_ring_refresh(struct packet_ring *ring);

#endif
