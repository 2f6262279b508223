/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How both ends learn QPN, PSN, rkey and address: one TCP connection per stream, one line of JSON
 * per message, each at most EXCHANGE_LINE bytes.
 *
 *   sender                                              receiver
 *   {"xdp2roce":1,"offer":{…}}                ───▶
 *                                             ◀───      {"xdp2roce":1,"answer":{…}}
 *   …frames…
 *   {"xdp2roce":1,"done":{…}}                 ───▶
 *                                             ◀───      {"xdp2roce":1,"received":{…}}
 *
 * Instead of any message either end may send {"xdp2roce":1,"error":"one sentence"} and close. The
 * connection stays open for the life of the stream. Unknown members are ignored, missing ones,
 * wrong types and values out of range are refused by name. Nothing here is trusted.
 */
#ifndef USER_CONNECT_EXCHANGE_H
#define USER_CONNECT_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#define EXCHANGE_VERSION 1
#define EXCHANGE_PORT 18515
#define EXCHANGE_LINE 4096
#define EXCHANGE_NAME 256

/* What the sender says of itself. Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d. */
struct exchange_offer {
	char name[EXCHANGE_NAME]; /* what is sent: a file's base name, "stdin", "pattern" */
	uint8_t ip[16];
	uint32_t qpn;
	uint32_t psn;          /* first PSN that the sender uses */
	bool uc;               /* transport: rc or uc */
	bool immediate;        /* messages end with an immediate */
	bool packet_mode;      /* segmentation: packet, else message */
	bool record;           /* messages end with a record; see <xdp2roce/xdp2roce.h> */
	uint32_t pmtu;         /* 256…4096, bytes */
	uint64_t message_size; /* largest message, bytes */
};

struct exchange_answer {
	uint8_t ip[16];
	uint32_t qpn;
	uint32_t psn;  /* first PSN the receiver would send with */
	uint32_t pmtu; /* must equal the offer's */
	uint32_t rkey;
	uint64_t address;
	uint64_t slot_size; /* at least exchange_slot_needed() of the offer */
	uint32_t slot_count;
};

/* The sender's final word, and what the receiver saw. */
struct exchange_count {
	uint64_t messages;
	uint64_t bytes;
};

/*
 * All of these return 0 or a negative errno with a sentence. Reads wait at most timeout_ms (−1: for
 * ever) for a whole line; the peer's own error text becomes ours ("receiver HOST refused: …"); a
 * peer of another version, or one that speaks something else, is named as such (-EPROTO). -EINTR
 * when a signal was caught while waiting. After a failed read or send the connection can only be
 * closed.
 *
 * Descriptors are non-blocking and may be polled; a read takes its own line and nothing after it.
 */
int exchange_connect(const char *host, uint16_t port, int timeout_ms, struct error *error); /* fd */
int exchange_listen(const char *host, uint16_t port, struct error *error); /* fd; host NULL: any */
int exchange_accept(int listener, char peer[64], struct error *error);     /* fd */

int exchange_send_offer(int fd, const struct exchange_offer *offer, struct error *error);
int exchange_read_offer(int fd, struct exchange_offer *offer, int timeout_ms, struct error *error);
int exchange_send_answer(int fd, const struct exchange_answer *answer, struct error *error);
int exchange_read_answer(int fd, struct exchange_answer *answer, int timeout_ms,
			 struct error *error);
int exchange_send_done(int fd, const struct exchange_count *done, struct error *error);
int exchange_read_done(int fd, struct exchange_count *done, int timeout_ms, struct error *error);
int exchange_send_received(int fd, const struct exchange_count *received, struct error *error);
int exchange_read_received(int fd, struct exchange_count *received, int timeout_ms,
			   struct error *error);
/* Bytes of a slot that holds the offer's largest message, and its record. */
uint64_t exchange_slot_needed(const struct exchange_offer *offer);
/* What an answer must keep of the offer: address family, pmtu, slot_size, slot_count. */
int exchange_check_answer(const struct exchange_offer *offer, const struct exchange_answer *answer,
			  struct error *error);
/* Best effort: the sentence for the other end. */
void exchange_send_error(int fd, const char *sentence);

#endif
