/* SPDX-License-Identifier: BSD-2-Clause */
/* How the ends of a source ring wake each other; private to this room, explained in ring.c. */
#ifndef USER_SOURCE_WAKE_H
#define USER_SOURCE_WAKE_H

#include <stdint.h>

/* After news was stored: wakes the other end if it waits. */
void source_ring_wake(uint32_t *waits, int fd);
/* Before sleeping on fd; look for news once more after it. */
void source_ring_will_wait(uint32_t *waits);
/* After sleeping, or instead of it. */
void source_ring_awake(uint32_t *waits, int fd);

#endif
