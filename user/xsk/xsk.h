/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AF_XDP, transmit side: one socket on one queue of one interface, with a UMEM of its own.
 *
 * Four calls on the hot path: room, submit, kick, complete. A frame is a contiguous range of the
 * UMEM; when it crosses a chunk border (PMTU 4096 only) it is submitted as two descriptors. Nothing
 * here knows slots or queue pairs: the caller counts the completions of each frame, one per
 * descriptor, and does not rely on their order.
 *
 * The completion ring has at least as many entries as the TX ring, and no more descriptors are ever
 * outstanding than it holds. No function blocks. One thread per struct xsk.
 *
 * System calls: socket, bind, setsockopt, mmap at open; sendto in xsk_kick. Needs CAP_NET_RAW and
 * RLIMIT_MEMLOCK for the UMEM (CAP_IPC_LOCK lifts it).
 */
#ifndef USER_XSK_XSK_H
#define USER_XSK_XSK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#define XSK_CHUNK 4096u /* bytes; the largest chunk that every kernel takes */

struct xsk;

struct xsk_config {
	const char *interface;
	uint32_t queue;
	size_t umem_bytes;   /* a multiple of XSK_CHUNK */
	uint32_t tx_entries; /* descriptors, a power of two */
	bool multi_buffer;   /* frames may cross a chunk border: needs XDP_USE_SG, kernel 6.6 */
};

/* Opens in copy mode. Errors name the cure: privilege, memlock, no such queue, kernel too old. */
int xsk_open(struct xsk **xsk, const struct xsk_config *config, struct error *error);
void xsk_close(struct xsk *xsk); /* NULL is allowed */

uint8_t *xsk_umem(const struct xsk *xsk);

/* Descriptors that xsk_submit will take now. */
uint32_t xsk_room(struct xsk *xsk);

/*
 * Queues length bytes at this offset of the UMEM. Returns the number of descriptors (1 or 2), or 0
 * when there is no room for all of it. The bytes may not change until that many completions came
 * back. Not visible to the kernel before xsk_kick.
 */
uint32_t xsk_submit(struct xsk *xsk, uint64_t offset, uint32_t length);

/*
 * Publishes what was submitted and asks the kernel to send, once. Returns 0 when there is nothing
 * left in the TX ring, 1 when the kernel took a part (kick again), or a negative errno that names a
 * fault of the interface (-ENETDOWN, -ENXIO): its descriptors stay in the ring and go out when it
 * is back.
 */
int xsk_kick(struct xsk *xsk);

/* Takes up to max completions: the start offset of each descriptor as the kernel gave it back. */
uint32_t xsk_complete(struct xsk *xsk, uint64_t *offsets, uint32_t max);

/* Descriptors submitted and not yet completed. */
uint32_t xsk_outstanding(const struct xsk *xsk);

/* Descriptors that the kernel found invalid since open: always 0, or it is a defect of ours. */
uint64_t xsk_invalid(const struct xsk *xsk);

/*
 * May the kernel still read a frame's bytes after its completion came? Copy mode copies them at the
 * submission, but on virtio_net it hands the pages themselves to the device; and before Linux 6.18
 * a completion may name another frame than the one that has left. Then bytes may change only when
 * the socket has no submission outstanding at all.
 */
bool xsk_reads_late(const char *interface);
/* The rule behind it, for a driver's name and a kernel's release. */
bool xsk_driver_reads_late(const char *driver, const char *release);

#endif
