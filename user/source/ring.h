/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a source ring (layout and ownership: <xdp2roce/source_ring.h>).
 *
 * Producer calls come from one thread, consumer calls from one other thread. Neither end takes a
 * lock; a sleeping end is woken through an eventfd, and only when its waits flag is set.
 */
#ifndef USER_SOURCE_RING_H
#define USER_SOURCE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xdp2roce/error.h>
#include <xdp2roce/source_ring.h>

struct source_ring {
	struct source_ring_header *header;
	uint8_t *data;
	uint64_t size; /* own copy: the shared one is not trusted after the mapping */
	int memory_fd;
	int payload_fd;     /* eventfd: wakes the consumer */
	int space_fd;       /* eventfd: wakes the producer */
	uint64_t position;  /* start of the current record, own copy of head (producer) or tail
			       (consumer) */
	uint64_t length;    /* declared length of the current message */
	uint64_t available; /* bytes of it that were committed (producer) or seen (consumer) */
	bool in_message;
	bool ended;  /* consumer: the end of the current message was seen */
	bool broken; /* consumer: the producer wrote nonsense once */
};

enum source_ring_state {
	SOURCE_RING_EMPTY,   /* nothing now */
	SOURCE_RING_MESSAGE, /* the view is filled in */
	SOURCE_RING_CLOSED,  /* all taken, no more will come */
	SOURCE_RING_FAILED,  /* all taken, and the source ended with an error */
	SOURCE_RING_BROKEN,  /* the producer wrote nonsense; the ring must not be used any more */
};

/* The oldest message that was not released. */
struct source_view {
	const uint8_t
		*payload;   /* contiguous; may change under a hostile producer: copy, then look */
	uint64_t length;    /* declared */
	uint64_t available; /* bytes that may be read now; never goes back, never above length */
	bool ended;         /* available is final; less than length when the source ended early */
};

/*
 * Smallest ring that holds two messages of up to this size at any offset, and at least 4 MiB, so
 * that a producer runs ahead. A single record may be as large as the data area: it fits once all is
 * released.
 */
uint64_t source_ring_size_for(uint64_t message_size);

/* Makes a sealed memfd and both eventfds. size is a power of two, at least 4096. */
int source_ring_create(struct source_ring *producer, uint64_t size, struct error *error);
/* The consumer's own handle on the same ring; checks magic, version, size and seals. */
int source_ring_attach(struct source_ring *consumer, const struct source_ring *producer,
		       struct error *error);
void source_ring_close(struct source_ring *ring);

/* Producer. */

/*
 * Room for a message of up to `length` bytes, without starting it: the consumer sees nothing yet.
 * Returns what source_ring_begin of this or a smaller length will return at once. So a message
 * whose length is known only when it is complete is built in place. Same rules for wait and stop_fd
 * as there.
 */
uint8_t *source_ring_reserve(struct source_ring *producer, uint64_t length, bool wait, int stop_fd);
/*
 * Starts a message of declared length: returns where its payload goes, or NULL when there is no
 * room now (with wait: sleeps until there is; NULL then means that stop_fd became readable). A
 * length that can never fit (see source_ring_size_for) is a defect of the caller: asserted.
 */
uint8_t *source_ring_begin(struct source_ring *producer, uint64_t length, bool wait, int stop_fd);
/* The first `bytes` of the current message may be read. */
void source_ring_commit(struct source_ring *producer, uint64_t bytes);
/* The current message is complete, or ends early at what was committed last. */
void source_ring_end(struct source_ring *producer);
/* No more messages. */
void source_ring_finish(struct source_ring *producer, bool failed);

/* Consumer: never blocks. */

enum source_ring_state source_ring_peek(struct source_ring *consumer, struct source_view *view);
/*
 * Gives the space of the message in the view back; all of it must have been used or is discarded
 * (also before its end: the producer's further commits then go nowhere).
 */
void source_ring_release(struct source_ring *consumer);
/*
 * To be called before sleeping on payload_fd. `seen` is the available count that the caller has
 * acted on (0 when it saw no message). Returns false when something new is there: do not sleep. A
 * message of which no byte is committed is nothing new.
 */
bool source_ring_arm(struct source_ring *consumer, uint64_t seen);
/* Takes the flag and the eventfd's count back after waking. */
void source_ring_disarm(struct source_ring *consumer);

#endif
