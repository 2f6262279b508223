/* SPDX-License-Identifier: BSD-2-Clause */
#include "packetizer.h"

#include <endian.h>
#include <string.h>

#include <xdp2roce/roce.h>

#include "framer.h"

void packetizer_start(struct packetizer *packetizer, uint32_t length)
{
	packetizer->length = length;
	packetizer->built = 0;
	packetizer->in_message = true;
	packetizer->first = true;
	packetizer->payload = NULL;
	packetizer->available = 0;
	packetizer->ended = false;
}

static uint32_t next_payload(const struct packetizer *packetizer)
{
	uint32_t left = packetizer->length - packetizer->built;

	return left < packetizer->pmtu ? left : packetizer->pmtu;
}

/* Payload that is there and in no packet; none when the message ended before what was built. */
static uint32_t readable(const struct packetizer *packetizer)
{
	return packetizer->available > packetizer->built ? packetizer->available - packetizer->built
							 : 0;
}

bool packetizer_ready(const struct packetizer *packetizer)
{
	return packetizer->ended || readable(packetizer) >= next_payload(packetizer);
}

bool packetizer_at_last(const struct packetizer *packetizer)
{
	return packetizer->length - packetizer->built <= packetizer->pmtu;
}

static uint8_t opcode(bool first, bool last, bool immediate)
{
	if (first && last)
		return immediate ? ROCE_RC_WRITE_ONLY_IMM : ROCE_RC_WRITE_ONLY;
	if (first)
		return ROCE_RC_WRITE_FIRST;
	if (last)
		return immediate ? ROCE_RC_WRITE_LAST_IMM : ROCE_RC_WRITE_LAST;
	return ROCE_RC_WRITE_MIDDLE;
}

/* Copies the payload once; what the source did not deliver is zero. */
static void fill(const struct packetizer *packetizer, uint8_t *to, uint32_t length)
{
	uint32_t have = readable(packetizer);

	if (have > length)
		have = length;
	if (have)
		memcpy(to, packetizer->payload + packetizer->built, have);
	memset(to + have, 0, length - have + roce_pad(length));
}

struct packet packetizer_build(struct packetizer *packetizer, uint8_t *slot, uint32_t psn,
			       bool ackreq)
{
	uint32_t length = next_payload(packetizer), pad = roce_pad(length);
	bool first = packetizer->first, last = packetizer_at_last(packetizer);
	uint8_t *payload = slot + FRAME_PAYLOAD, *header = payload;
	struct roce_bth *bth;

	fill(packetizer, payload, length);

	if (last && packetizer->immediate) {
		struct roce_immdt *immdt;

		header -= sizeof(*immdt);
		immdt = (struct roce_immdt *)header;
		immdt->value = htobe32((uint32_t)packetizer->message);
	}
	if (first) {
		struct roce_reth *reth;

		header -= sizeof(*reth);
		reth = (struct roce_reth *)header;
		reth->address = htobe64(packetizer->remote_address +
					packetizer->message % packetizer->slot_count *
						packetizer->slot_size);
		reth->rkey = htobe32(packetizer->rkey);
		reth->length = htobe32(packetizer->length);
	}
	header -= sizeof(*bth);
	bth = (struct roce_bth *)header;
	bth->opcode = opcode(first, last, packetizer->immediate);
	bth->flags = (uint8_t)(ROCE_BTH_MIGREQ | pad << ROCE_BTH_PAD_SHIFT);
	bth->pkey = htobe16(ROCE_PKEY_DEFAULT);
	roce_put24(bth->dest_qpn, packetizer->remote_qpn);
	bth->ackreq = ackreq ? ROCE_BTH_ACKREQ : 0;
	roce_put24(bth->psn, psn);

	packetizer->built += length;
	packetizer->first = false;
	if (last) {
		packetizer->in_message = false;
		packetizer->message++;
	}
	return (struct packet){
		.transport = header,
		.transport_len = (uint32_t)(payload - header) + length + pad,
		.payload = length,
		.last = last,
	};
}
