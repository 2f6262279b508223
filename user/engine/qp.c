/* SPDX-License-Identifier: BSD-2-Clause */
#include "qp.h"

#include <errno.h>
#include <string.h>

#include <xdp2roce/xdp2roce.h>

#define ACKREQ_SPACING 16u
#define CHUNK_MIN 2048u
#define CHUNK_MAX 65536u
#define SLOTS_MAX 65536u
#define ACK_TIMEOUT_MAX (4096ull << 31) /* ns: code 31 */

/* Slot offsets and frame lengths are kept in 16 bits. */
_Static_assert(FRAME_PAYLOAD + 4096 + 3 + ROCE_ICRC_LEN <= UINT16_MAX,
	       "a frame fits a slot's fields");
_Static_assert(FRAMER_HEADER_MAX + sizeof(struct roce_bth) + sizeof(struct roce_reth) +
			       sizeof(struct roce_immdt) <=
		       FRAME_PAYLOAD,
	       "the headers fit before the payload");

static uint32_t frame_end(uint32_t pmtu)
{
	return FRAME_PAYLOAD + pmtu + ROCE_ICRC_LEN;
}

uint32_t qp_stride(uint32_t pmtu, uint32_t chunk)
{
	return (frame_end(pmtu) + chunk - 1) / chunk * chunk;
}

static int check_target(const struct qp_config *config, struct error *error)
{
	uint32_t fewest = config->immediate ? 2 : 1; /* of N slots, N − 1 are posted as receives */
	uint64_t bytes, end;

	if (config->slot_count < fewest || config->slot_count > SLOTS_MAX)
		return error_set(error, EINVAL, "slot_count is %u, expected %u…%u%s",
				 config->slot_count, fewest, SLOTS_MAX,
				 config->immediate ? " with immediates" : "");
	if (config->record && config->slot_size <= XDP2ROCE_RECORD_SIZE)
		return error_set(error, EINVAL,
				 "slot_size is %llu bytes, expected more than the %u of the record",
				 (unsigned long long)config->slot_size, XDP2ROCE_RECORD_SIZE);
	if (!config->slot_size ||
	    __builtin_mul_overflow(config->slot_size, config->slot_count, &bytes) ||
	    __builtin_add_overflow(config->remote_address, bytes - 1, &end))
		return error_set(error, EINVAL,
				 "target memory is %u slots of %llu bytes at 0x%llx, expected at "
				 "least one byte, and the end within 64 bits",
				 config->slot_count, (unsigned long long)config->slot_size,
				 (unsigned long long)config->remote_address);
	return 0;
}

static int check_frame(const struct qp_config *config, struct error *error)
{
	const struct framer_config *framer = &config->framer;

	if (config->chunk < CHUNK_MIN || config->chunk > CHUNK_MAX ||
	    (config->chunk & (config->chunk - 1)))
		return error_set(error, EINVAL,
				 "UMEM chunk is %u bytes, expected a power of two from %u to %u",
				 config->chunk, CHUNK_MIN, CHUNK_MAX);
	if (framer_is_ipv4(framer->local_ip) != framer_is_ipv4(framer->remote_ip))
		return error_set(error, EINVAL,
				 "local_ip and remote_ip must both be IPv4, or both IPv6");
	if (framer->dscp > 63 || framer->ecn > 3)
		return error_set(error, EINVAL, "dscp is 0…63 and ecn 0…3, found dscp %u, ecn %u",
				 framer->dscp, framer->ecn);
	if (framer->vlan_id > FRAMER_VLAN_MAX || framer->vlan_pcp > 7)
		return error_set(
			error, EINVAL,
			"vlan_id is 1…4094, or 0 for none, and vlan_pcp 0…7; found vlan_id %u, "
			"vlan_pcp %u",
			framer->vlan_id, framer->vlan_pcp);
	if (!framer->ttl)
		return error_set(error, EINVAL, "ttl is 0, expected 1…255");
	if (framer->udp_source_port && framer->udp_source_port < ROCE_UDP_SOURCE_MIN)
		return error_set(error, EINVAL,
				 "udp_source_port is %u, expected %u…65535, or 0 for one by QPN",
				 framer->udp_source_port, ROCE_UDP_SOURCE_MIN);
	return 0;
}

static int check_config(const struct qp_config *config, struct error *error)
{
	uint32_t pmtu = config->pmtu;
	int err;

	if (pmtu < 256 || pmtu > 4096 || (pmtu & (pmtu - 1)))
		return error_set(error, EINVAL, "PMTU is %u, expected 256, 512, 1024, 2048 or 4096",
				 pmtu);
	if (config->local_qpn > ROCE_PSN_MASK || config->remote_qpn > ROCE_PSN_MASK)
		return error_set(error, EINVAL, "a QPN has 24 bits, found local 0x%x, remote 0x%x",
				 config->local_qpn, config->remote_qpn);
	if (config->start_psn > ROCE_PSN_MASK)
		return error_set(error, EINVAL, "a PSN has 24 bits, found start_psn 0x%x",
				 config->start_psn);
	if (config->ack_timeout > ACK_TIMEOUT_MAX)
		return error_set(error, EINVAL, "ack_timeout is %llu ns, expected at most %llu",
				 (unsigned long long)config->ack_timeout, ACK_TIMEOUT_MAX);
	if (config->retry > 7 || config->rnr_retry > 7)
		return error_set(error, EINVAL,
				 "retry and rnr_retry are 0…7, found retry %u, rnr_retry %u",
				 config->retry, config->rnr_retry);
	err = check_target(config, error);
	return err ? err : check_frame(config, error);
}

