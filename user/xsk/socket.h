/* SPDX-License-Identifier: BSD-2-Clause */
/* What open.c sets up and xsk.c works on; private to this room. */
#ifndef USER_XSK_SOCKET_H
#define USER_XSK_SOCKET_H

#include <xdp/xsk.h>

#include "xsk.h"

/* Kernel headers before 6.6 do not have these. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

struct xsk {
	struct xsk_ring_prod tx;
	struct xsk_ring_cons completion;
	struct xsk_ring_prod fill; /* must exist; stays empty, since nothing is received here */
	uint32_t entries;          /* of the TX ring and of the completion ring */
	uint32_t outstanding;      /* submitted and not yet completed, published or not */
	uint32_t unpublished;      /* submitted since the last kick */
	int fd;
	bool multi_buffer;
	uint8_t *umem;
	size_t umem_bytes;
	struct xsk_umem *registration;
	struct xsk_socket *socket;
};

#endif
