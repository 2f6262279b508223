/* SPDX-License-Identifier: BSD-2-Clause */
#include "sender_stream.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "peer.h"

static int check_answer(const struct sender *sender, const struct exchange_offer *offer,
			const struct exchange_answer *answer, struct error *error)
{
	if (memcmp(answer->ip, sender->remote_ip, 16))
		return error_set(
			error, EPROTO,
			"the receiver answers for another address than %s: name the address "
			"that its RDMA device has",
			sender->options->host);
	return exchange_check_answer(offer, answer, error);
}

static int make_offer(const struct sender *sender, uint32_t index, struct exchange_offer *offer,
		      struct error *error)
{
	const struct sender_options *options = sender->options;

	*offer = (struct exchange_offer){
		.qpn = worker_next_qpn(&sender->worker),
		.psn = options->start_psn,
		.uc = options->uc,
		.immediate = options->immediate,
		.packet_mode = options->packet_mode,
		.record = options->record,
		.pmtu = sender->pmtu,
		.message_size = options->sources[index].message_size,
	};
	if (!options->fixed_start_psn && getrandom(&offer->psn, sizeof(offer->psn), 0) < 0)
		return error_set(error, errno, "no random numbers from the kernel: %s",
				 strerror(errno));
	offer->psn &= ROCE_PSN_MASK;
	memcpy(offer->name, sender->streams[index].name, sizeof(offer->name));
	memcpy(offer->ip, sender->route.local_ip, 16);
	return 0;
}

static int add_queue_pair(struct sender *sender, const struct sender_stream *stream,
			  uint32_t start_psn, struct error *error)
{
	const struct sender_options *options = sender->options;
	const struct exchange_answer *answer = &stream->answer;
	struct qp_config qp = {
		.framer = {
			.dscp = (uint8_t)options->dscp,
			.ecn = (uint8_t)options->ecn,
			.ttl = (uint8_t)options->ttl,
			.vlan_id = (uint16_t)options->vlan_id,
			.vlan_pcp = (uint8_t)options->vlan_pcp,
		},
		.remote_qpn = answer->qpn,
		.start_psn = start_psn,
		.rkey = answer->rkey,
		.remote_address = answer->address,
		.slot_size = answer->slot_size,
		.slot_count = answer->slot_count,
		.pmtu = sender->pmtu,
		.uc = options->uc,
		.immediate = options->immediate,
		.packet_mode = options->packet_mode,
		.record = options->record,
		.stream = (uint32_t)(stream - sender->streams),
		.ring = options->ring,
		.ack_timeout = options->ack_timeout,
		.retry = options->retry,
		.rnr_retry = options->rnr_retry,
	};

	memcpy(qp.framer.local_mac, sender->route.local_mac, 6);
	memcpy(qp.framer.remote_mac, sender->route.remote_mac, 6);
	memcpy(qp.framer.local_ip, sender->route.local_ip, 16);
	memcpy(qp.framer.remote_ip, sender->remote_ip, 16);
	return worker_add(&sender->worker, &qp, source_ring_of(stream->source),
			  sender->route.local_ip, sender->remote_ip, error);
}

int sender_open_stream(struct sender *sender, uint32_t index, struct error *error)
{
	struct sender_stream *stream = &sender->streams[index];
	struct exchange_offer offer;
	int err = make_offer(sender, index, &offer, error);

	if (!err)
		err = sender->options->peer->exchange(sender, stream, &offer, error);
	if (!err)
		err = check_answer(sender, &offer, &stream->answer, error);
	return err ? err : add_queue_pair(sender, stream, offer.psn, error);
}

void sender_explain_qp_error(const struct sender *sender, struct sender_stream *stream)
{
	const struct requester_error *qp = &stream->status.error;
	const struct peer *peer = sender->options->peer;
	char last[32] = "none was received", *text = stream->error.text;
	size_t room = sizeof(stream->error.text);
	char times[32] = "once";

	if (qp->tries != 1)
		snprintf(times, sizeof(times), "%u times", qp->tries);
	if (qp->syndrome <= 0xFF)
		snprintf(last, sizeof(last), "last syndrome 0x%02x", qp->syndrome);
	switch (qp->failure) {
	case REQUESTER_RETRY_EXCEEDED:
		snprintf(text, room,
			 "the receiver does not answer: PSN 0x%06x was sent %s (%s); is the "
			 "receiver still running, and does the path carry frames for PMTU %u?",
			 qp->psn, times, last, sender->pmtu);
		break;
	case REQUESTER_RNR_RETRY_EXCEEDED:
		snprintf(text, room,
			 "the receiver was not ready for PSN 0x%06x, asked %s (%s); its "
			 "reader is too slow, or raise --rnr-retry",
			 qp->psn, times, last);
		break;
	case REQUESTER_INVALID_REQUEST:
		snprintf(text, room, "the receiver refused PSN 0x%06x as invalid (%s, sent %s); %s",
			 qp->psn, last, times,
			 peer->takes_writes ? "compare PMTU and message size at both ends"
					    : peer->access_hint);
		break;
	case REQUESTER_REMOTE_ACCESS:
		snprintf(text, room, "the receiver refused access at PSN 0x%06x (%s, sent %s); %s",
			 qp->psn, last, times, peer->access_hint);
		break;
	default:
		snprintf(text, room,
			 "the receiver failed at PSN 0x%06x (%s, sent %s); its own log says "
			 "why",
			 qp->psn, last, times);
	}
}

int sender_check_source(struct sender_stream *stream)
{
	uint64_t excess = source_excess_bytes(stream->source);

	if (stream->status.short_messages)
		return error_set(&stream->error, ENODATA,
				 "the input ended before the %llu bytes that --size promised; the "
				 "rest of its last message was sent as zeros",
				 (unsigned long long)stream->total_bytes);
	if (stream->status.bytes < stream->total_bytes)
		return error_set(
			&stream->error, ENODATA,
			"the input ended after %llu of the %llu bytes that --size promised",
			(unsigned long long)stream->status.bytes,
			(unsigned long long)stream->total_bytes);
	if (excess)
		return error_set(
			&stream->error, EOVERFLOW,
			"the input had %llu bytes more than the %llu that --size promised; "
			"they were not sent",
			(unsigned long long)excess, (unsigned long long)stream->total_bytes);
	return 0;
}