int qp_open(struct qp *qp, const struct qp_config *config, uint8_t *memory, uint64_t now,
	    struct error *error)
{
	struct framer_config framer = config->framer;
	int err = check_config(config, error);

	memset(qp, 0, sizeof(*qp));
	if (err)
		return err;
	err = retransmission_open(&qp->ring, memory, qp_stride(config->pmtu, config->chunk),
				  config->ring, config->start_psn, error);
	if (err)
		return err;
	qp->ring.positional_completions = config->positional_completions;
	qp->ring.uc = config->uc;

	if (!framer.udp_source_port)
		framer.udp_source_port = framer_source_port(config->local_qpn, config->remote_qpn);
	framer_init(&qp->framer, &framer);
	qp->packetizer = (struct packetizer){
		.pmtu = config->pmtu,
		.remote_qpn = config->remote_qpn,
		.rkey = config->rkey,
		.remote_address = config->remote_address,
		.slot_size = config->slot_size,
		.slot_count = config->slot_count,
		.immediate = config->immediate,
		.uc = config->uc,
		.packet_mode = config->packet_mode,
		.record = config->record,
		.stream = config->stream,
	};
	credits_init(&qp->credits);
	qp->credits.unlimited = config->uc;
	requester_open(&qp->requester, &qp->ring, &qp->credits);
	qp->requester.ack_timeout = config->ack_timeout;
	qp->requester.retry = config->retry;
	qp->requester.rnr_retry = config->rnr_retry;

	qp->message_limit = config->slot_size - (config->record ? XDP2ROCE_RECORD_SIZE : 0);
	if (qp->message_limit > ROCE_MAX_MESSAGE)
		qp->message_limit = ROCE_MAX_MESSAGE;
	qp->chunk = config->chunk;
	qp->ackreq_spacing = config->ring / 4 < ACKREQ_SPACING ? config->ring / 4 : ACKREQ_SPACING;
	qp->wait = QP_WAIT_NOTHING;
	qp->wait_since = now;
	qp->open = true;
	return 0;
}

void qp_close(struct qp *qp)
{
	retransmission_close(&qp->ring);
	qp->open = false;
}

enum qp_state qp_state(const struct qp *qp)
{
	if (!qp->open)
		return QP_RESET;
	if (qp->requester.error.failure)
		return QP_ERROR;
	return qp_idle(qp) ? QP_READY : QP_SENDING;
}

int qp_message(struct qp *qp, uint64_t length)
{
	if (!qp->open || qp->requester.error.failure)
		return -ENOTCONN;
	if (qp->packetizer.in_message)
		return -EBUSY;
	if (length > qp->message_limit)
		return -EMSGSIZE;
	packetizer_start(&qp->packetizer, (uint32_t)length);
	return 0;
}

void qp_payload(struct qp *qp, const uint8_t *payload, uint64_t available, bool ended)
{
	struct packetizer *packetizer = &qp->packetizer;

	if (!packetizer->in_message)
		return;
	if (available > packetizer->length)
		available = packetizer->length;
	/* In packet mode the end is wherever the source says. */
	if (ended && !packetizer->ended && available < packetizer->length &&
	    !packetizer->packet_mode)
		qp->counters.short_messages++;
	packetizer->payload = payload;
	packetizer->available = (uint32_t)available;
	packetizer->ended = ended;
}

/* Notes where the time goes: from one answer of qp_transmit to the next different one. */
static enum qp_wait wait_for(struct qp *qp, uint64_t now, enum qp_wait wait)
{
	uint64_t waited = now - qp->wait_since;

	if (wait == qp->wait)
		return wait;
	if (qp->wait == QP_WAIT_CREDIT)
		qp->counters.credit_wait_ns += waited;
	else if (qp->wait == QP_WAIT_WINDOW)
		qp->counters.window_wait_ns += waited;
	else if (qp->wait == QP_WAIT_SOURCE)
		qp->counters.source_wait_ns += waited;
	qp->wait = wait;
	qp->wait_since = now;
	return wait;
}

/* A message that was started without credit goes on when credit came or its first packet is acked.
 */
static bool held_by_clamp(struct qp *qp)
{
	if (!qp->clamped)
		return false;
	if (!credits_cover(&qp->credits) && roce_psn_diff(qp->clamped_psn, qp->ring.una) >= 0)
		return true;
	qp->clamped = false;
	return false;
}

