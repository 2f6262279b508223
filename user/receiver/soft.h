/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software responder on one interface: a thread that takes frames from the wire, through the
 * fault injection and the responder, and sends the replies. It alone touches the queue pairs; the
 * functions below may be called from any thread and wait until it has done their work between two
 * frames. It never waits for a reader.
 */
#ifndef USER_RECEIVER_SOFT_H
#define USER_RECEIVER_SOFT_H

#include <stdint.h>

#include <xdp2roce/error.h>

#include "faults.h"
#include "responder.h"

#define SOFT_STREAMS 64 /* queue pairs of one interface */

struct soft;
struct soft_stream;

struct soft_config {
	int ifindex;
	const char *interface;
	struct faults_config faults;
};

struct soft_report {
	enum responder_state state;
	struct responder_counters counters;
	struct faults_counters faults; /* of the interface */
	uint64_t ring_drops;     /* of the interface: frames lost before the responder saw them */
	uint64_t send_errors;    /* of the interface: replies that it did not take */
	uint64_t foreign_frames; /* of the interface: RoCEv2 frames of no stream */
};

/* Opens the packet socket and starts the thread. */
int soft_start(struct soft **soft, const struct soft_config *config, struct error *error);
/* Ends the thread and closes every stream; NULL is fine. */
void soft_stop(struct soft *soft);

/* Opens a queue pair. Its qpn is chosen here and written to config. */
int soft_open(struct soft *soft, struct responder_config *config, struct soft_stream **stream,
	      struct error *error);
void soft_close(struct soft *soft, struct soft_stream *stream);

/* For responder_reader_…(), by the stream's one reader, until soft_close(). */
struct responder_qp *soft_qp(const struct soft_stream *stream);
/* An eventfd that becomes readable when messages were completed. */
int soft_event(const struct soft_stream *stream);
void soft_report(struct soft *soft, const struct soft_stream *stream, struct soft_report *report);

#endif
