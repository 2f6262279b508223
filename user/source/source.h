/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where payload comes from: a file, standard input or a FIFO, or a pattern. Each source has a
 * thread of its own that may block on its input and on a full source ring, and never on anything
 * else.
 */
#ifndef USER_SOURCE_SOURCE_H
#define USER_SOURCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#include "ring.h"

struct source;

enum source_kind {
	SOURCE_FILE,   /* a regular file: cut into messages of message_size, the last one shorter */
	SOURCE_STREAM, /* standard input ("-"), a FIFO or a device: read to its end */
	SOURCE_PATTERN, /* `messages` messages of message_size reproducible bytes */
};

struct source_config {
	const char *path;      /* file, FIFO or "-"; NULL for a pattern */
	uint64_t message_size; /* bytes; 0 only for a pattern */
	uint64_t messages;     /* pattern only */
	uint64_t seed;         /* pattern only */
	/*
	 * Total bytes that a stream will carry, 0 when not known. When known, a message is declared
	 * when it starts and its bytes leave as they arrive; when not, a message starts when it is
	 * complete. A stream that ends before them ends its message early, and no further one
	 * starts; bytes beyond them are read and discarded, so that the writer gets to its end.
	 */
	uint64_t stream_bytes;
	/*
	 * A message may end before the length that it is declared with: then messages start with
	 * their first byte also where stream_bytes is not known.
	 */
	bool open_ended;
};

/*
 * Opens the input, makes the ring, starts the thread. A regular file as standard input is a file,
 * from where it stands. An input of no bytes at all is one message of length 0, whatever its kind.
 * The kind follows from what path names.
 */
int source_start(struct source **source, const struct source_config *config, struct error *error);

/* The ring's producer handle, for source_ring_attach. Valid until source_stop. */
const struct source_ring *source_ring_of(const struct source *source);

enum source_kind source_kind(const struct source *source);

/* Total payload bytes, or 0 when not known. */
uint64_t source_total_bytes(const struct source *source);

/* Bytes beyond stream_bytes that were discarded until now; more may follow until source_stop. */
uint64_t source_excess_bytes(const struct source *source);

/*
 * Ends the thread, wherever it waits, and frees all. Returns what the input failed with, or 0. NULL
 * is allowed.
 */
int source_stop(struct source *source, struct error *error);

/*
 * Byte `offset` of the pattern with this seed; offsets count over all messages of a stream. The
 * same function checks a pattern at the far end.
 */
uint8_t source_pattern_byte(uint64_t seed, uint64_t offset);
/* Writes `length` bytes of the pattern from `offset` on: the same, many at a time. */
void source_pattern_fill(uint8_t *to, uint64_t seed, uint64_t offset, size_t length);

#endif
