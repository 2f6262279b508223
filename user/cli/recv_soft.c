/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams received in software: one responder per interface, started with its first stream. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "recv_session.h"

#define PAGE 4096u
/* IPv4, UDP, BTH, RETH, immediate, ICRC around the payload of a packet; IPv6 is 20 bytes longer. */
#define OVERHEAD_IPV4 (20 + 8 + 12 + 16 + 4 + 4)
#define OVERHEAD_IPV6 (OVERHEAD_IPV4 + 20)

static int check(struct recv_session *session)
{
	uint32_t pmtu = session->stream->offer.pmtu, need;
	int rc = recv_interface_find(&session->interface, session->stream->connection,
				     session->error);

	if (rc)
		return rc;
	need = pmtu + (session->interface.ipv6 ? OVERHEAD_IPV6 : OVERHEAD_IPV4);
	if (session->interface.mtu < need)
		return error_set(session->error, EMSGSIZE,
				 "PMTU %u needs an MTU of %u, but the receiver's %s has %u: raise "
				 "it there or send with a smaller PMTU",
				 pmtu, need, session->interface.name, session->interface.mtu);
	return 0;
}

static int find_soft(struct recv_session *session)
{
	struct recv_shared *shared = session->shared;
	struct soft_config config = {
		.ifindex = session->interface.index,
		.interface = session->interface.name,
		.faults = session->options->faults,
	};
	int rc = 0, i = 0;

	pthread_mutex_lock(&shared->lock);
	while (i < RECV_INTERFACES && shared->interfaces[i].soft &&
	       shared->interfaces[i].ifindex != session->interface.index)
		i++;
	if (i == RECV_INTERFACES)
		rc = error_set(session->error, ENOSPC, "at most %d interfaces can receive at once",
			       RECV_INTERFACES);
	else if (!shared->interfaces[i].soft)
		rc = soft_start(&shared->interfaces[i].soft, &config, session->error);
	if (!rc) {
		shared->interfaces[i].ifindex = session->interface.index;
		session->soft = shared->interfaces[i].soft;
	}
	pthread_mutex_unlock(&shared->lock);
	return rc;
}

static int open_queue_pair(struct recv_session *session)
{
	const struct exchange_offer *offer = &session->stream->offer;
	struct exchange_answer *answer = &session->answer;
	struct responder_config config = {
		.peer_qpn = offer->qpn,
		.psn = offer->psn,
		.uc = offer->uc,
		.immediate = offer->immediate,
		.pmtu = offer->pmtu,
		.memory = session->memory.bytes,
		.slot_size = answer->slot_size,
		.slot_count = answer->slot_count,
		.credits = session->options->credits,
		.rnr_timer = session->options->rnr_timer,
	};
	struct {
		uint64_t address;
		uint32_t rkey, psn;
	} random;
	int rc = find_soft(session);

	if (rc)
		return rc;
	if (getrandom(&random, sizeof(random), 0) < 0)
		return error_set(session->error, errno, "no random numbers: %s", strerror(errno));
	memcpy(config.ip, session->interface.ip, 16);
	memcpy(config.peer_ip, offer->ip, 16);
	/* Like a user space address: page-aligned, below 2^47, so that no slot wraps. */
	config.address = random.address >> 17 & ~(uint64_t)(PAGE - 1);
	config.rkey = random.rkey;
	rc = soft_open(session->soft, &config, &session->soft_stream, session->error);
	memcpy(answer->ip, config.ip, 16);
	answer->qpn = config.qpn;
	answer->psn = random.psn & ROCE_PSN_MASK;
	answer->rkey = config.rkey;
	answer->address = config.address;
	return rc;
}

static int event(const struct recv_session *session)
{
	return session->soft_stream ? soft_event(session->soft_stream) : -1;
}

/* After a fatal NAK the queue pair is as silent as a device's; it is the sender that knows why. */
static int collect(struct recv_session *session, uint64_t *completed)
{
	uint64_t count;

	/* Cleared first: what completes from here on makes it readable again. */
	if (read(soft_event(session->soft_stream), &count, sizeof(count)) < 0)
		count = 0;
	*completed = responder_reader_completed(soft_qp(session->soft_stream));
	return 0;
}

static struct receiver_message message(const struct recv_session *session, uint64_t n)
{
	return responder_reader_message(soft_qp(session->soft_stream), n);
}

static void release(struct recv_session *session, uint64_t n)
{
	responder_reader_release(soft_qp(session->soft_stream), n);
}

static void report(struct recv_session *session)
{
	struct recv_stream *stream = session->stream;

	soft_report(session->soft, session->soft_stream, &stream->soft);
	if (!session->counts) {
		stream->messages = stream->soft.counters.messages;
		stream->bytes = stream->soft.counters.bytes;
	}
	stream->qp_error = stream->soft.state == RESPONDER_ERROR;
}

static void close_queue_pair(struct recv_session *session)
{
	soft_close(session->soft, session->soft_stream);
}

const struct recv_receiver recv_soft_receiver = {
	.check = check,
	.open = open_queue_pair,
	.event = event,
	.collect = collect,
	.message = message,
	.release = release,
	.report = report,
	.close = close_queue_pair,
	.sees_plain_writes = true,
};
