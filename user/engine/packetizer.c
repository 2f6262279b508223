/* SPDX-License-Identifier: BSD-2-Clause */
#include "packetizer.h"

#include <endian.h>
#include <isa-l/crc.h>
#include <string.h>

#include <xdp2roce/roce.h>
#include <xdp2roce/xdp2roce.h>

#include "framer.h"

#define CRC32C_SEED 0xFFFFFFFFu

void packetizer_start(struct packetizer *packetizer, uint32_t length)
{
	packetizer->length = length;
	packetizer->built = 0;
	packetizer->crc = CRC32C_SEED;
	packetizer->in_message = true;
	packetizer->first = true;
	packetizer->payload = NULL;
	packetizer->available = 0;
	packetizer->ended = false;
}

/* Payload that is there and in no packet; none when the message ended before what was built. */
static uint32_t readable(const struct packetizer *packetizer)
{
	return packetizer->available > packetizer->built ? packetizer->available - packetizer->built
							 : 0;
}

/* Bytes that are still to be put into packets, as far as is known. */
static uint32_t left(const struct packetizer *packetizer)
{
	if (packetizer->packet_mode && packetizer->ended)
		return readable(packetizer);
	return packetizer->length - packetizer->built;
}

static struct packet_plan plan_record(const struct packetizer *packetizer)
{
	return (struct packet_plan){
		.length = XDP2ROCE_RECORD_SIZE,
		.first = true,
		.last = true,
		.consumes = packetizer->immediate,
		.record = true,
		.end = true,
	};
}

bool packetizer_plan(const struct packetizer *packetizer, struct packet_plan *plan)
{
	uint32_t rest = left(packetizer);
	bool all = rest <= packetizer->pmtu; /* of the payload is in packets after this one */

	if (packetizer->record && !rest) {
		*plan = plan_record(packetizer);
		return true;
	}
	*plan = (struct packet_plan){
		.length = all ? rest : packetizer->pmtu,
		.first = packetizer->packet_mode || packetizer->first,
		.last = packetizer->packet_mode || all,
		.end = all && !packetizer->record,
	};
	plan->consumes = packetizer->immediate &&
			 (packetizer->packet_mode ? plan->end : !packetizer->record);
	return packetizer->ended || readable(packetizer) >= plan->length;
}

/* UC has the same operations as RC, under its own transport bits. */
static uint8_t opcode(const struct packetizer *packetizer, const struct packet_plan *plan)
{
	uint8_t transport = packetizer->uc ? ROCE_TRANSPORT_UC : ROCE_TRANSPORT_RC;

	if (plan->first && plan->last)
		return transport | (plan->consumes ? ROCE_RC_WRITE_ONLY_IMM : ROCE_RC_WRITE_ONLY);
	if (plan->first)
		return transport | ROCE_RC_WRITE_FIRST;
	if (plan->last)
		return transport | (plan->consumes ? ROCE_RC_WRITE_LAST_IMM : ROCE_RC_WRITE_LAST);
	return transport | ROCE_RC_WRITE_MIDDLE;
}

/* Copies the payload once; what the source did not deliver is zero. */
static void fill(struct packetizer *packetizer, uint8_t *to, uint32_t length)
{
	uint32_t have = readable(packetizer);

	if (have > length)
		have = length;
	if (have)
		memcpy(to, packetizer->payload + packetizer->built, have);
	memset(to + have, 0, length - have + roce_pad(length));
	/* Of the copy: the source may change its bytes meanwhile. */
	if (packetizer->record)
		packetizer->crc = crc32_iscsi(to, (int)have, packetizer->crc);
	packetizer->built += length;
}

static void fill_record(const struct packetizer *packetizer, uint8_t *to)
{
	uint32_t length = packetizer->built;
	uint16_t flags = 0;
	struct xdp2roce_record record;

	if (packetizer->ended && packetizer->available < packetizer->length)
		length = packetizer->available;
	if (length < packetizer->length && !packetizer->packet_mode)
		flags |= XDP2ROCE_RECORD_SHORT;
	record = (struct xdp2roce_record){
		.magic = htole32(XDP2ROCE_RECORD_MAGIC),
		.version = htole16(XDP2ROCE_RECORD_VERSION),
		.flags = htole16(flags),
		.stream = htole32(packetizer->stream),
		.crc = htole32(~packetizer->crc),
		.message = htole64(packetizer->message),
		.tai_ns = htole64(packetizer->tai_ns),
		.length = htole64(length),
	};
	memcpy(to, &record, sizeof(record));
}

/* Where the packet's payload goes in target memory. */
static uint64_t target(const struct packetizer *packetizer, const struct packet_plan *plan)
{
	uint64_t slot = packetizer->remote_address +
			packetizer->message % packetizer->slot_count * packetizer->slot_size;

	return slot +
	       (plan->record ? packetizer->slot_size - XDP2ROCE_RECORD_SIZE : packetizer->built);
}

static uint8_t *put_immdt(const struct packetizer *packetizer, uint8_t *header)
{
	struct roce_immdt *immdt = (struct roce_immdt *)(header - sizeof(*immdt));

	immdt->value = htobe32((uint32_t)packetizer->message);
	return (uint8_t *)immdt;
}

static uint8_t *put_reth(const struct packetizer *packetizer, const struct packet_plan *plan,
			 uint8_t *header)
{
	struct roce_reth *reth = (struct roce_reth *)(header - sizeof(*reth));

	reth->address = htobe64(target(packetizer, plan));
	reth->rkey = htobe32(packetizer->rkey);
	reth->length = htobe32(plan->last ? plan->length : packetizer->length);
	return (uint8_t *)reth;
}

struct packet packetizer_build(struct packetizer *packetizer, const struct packet_plan *plan,
			       uint8_t *slot, uint32_t psn, bool ackreq)
{
	uint8_t *payload = slot + FRAME_PAYLOAD, *header = payload;
	uint32_t pad = roce_pad(plan->length);
	struct roce_bth *bth;

	if (plan->last && plan->consumes)
		header = put_immdt(packetizer, header);
	if (plan->first)
		header = put_reth(packetizer, plan, header);
	bth = (struct roce_bth *)(header - sizeof(*bth));
	bth->opcode = opcode(packetizer, plan);
	bth->flags = (uint8_t)(ROCE_BTH_MIGREQ | pad << ROCE_BTH_PAD_SHIFT);
	bth->pkey = htobe16(ROCE_PKEY_DEFAULT);
	roce_put24(bth->dest_qpn, packetizer->remote_qpn);
	bth->ackreq = ackreq ? ROCE_BTH_ACKREQ : 0;
	roce_put24(bth->psn, psn);

	if (plan->record)
		fill_record(packetizer, payload);
	else
		fill(packetizer, payload, plan->length);
	packetizer->first = false;
	if (plan->end) {
		packetizer->in_message = false;
		packetizer->message++;
	}
	return (struct packet){
		.transport = (uint8_t *)bth,
		.transport_len = (uint32_t)(payload - (uint8_t *)bth) + plan->length + pad,
	};
}
