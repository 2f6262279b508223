/* SPDX-License-Identifier: BSD-2-Clause */
#include "perftest.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "exchange_connection.h"

#define OUR_CYCLE_BUFFER 4096u
#define OUR_CACHE_LINE 64u
#define CYCLE_BUFFER_MAX (1u << 30)
#define FINISH_STEPS (PERFTEST_FIGURES + 2)

static struct exchange_peer peer_of(const struct perftest *perftest)
{
	return exchange_peer_of(perftest->fd, "perftest server");
}

static int swap_failed(const struct exchange_peer *peer, size_t have, size_t length, int code,
		       const char *what, struct error *error)
{
	switch (code) {
	case ETIMEDOUT:
		return error_set(
			error, code,
			"%s %s sent %zu of the %zu bytes of its %s and then nothing: is it "
			"ib_write_bw with RoCE, without -R, -b and --data_validation?",
			peer->role, peer->endpoint, have, length, what);
	case ECONNRESET:
	case EPIPE:
		return error_set(error, ECONNRESET,
				 "%s %s closed the connection before its %s: look at what it "
				 "printed",
				 peer->role, peer->endpoint, what);
	case EINTR:
		return error_set(error, code, "interrupted while waiting for the %s of %s %s", what,
				 peer->role, peer->endpoint);
	default:
		return error_set(error, code,
				 "lost the connection to %s %s while waiting for its %s: %s",
				 peer->role, peer->endpoint, what, strerror(code));
	}
}

/*
 * The server reads each message with a single call, and takes less for an error: ours leaves in one
 * piece, and none before the answer to the last one.
 */
static int swap(struct perftest *perftest, const void *out, size_t length, const char *what,
		int64_t deadline, struct error *error)
{
	struct exchange_peer peer = peer_of(perftest); /* a reset would take the name away */
	int rc = 0;

	if (!perftest->sent)
		rc = exchange_send_bytes(perftest->fd, out, length, deadline);
	if (rc)
		return swap_failed(&peer, 0, length, -rc, what, error);
	perftest->sent = true;
	rc = exchange_read_bytes(perftest->fd, perftest->in, length, &perftest->have, deadline);
	if (rc)
		return swap_failed(&peer, perftest->have, length, -rc, what, error);
	perftest->sent = false;
	perftest->have = 0;
	return 0;
}

static int swap_number(struct perftest *perftest, uint32_t ours, const char *what, uint32_t *theirs,
		       int64_t deadline, struct error *error)
{
	uint32_t number = htobe32(ours);
	int rc = swap(perftest, &number, sizeof(number), what, deadline, error);

	memcpy(&number, perftest->in, sizeof(number));
	*theirs = be32toh(number);
	return rc;
}

static int swap_version(struct perftest *perftest, int64_t deadline, struct error *error)
{
	struct exchange_peer peer = peer_of(perftest);
	char version[PERFTEST_VERSION_LEN];
	int rc;

	perftest_format_version(version);
	rc = swap(perftest, version, sizeof(version), "version", deadline, error);
	return rc ? rc : perftest_check_version(perftest->in, &peer, error);
}

static int swap_cycle_buffer(struct perftest *perftest, int64_t deadline, struct error *error)
{
	struct exchange_peer peer = peer_of(perftest);
	uint32_t theirs;
	int rc = swap_number(perftest, OUR_CYCLE_BUFFER, "cycle buffer size", &theirs, deadline,
			     error);

	if (rc)
		return rc;
	if (theirs > CYCLE_BUFFER_MAX)
		return error_set(error, EPROTO,
				 "%s %s names a cycle buffer of %u bytes, expected at most 1 GiB",
				 peer.role, peer.endpoint, theirs);
	perftest->cycle_buffer = theirs > OUR_CYCLE_BUFFER ? theirs : OUR_CYCLE_BUFFER;
	return 0;
}

static int swap_mtu(struct perftest *perftest, uint32_t pmtu, int64_t deadline, struct error *error)
{
	struct exchange_peer peer = peer_of(perftest);
	char mtu[PERFTEST_MTU_LEN];
	int rc;

	perftest_format_mtu(mtu, pmtu);
	rc = swap(perftest, mtu, sizeof(mtu), "MTU", deadline, error);
	if (!rc)
		rc = perftest_parse_mtu(perftest->in, &peer, &perftest->pmtu, error);
	if (perftest->pmtu > pmtu)
		perftest->pmtu = pmtu;
	return rc;
}

