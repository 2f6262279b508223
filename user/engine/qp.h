/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One queue pair of the transmit engine: packetizer, framer, retransmission ring, requester and
 * credits put together. No I/O, no clock, no thread: time comes in as nanoseconds (monotone, any
 * origin), frames go out as places in the ring's memory, acknowledgements come in as values.
 * Nothing allocates, locks or calls the kernel but qp_open and qp_close. One thread per queue pair
 * at a time.
 *
 * The caller's loop:
 *   qp_message()   when qp_message_open() is false and the source has a message
 *   qp_payload()   whenever more of it can be read
 *   qp_transmit()  while there is room for a frame: submit each frame that it returns, at once
 *   qp_receive()   for every ACK, NAK, RNR NAK
 *   qp_completed() for every descriptor that the socket is done with
 *   qp_tick()      at qp_deadline()
 */
#ifndef USER_ENGINE_QP_H
#define USER_ENGINE_QP_H

#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#include "credits.h"
#include "framer.h"
#include "packetizer.h"
#include "requester.h"
#include "retransmission.h"

enum qp_state {
	QP_RESET,   /* closed */
	QP_READY,   /* open, nothing in flight */
	QP_SENDING, /* packets in flight or a message open */
	QP_ERROR,
};

struct qp_config {
	struct framer_config framer; /* udp_source_port 0: from the QPNs */
	uint32_t local_qpn, remote_qpn;
	uint32_t start_psn; /* 24 bit */
	uint32_t rkey;
	uint64_t remote_address;
	uint64_t slot_size;  /* bytes of one slot of target memory */
	uint32_t slot_count; /* slots of target memory, 1…65536, with immediates at least 2 */
	uint32_t pmtu;       /* 256, 512, 1024, 2048, 4096 */
	bool immediate;
	bool uc;              /* Unreliable Connection: no answers, no retransmission, no credits */
	bool packet_mode;     /* segmentation: packet, else message; see packetizer.h */
	bool record;          /* every message ends with a record; slot_size is at least 65 bytes */
	uint32_t stream;      /* in the record */
	uint32_t ring;        /* packets, a power of two, 16…32768 */
	uint64_t ack_timeout; /* ns, at most 4.096 µs · 2^31; 0: none */
	uint32_t retry;       /* 0…7 */
	uint32_t rnr_retry;   /* 0…7, 7: for ever */
	/* UMEM chunk, bytes, a power of two from 2048: a frame over a border takes two descriptors.
	 */
	uint32_t chunk;
	bool positional_completions; /* see retransmission.h */
};

/* A frame to submit: offset from the start of the ring's memory. */
struct frame {
	uint64_t offset;
	uint32_t length;
	uint32_t psn;
	bool replay;
};

/* Why qp_transmit returned no frame. */
enum qp_wait {
	QP_FRAME,        /* it did return one */
	QP_WAIT_NOTHING, /* no message is open */
	QP_WAIT_SOURCE,  /* the open message's payload is not there yet */
	QP_WAIT_WINDOW,  /* the ring is full, or a probe is awaited */
	QP_WAIT_CREDIT,
	QP_WAIT_RNR,
	QP_WAIT_ERROR, /* the queue pair is in error */
};

struct qp_counters {
	uint64_t frames; /* submitted, replays included */
	uint64_t retransmitted_frames;
	uint64_t short_messages;
	uint64_t credit_wait_ns, window_wait_ns, source_wait_ns;
};

struct qp {
	struct framer framer;
	struct packetizer packetizer;
	struct retransmission ring;
	struct requester requester;
	struct credits credits;
	bool open;
	uint64_t message_limit; /* bytes: slot_size, at most 2^31 */
	uint32_t chunk;
	uint32_t ackreq_spacing;
	uint32_t since_ackreq; /* packets built since the last one with AckReq */
	bool clamped;          /* message without credit: its first packet awaits an answer */
	uint32_t clamped_psn;
	enum qp_wait wait;
	uint64_t wait_since; /* ns */
	struct qp_counters counters;
};

/* Bytes of UMEM per packet of the ring. */
uint32_t qp_stride(uint32_t pmtu, uint32_t chunk);

/*
 * Opens from reset: PSN, counters, timers and ring afresh. memory holds ring × qp_stride bytes, is
 * aligned to the chunk, and stays the caller's. Every setting is checked (-EINVAL with a sentence).
 */
int qp_open(struct qp *qp, const struct qp_config *config, uint8_t *memory, uint64_t now,
	    struct error *error);
/* Events that come afterwards do nothing. Counters, PSNs and the error stay to be read. */
void qp_close(struct qp *qp);

enum qp_state qp_state(const struct qp *qp);

/* Is a message open, so that qp_message would be refused? It is until its last packet is built. */
static inline bool qp_message_open(const struct qp *qp)
{
	return qp->packetizer.in_message;
}

/*
 * Starts a message of this many bytes. -EBUSY while one is open, -EMSGSIZE when it is longer than
 * the target slot or 2^31 bytes: refused, never cut; -ENOTCONN in error or reset.
 */
int qp_message(struct qp *qp, uint64_t length);

/* CLOCK_TAI, ns, for the record of the message that was started last. */
static inline void qp_stamp(struct qp *qp, uint64_t tai_ns)
{
	qp->packetizer.tai_ns = tai_ns;
}

/*
 * The open message's payload: `available` bytes of it can be read at payload, which stays valid
 * until the last packet is built. ended: no more will come; what is missing is sent as zeros.
 */
void qp_payload(struct qp *qp, const uint8_t *payload, uint64_t available, bool ended);

/*
 * The next frame to submit: replays first, then new packets, built now. With QP_FRAME the caller
 * must submit the frame before anything else is called; otherwise the reason why there is none.
 */
enum qp_wait qp_transmit(struct qp *qp, uint64_t now, struct frame *frame);

/* Descriptors that a frame takes. */
uint32_t qp_descriptors(const struct qp *qp, const struct frame *frame);

/* A descriptor of this slot (offset from the start of the ring's memory) completed. */
void qp_completed(struct qp *qp, uint64_t offset);

/* Nothing at all is outstanding on the socket. Needed with positional_completions only. */
static inline void qp_quiet(struct qp *qp)
{
	qp->ring.quiet++;
}

/* Descriptors of this queue pair that have not completed; O(ring). */
uint32_t qp_outstanding(const struct qp *qp);

static inline void qp_receive(struct qp *qp, uint64_t now, uint32_t psn, uint32_t syndrome,
			      uint32_t msn)
{
	if (qp->open)
		requester_receive(&qp->requester, now, psn, syndrome, msn);
}

static inline uint64_t qp_deadline(const struct qp *qp)
{
	return qp->open ? requester_deadline(&qp->requester) : REQUESTER_NEVER;
}

static inline void qp_tick(struct qp *qp, uint64_t now)
{
	if (qp->open)
		requester_tick(&qp->requester, now);
}

/* Highest PSN ever submitted; start_psn − 1 before the first. */
static inline uint32_t qp_highest_psn(const struct qp *qp)
{
	return roce_psn_add(qp->ring.next, ROCE_PSN_MASK);
}

/* Is everything that was started delivered? */
static inline bool qp_idle(const struct qp *qp)
{
	return !qp->packetizer.in_message && qp->ring.una == qp->ring.next;
}

#endif
