/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams received by an RDMA device. */
#include <errno.h>
#include <string.h>

#include "recv_session.h"

/* A device tells of plain writes to nobody: RC's acknowledgements vouch for them, UC has none. */
static int check(struct recv_session *session)
{
	const struct exchange_offer *offer = &session->stream->offer;

	if (offer->uc && !offer->immediate)
		return error_set(session->error, EINVAL,
				 "an RDMA device does not tell what arrives of UC writes without "
				 "immediates: send with --immediate on, or receive with --soft");
	/* A GID that was named has its own address. */
	if (session->options->gid_index >= 0) {
		memcpy(session->interface.ip, offer->ip, 16);
		return 0;
	}
	return recv_interface_find(&session->interface, session->stream->connection,
				   session->error);
}

static int open_queue_pair(struct recv_session *session)
{
	const struct recv_options *options = session->options;
	const struct exchange_offer *offer = &session->stream->offer;
	struct verbs_address *address = &session->stream->verbs;
	struct exchange_answer *answer = &session->answer;
	struct verbs_config config = {
		.choice = {
			.port = options->device_port,
			.gid_index = options->gid_index,
			.ifindex = (uint32_t)session->interface.index,
		},
		.peer_qpn = offer->qpn,
		.psn = offer->psn,
		.uc = offer->uc,
		.immediate = offer->immediate,
		.pmtu = offer->pmtu,
		.message_size = offer->message_size,
		.slot_size = answer->slot_size,
		.slot_count = answer->slot_count,
		.rnr_timer = options->rnr_timer,
		.memory = session->memory.bytes,
	};
	int rc;

	memcpy(config.choice.device, options->device, sizeof(config.choice.device));
	memcpy(config.choice.ip, session->interface.ip, 16);
	memcpy(config.peer_ip, offer->ip, 16);
	rc = verbs_open(&session->verbs, &config, address, session->error);
	if (rc)
		return rc;
	memcpy(answer->ip, address->ip, 16);
	answer->qpn = address->qpn;
	answer->psn = address->psn;
	answer->rkey = address->rkey;
	answer->address = address->address;
	return 0;
}

static int event(const struct recv_session *session)
{
	return session->verbs ? verbs_event(session->verbs) : -1;
}

static int collect(struct recv_session *session, uint64_t *completed)
{
	int rc = verbs_collect(session->verbs, completed, session->error);

	session->stream->qp_error |= rc != 0;
	return rc;
}

static struct receiver_message message(const struct recv_session *session, uint64_t n)
{
	return verbs_message(session->verbs, n);
}

static void release(struct recv_session *session, uint64_t n)
{
	verbs_release(session->verbs, n);
}

static void report(struct recv_session *session)
{
	struct error ignored;

	uint64_t messages;

	verbs_ask(session->verbs);
	session->stream->qp_error |= verbs_collect(session->verbs, &messages, &ignored) != 0;
	if (session->counts)
		return;
	session->stream->messages = messages;
	session->stream->bytes = verbs_bytes(session->verbs);
}

static void close_queue_pair(struct recv_session *session)
{
	verbs_close(session->verbs);
}

const struct recv_receiver recv_verbs_receiver = {
	.check = check,
	.open = open_queue_pair,
	.event = event,
	.collect = collect,
	.message = message,
	.release = release,
	.report = report,
	.close = close_queue_pair,
};