int perftest_connect(struct perftest *perftest, const char *host, uint16_t port, uint32_t pmtu,
		     int timeout_ms, struct error *error)
{
	int64_t deadline = exchange_deadline(timeout_ms);
	uint32_t cache_line;
	int rc;

	memset(perftest, 0, sizeof(*perftest));
	perftest->fd = -1;
	rc = exchange_connect(host, port, timeout_ms, error);
	if (rc == -ECONNREFUSED)
		return error_set(error, ECONNREFUSED,
				 "nothing listens at %s:%u: start `ib_write_bw` there", host, port);
	if (rc < 0)
		return rc;
	perftest->fd = rc;
	rc = swap_version(perftest, deadline, error);
	if (!rc)
		rc = swap_cycle_buffer(perftest, deadline, error);
	if (!rc)
		rc = swap_number(perftest, OUR_CACHE_LINE, "cache line size", &cache_line, deadline,
				 error);
	return rc ? rc : swap_mtu(perftest, pmtu, deadline, error);
}

static int swap_key(struct perftest *perftest, uint32_t qp, struct perftest_key *key,
		    const char *what, int64_t deadline, struct error *error)
{
	struct exchange_peer peer = peer_of(perftest);
	char text[PERFTEST_KEY_LEN];
	int rc;

	perftest_format_key(text, &perftest->local[qp]);
	rc = swap(perftest, text, sizeof(text), what, deadline, error);
	return rc ? rc : perftest_parse_key(perftest->in, &peer, key, error);
}

int perftest_exchange(struct perftest *perftest, const struct exchange_offer *offer,
		      struct exchange_answer *answer, int timeout_ms, struct error *error)
{
	struct exchange_peer peer = peer_of(perftest);
	uint32_t qp = perftest->qps;
	struct perftest_key *local = &perftest->local[qp], *remote = &perftest->remote[qp];
	int rc;

	if (qp == PERFTEST_QPS)
		return error_set(error, E2BIG, "more than %u queue pairs with one perftest server",
				 PERFTEST_QPS);
	*local = (struct perftest_key){ .qpn = offer->qpn, .psn = offer->psn };
	memcpy(local->gid, offer->ip, sizeof(local->gid));
	rc = swap_key(perftest, qp, remote, "key", exchange_deadline(timeout_ms), error);
	if (rc)
		return rc;
	/* A server that has all the queue pairs it was started with answers the next round. */
	if (qp && perftest_same_key(remote, &perftest->remote[0]))
		return error_set(
			error, EPROTO,
			"%s %s has %u queue pair%s, expected one for each stream: start it "
			"with -q and the number of streams",
			peer.role, peer.endpoint, qp, qp == 1 ? "" : "s");
	perftest->qps++;
	*answer = (struct exchange_answer){
		.qpn = remote->qpn,
		.psn = remote->psn,
		.pmtu = perftest->pmtu,
		.rkey = remote->rkey,
		.address = remote->address,
		.slot_size = offer->message_size > perftest->cycle_buffer ? offer->message_size
									  : perftest->cycle_buffer,
		.slot_count = 1,
	};
	memcpy(answer->ip, remote->gid, sizeof(answer->ip));
	return 0;
}

/* A key again, only to wait for the server. */
static int barrier(struct perftest *perftest, uint32_t qp, int64_t deadline, struct error *error)
{
	struct exchange_peer peer = peer_of(perftest);
	struct perftest_key key;
	int rc = swap_key(perftest, qp, &key, "confirmation", deadline, error);

	if (rc || perftest_same_key(&key, &perftest->remote[qp]))
		return rc;
	return error_set(error, EPROTO,
			 "%s %s sent another key than before: it was started with more queue pairs "
			 "(-q) than the %u stream%s here, or with an option that changes its "
			 "exchange",
			 peer.role, peer.endpoint, perftest->qps, perftest->qps == 1 ? "" : "s");
}

int perftest_ready(struct perftest *perftest, int timeout_ms, struct error *error)
{
	int64_t deadline = exchange_deadline(timeout_ms);
	int rc = 0;

	for (uint32_t qp = 0; qp < perftest->qps && !rc; qp++)
		rc = barrier(perftest, qp, deadline, error);
	return rc ? rc : barrier(perftest, 0, deadline, error);
}

static int finish_step(struct perftest *perftest, const struct perftest_report *report,
		       struct error *error)
{
	int64_t at_once = exchange_deadline(0);
	uint8_t figure[PERFTEST_FIGURE_LEN];

	if (perftest->finish_step == 0 || perftest->finish_step == FINISH_STEPS - 1)
		return barrier(perftest, 0, at_once, error);
	perftest_format_figure(figure, report, perftest->finish_step - 1);
	return swap(perftest, figure, sizeof(figure), "report", at_once, error);
}

int perftest_finish(struct perftest *perftest, const struct perftest_report *report,
		    struct error *error)
{
	for (; perftest->finish_step < FINISH_STEPS; perftest->finish_step++) {
		int rc = finish_step(perftest, report, error);

		if (rc)
			return rc == -ETIMEDOUT ? -EAGAIN : rc;
	}
	return 0;
}

void perftest_close(struct perftest *perftest)
{
	if (perftest->fd >= 0)
		close(perftest->fd);
	perftest->fd = -1;
}
