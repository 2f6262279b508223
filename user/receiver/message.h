/* SPDX-License-Identifier: BSD-2-Clause */
/* What a reader is told of a message, whether an RDMA device or software received it. */
#ifndef USER_RECEIVER_MESSAGE_H
#define USER_RECEIVER_MESSAGE_H

#include <stdint.h>

/* A message that is whole. Its payload starts at its slot. */
struct receiver_message {
	uint64_t number; /* the immediate, extended to 64 bits; without immediates a count */
	uint32_t slot;   /* number mod slot_count */
	uint32_t length; /* bytes; may exceed the slot size, which is the peer's mistake */
};

#endif
