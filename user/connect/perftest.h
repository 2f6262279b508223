/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exchange of perftest, as a client has it with an unmodified `ib_write_bw` server: one TCP
 * connection for all queue pairs. Every step is a swap: we send n bytes, the server answers with n
 * bytes.
 *
 *   perftest_connect    version, cycle buffer, cache line, MTU: the smaller one wins
 *   perftest_exchange   keys, once for each queue pair
 *   perftest_ready      keys again, all and then the first one: barriers
 *   …frames…
 *   perftest_finish     the first key, five figures that the server prints, the first key
 *
 * A server is told nothing but this: neither how many bytes came nor whether any did. Its queue
 * pairs take plain RDMA Writes; queue pair i writes to a region of its own, of the server's message
 * size (-s), and at least one cycle buffer. Nothing that it says is trusted.
 */
#ifndef USER_CONNECT_PERFTEST_H
#define USER_CONNECT_PERFTEST_H

#include "exchange.h"
#include "perftest_message.h"

#define PERFTEST_PORT 18515
#define PERFTEST_QPS 64u

struct perftest {
	int fd;                /* −1: closed */
	uint32_t pmtu;         /* of both ends, bytes */
	uint32_t cycle_buffer; /* the larger one, bytes */
	uint32_t qps;          /* keys exchanged */
	struct perftest_key local[PERFTEST_QPS], remote[PERFTEST_QPS];
	/* The swap that is under way. */
	bool sent;
	size_t have;
	char in[PERFTEST_KEY_LEN];
	unsigned int finish_step;
};

/*
 * All return 0 or a negative errno with a sentence, wait at most timeout_ms in all, and leave a
 * connection that can only be closed when they fail.
 */
int perftest_connect(struct perftest *perftest, const char *host, uint16_t port, uint32_t pmtu,
		     int timeout_ms, struct error *error);

/*
 * offer: ip, qpn and psn are told; pmtu and message_size are taken into the answer. answer: one
 * slot, whose size is what the server must have at least. The server looks at no figure of ours, so
 * whether it has so much shows when it is written to.
 */
int perftest_exchange(struct perftest *perftest, const struct exchange_offer *offer,
		      struct exchange_answer *answer, int timeout_ms, struct error *error);

/* All queue pairs are exchanged. From 0 on the server takes frames. */
int perftest_ready(struct perftest *perftest, int timeout_ms, struct error *error);

/* One step after the other, never waiting: -EAGAIN while the server's answer is awaited. */
int perftest_finish(struct perftest *perftest, const struct perftest_report *report,
		    struct error *error);

void perftest_close(struct perftest *perftest);

#endif