/* Why no new packet can be built, or QP_FRAME when the one in plan can. */
static enum qp_wait plan_packet(struct qp *qp, struct packet_plan *plan)
{
	if (!qp->packetizer.in_message)
		return QP_WAIT_NOTHING;
	if (!packetizer_plan(&qp->packetizer, plan))
		return QP_WAIT_SOURCE;
	if (!retransmission_has_room(&qp->ring))
		return QP_WAIT_WINDOW;
	if (plan->first ? !credits_allow(&qp->credits, plan->consumes) : held_by_clamp(qp))
		return QP_WAIT_CREDIT;
	return QP_FRAME;
}

/*
 * A plain write goes without credit, but what takes a receive behind it may have to wait for some:
 * then this packet is what asks for it, or both ends would be silent for ever.
 */
static bool asks_for_credit(const struct qp *qp, const struct packet_plan *plan)
{
	return plan->last && !plan->consumes && qp->packetizer.immediate &&
	       !credits_allow(&qp->credits, true);
}

/* AckReq is decided when the packet is built, and never changes: a replay is the same bytes. */
static bool wants_ackreq(const struct qp *qp, const struct packet_plan *plan)
{
	if (qp->packetizer.uc)
		return false;
	/* In packet mode every packet is an Only: there the end of the message stands for it. */
	return qp->clamped || asks_for_credit(qp, plan) ||
	       (qp->packetizer.packet_mode ? plan->end : plan->last) ||
	       qp->since_ackreq + 1 >= qp->ackreq_spacing ||
	       retransmission_in_flight(&qp->ring) + 1 == qp->ring.size;
}

static void build(struct qp *qp, const struct packet_plan *plan)
{
	struct retransmission *ring = &qp->ring;
	struct slot *slot = retransmission_slot(ring, ring->next);
	uint8_t *bytes = retransmission_bytes(ring, ring->next);
	struct packet packet;
	bool ackreq;

	if (plan->first) {
		qp->clamped = credits_take(&qp->credits, plan->consumes);
		qp->clamped_psn = ring->next;
	}
	ackreq = wants_ackreq(qp, plan);
	packet = packetizer_build(&qp->packetizer, plan, bytes, ring->next, ackreq);
	*slot = (struct slot){
		.start = (uint16_t)(packet.transport - qp->framer.header_len - bytes),
		.length = (uint16_t)framer_finish(&qp->framer, packet.transport,
						  packet.transport_len),
		.payload = (uint16_t)(plan->record ? 0 : plan->length),
		.flags = (uint8_t)((ackreq ? SLOT_ACKREQ : 0) | (plan->end ? SLOT_LAST : 0)),
	};
	qp->since_ackreq = ackreq ? 0 : qp->since_ackreq + 1;
	ring->next = roce_psn_add(ring->next, 1);
}

uint32_t qp_descriptors(const struct qp *qp, const struct frame *frame)
{
	return (uint32_t)((frame->offset + frame->length - 1) / qp->chunk -
			  frame->offset / qp->chunk) +
	       1;
}

/* Hands the frame at cursor out. */
static void submit(struct qp *qp, uint64_t now, struct frame *frame, bool replay)
{
	struct retransmission *ring = &qp->ring;
	uint32_t psn = ring->cursor;
	struct slot *slot = retransmission_slot(ring, psn);

	*frame = (struct frame){
		.offset = (uint64_t)retransmission_index(ring, psn) * ring->stride + slot->start,
		.length = slot->length,
		.psn = psn,
		.replay = replay,
	};
	slot->outstanding = (uint16_t)(slot->outstanding + qp_descriptors(qp, frame));
	slot->quiet = ring->quiet;
	if (slot->sent < UINT16_MAX)
		slot->sent++;
	ring->cursor = roce_psn_add(psn, 1);
	qp->counters.frames++;
	qp->counters.retransmitted_frames += replay;
	requester_submitted(&qp->requester, now, psn);
	if (ring->uc)
		requester_let_go(&qp->requester, now);
}

enum qp_wait qp_transmit(struct qp *qp, uint64_t now, struct frame *frame)
{
	bool replay = retransmission_replaying(&qp->ring);
	enum qp_wait wait = QP_FRAME;
	struct packet_plan plan;
	uint32_t end;

	if (!qp->open || qp->requester.error.failure)
		return wait_for(qp, now, QP_WAIT_ERROR);
	if (!requester_may_send(&qp->requester, &end))
		return wait_for(qp, now, qp->requester.waiting ? QP_WAIT_RNR : QP_WAIT_WINDOW);
	if (!replay)
		wait = plan_packet(qp, &plan);
	if (wait != QP_FRAME)
		return wait_for(qp, now, wait);
	if (!replay)
		build(qp, &plan);
	submit(qp, now, frame, replay);
	return wait_for(qp, now, QP_FRAME);
}

void qp_completed(struct qp *qp, uint64_t offset)
{
	uint64_t index;

	if (!qp->open)
		return;
	index = offset / qp->ring.stride;
	if (index < qp->ring.size && qp->ring.slots[index].outstanding)
		qp->ring.slots[index].outstanding--;
}

uint32_t qp_outstanding(const struct qp *qp)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; qp->open && i < qp->ring.size; i++)
		sum += qp->ring.slots[i].outstanding;
	return sum;
}
