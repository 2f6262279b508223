/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot path. Who owns a TX entry when:
 *
 *   free ──xsk_submit──▶ written ──xsk_kick──▶ kernel reads it ──▶ completion ring
 * ──xsk_complete──▶ free └──────────────────────────── outstanding
 * ────────────────────────────────┘
 *
 * outstanding ≤ entries, and both rings hold `entries`: hence neither ring can ever overflow.
 */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "socket.h"

uint8_t *xsk_umem(const struct xsk *xsk)
{
	return xsk->umem;
}

uint32_t xsk_room(struct xsk *xsk)
{
	uint32_t room = xsk->entries - xsk->outstanding;
	/*
	 * Before 6.17 a kernel that stops in the middle of the ring publishes its consumer index
	 * only at the next call, so completions can be ahead of it.
	 */
	uint32_t free = xsk_prod_nb_free(&xsk->tx, room);

	return free < room ? free : room;
}

uint32_t xsk_submit(struct xsk *xsk, uint64_t offset, uint32_t length)
{
	uint32_t to_border = XSK_CHUNK - offset % XSK_CHUNK;
	uint32_t count = length > to_border ? 2 : 1;
	uint32_t first = count == 2 ? to_border : length;
	struct xdp_desc *desc;
	uint32_t index;

	/* An invalid descriptor gets no completion from older kernels: the slot would be lost. */
	assert(length > 0 && length - first <= (xsk->multi_buffer ? XSK_CHUNK : 0));
	assert(offset < xsk->umem_bytes && length <= xsk->umem_bytes - offset);

	if (xsk->entries - xsk->outstanding < count ||
	    xsk_ring_prod__reserve(&xsk->tx, count, &index) != count)
		return 0;
	desc = xsk_ring_prod__tx_desc(&xsk->tx, index);
	desc->addr = offset;
	desc->len = first;
	desc->options = count == 2 ? XDP_PKT_CONTD : 0;
	if (count == 2) {
		desc = xsk_ring_prod__tx_desc(&xsk->tx, index + 1);
		desc->addr = offset + first;
		desc->len = length - first;
		desc->options = 0;
	}
	xsk->unpublished += count;
	xsk->outstanding += count;
	return count;
}

/* Only the indices tell: before 6.17 the kernel returns success also when it stopped early. */
static int tx_ring_is_empty(const struct xsk *xsk)
{
	return __atomic_load_n(xsk->tx.consumer, __ATOMIC_ACQUIRE) == *xsk->tx.producer;
}

int xsk_kick(struct xsk *xsk)
{
	if (xsk->unpublished > 0) {
		xsk_ring_prod__submit(&xsk->tx, xsk->unpublished);
		xsk->unpublished = 0;
	}
	if (tx_ring_is_empty(xsk))
		return 0;

	/* Copy mode has no sending thread in the kernel: need_wakeup is always set, and not looked
	 * at. */
	if (sendto(xsk->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0) {
		switch (errno) {
		case EAGAIN:  /* its budget (32 descriptors) or the socket's send buffer is used up
			       */
		case EBUSY:   /* the driver dropped a frame: consumed and completed, like one lost
				 later */
		case ENOBUFS: /* no memory now; nothing was consumed */
		case ENOMEM:
		case EINTR:
			break;
		default:
			return -errno;
		}
	}
	return !tx_ring_is_empty(xsk);
}

uint32_t xsk_complete(struct xsk *xsk, uint64_t *offsets, uint32_t max)
{
	uint32_t index;
	uint32_t count = xsk_ring_cons__peek(&xsk->completion, max, &index);

	for (uint32_t i = 0; i < count; i++)
		offsets[i] = *xsk_ring_cons__comp_addr(&xsk->completion, index + i);
	if (count > 0)
		xsk_ring_cons__release(&xsk->completion, count);
	assert(count <= xsk->outstanding);
	xsk->outstanding -= count;
	return count;
}

uint32_t xsk_outstanding(const struct xsk *xsk)
{
	return xsk->outstanding;
}

uint64_t xsk_invalid(const struct xsk *xsk)
{
	struct xdp_statistics statistics = { 0 };
	socklen_t length = sizeof(statistics);

	if (getsockopt(xsk->fd, SOL_XDP, XDP_STATISTICS, &statistics, &length) < 0)
		return 0;
	return statistics.tx_invalid_descs;
}
