/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bare AF_XDP loop: xsk_raw INTERFACE FRAME_BYTES FRAMES. Sends frames of that size as fast as
 * the socket takes them, with nothing else to do, and prints frames per second and bit/s: what the
 * medium allows, to compare the sender with. The frames are broadcast with the local-experiment
 * EtherType.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../user/xsk/xsk.h"

#define SLOTS 512u
#define BATCH 32u

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fill(uint8_t *umem, uint32_t stride)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint8_t *frame = umem + (uint64_t)i * stride;

		memset(frame, (int)i, stride);
		memset(frame, 0xFF, 6);
		memset(frame + 6, 0x02, 6);
		frame[12] = 0x88;
		frame[13] = 0xB5;
	}
}

int main(int argc, char **argv)
{
	uint32_t length = argc == 4 ? (uint32_t)atoi(argv[2]) : 0;
	uint64_t frames = argc == 4 ? strtoull(argv[3], NULL, 10) : 0, sent = 0, offsets[64];
	uint32_t stride = length > XSK_CHUNK ? 2 * XSK_CHUNK : XSK_CHUNK;
	struct xsk_config config = {
		.interface = argv[1],
		.umem_bytes = (size_t)SLOTS * stride,
		.tx_entries = 2048,
		.multi_buffer = length > XSK_CHUNK,
	};
	struct error error;
	struct xsk *xsk;
	double start, end;

	if (length < 60 || length > 2 * XSK_CHUNK || !frames) {
		fprintf(stderr, "usage: xsk_raw INTERFACE FRAME_BYTES FRAMES\n");
		return 2;
	}
	if (xsk_open(&xsk, &config, &error)) {
		fprintf(stderr, "xsk_raw: %s\n", error.text);
		return 1;
	}
	fill(xsk_umem(xsk), stride);
	start = seconds();
	while (sent < frames) {
		/* The bytes never change, so that a slot may be submitted before it has completed.
		 */
		for (uint32_t i = 0; i < BATCH && sent < frames; i++)
			if (xsk_room(xsk) < 2 || !xsk_submit(xsk, sent % SLOTS * stride, length))
				break;
			else
				sent++;
		xsk_kick(xsk);
		xsk_complete(xsk, offsets, 64);
	}
	while (xsk_outstanding(xsk)) {
		xsk_kick(xsk);
		xsk_complete(xsk, offsets, 64);
	}
	end = seconds();
	printf("%.0f frames/s, %.2f Gbit/s\n", (double)frames / (end - start),
	       (double)frames * length * 8 / (end - start) / 1e9);
	xsk_close(xsk);
	return 0;
}
