/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a stream's slots: zeroed, page-aligned, private to the process. */
#ifndef USER_RECEIVER_MEMORY_H
#define USER_RECEIVER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xdp2roce/error.h>

struct receiver_memory {
	uint8_t *bytes;
	size_t mapped; /* what bytes points to, a whole number of its pages; 0: nothing */
};

/*
 * huge: in huge pages of the system's default size, of which the rest of the last one is wasted.
 * They are taken from the pool at once, so that a page fault never finds it empty.
 */
int receiver_memory_open(struct receiver_memory *memory, size_t size, bool huge,
			 struct error *error);
void receiver_memory_close(struct receiver_memory *memory); /* zeroed is fine */

#endif
