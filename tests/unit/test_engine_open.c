/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings of a queue pair: each is checked at open, by the table of section 8 of the design. */
#include <errno.h>

#include "engine_rig.h"

enum what {
	PMTU,
	RING,
	CHUNK,
	LOCAL_QPN,
	REMOTE_QPN,
	START_PSN,
	RETRY,
	RNR_RETRY,
	ACK_TIMEOUT,
	SLOT_COUNT,
	SLOT_SIZE,
	ADDRESS,
	TTL,
	SOURCE_PORT,
	IMMEDIATE_SLOTS,
};

static const struct {
	enum what what;
	uint64_t value;
	int result;
} rows[] = {
	{ PMTU, 256, 0 },
	{ PMTU, 512, 0 },
	{ PMTU, 1024, 0 },
	{ PMTU, 2048, 0 },
	{ PMTU, 4096, 0 },
	{ PMTU, 0, -EINVAL },
	{ PMTU, 128, -EINVAL },
	{ PMTU, 257, -EINVAL },
	{ PMTU, 1500, -EINVAL },
	{ PMTU, 8192, -EINVAL },
	{ PMTU, 0x80000000, -EINVAL },
	{ RING, 16, 0 },
	{ RING, 32768, 0 },
	{ RING, 0, -EINVAL },
	{ RING, 8, -EINVAL },
	{ RING, 17, -EINVAL },
	{ RING, 65536, -EINVAL },
	{ RING, 0x80000000, -EINVAL },
	{ CHUNK, 2048, 0 },
	{ CHUNK, 4096, 0 },
	{ CHUNK, 0, -EINVAL },
	{ CHUNK, 1024, -EINVAL },
	{ CHUNK, 3000, -EINVAL },
	{ CHUNK, 0x80000000, -EINVAL },
	{ LOCAL_QPN, 0xFFFFFF, 0 },
	{ LOCAL_QPN, 0x1000000, -EINVAL },
	{ REMOTE_QPN, 0xFFFFFF, 0 },
	{ REMOTE_QPN, 0x1000000, -EINVAL },
	{ START_PSN, 0, 0 },
	{ START_PSN, 0xFFFFFF, 0 },
	{ START_PSN, 0x1000000, -EINVAL },
	{ RETRY, 0, 0 },
	{ RETRY, 7, 0 },
	{ RETRY, 8, -EINVAL },
	{ RNR_RETRY, 0, 0 },
	{ RNR_RETRY, 7, 0 },
	{ RNR_RETRY, 8, -EINVAL },
	{ ACK_TIMEOUT, 0, 0 },
	{ ACK_TIMEOUT, 8796093022208, 0 },
	{ ACK_TIMEOUT, 8796093022209, -EINVAL },
	{ ACK_TIMEOUT, UINT64_MAX, -EINVAL },
	{ SLOT_COUNT, 1, 0 },
	{ SLOT_COUNT, 65536, 0 },
	{ SLOT_COUNT, 0, -EINVAL },
	{ SLOT_COUNT, 65537, -EINVAL },
	{ SLOT_SIZE, 1, 0 },
	{ SLOT_SIZE, 1ull << 40, 0 },
	{ SLOT_SIZE, 0, -EINVAL },
	/* Five slots of 1 MiB must end within the 64-bit address space. */
	{ ADDRESS, 0, 0 },
	{ ADDRESS, UINT64_MAX - (5 << 20) + 1, 0 },
	{ ADDRESS, UINT64_MAX - (5 << 20) + 2, -EINVAL },
	{ ADDRESS, UINT64_MAX, -EINVAL },
	{ SLOT_SIZE, 1ull << 62, -EINVAL },
	{ SLOT_SIZE, UINT64_MAX, -EINVAL },
	{ TTL, 1, 0 },
	{ TTL, 255, 0 },
	{ TTL, 0, -EINVAL },
	{ SOURCE_PORT, 0, 0 },
	{ SOURCE_PORT, 0xC000, 0 },
	{ SOURCE_PORT, 0xFFFF, 0 },
	{ SOURCE_PORT, 0xBFFF, -EINVAL },
	{ SOURCE_PORT, 1, -EINVAL },
	/* With immediates N − 1 receives are posted: one slot can never receive. */
	{ IMMEDIATE_SLOTS, 2, 0 },
	{ IMMEDIATE_SLOTS, 1, -EINVAL },
};

static void set(struct qp_config *config, enum what what, uint64_t value)
{
	switch (what) {
	case PMTU:
		config->pmtu = (uint32_t)value;
		break;
	case RING:
		config->ring = (uint32_t)value;
		break;
	case CHUNK:
		config->chunk = (uint32_t)value;
		break;
	case LOCAL_QPN:
		config->local_qpn = (uint32_t)value;
		break;
	case REMOTE_QPN:
		config->remote_qpn = (uint32_t)value;
		break;
	case START_PSN:
		config->start_psn = (uint32_t)value;
		break;
	case RETRY:
		config->retry = (uint32_t)value;
		break;
	case RNR_RETRY:
		config->rnr_retry = (uint32_t)value;
		break;
	case ACK_TIMEOUT:
		config->ack_timeout = value;
		break;
	case SLOT_COUNT:
		config->slot_count = (uint32_t)value;
		break;
	case SLOT_SIZE:
		config->slot_size = value;
		break;
	case ADDRESS:
		config->remote_address = value;
		break;
	case TTL:
		config->framer.ttl = (uint8_t)value;
		break;
	case SOURCE_PORT:
		config->framer.udp_source_port = (uint16_t)value;
		break;
	case IMMEDIATE_SLOTS:
		config->immediate = true;
		config->slot_count = (uint32_t)value;
		break;
	}
}

Test(engine_open, settings)
{
	static uint8_t memory[4096] __attribute__((aligned(4096)));

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct qp_config config = rig_config();
		struct error error = { "" };
		struct qp qp;
		int result;

		set(&config, rows[i].what, rows[i].value);
		result = qp_open(&qp, &config, memory, 0, &error);
		cr_expect_eq(result, rows[i].result, "row %zu, value %llu: %d %s", i,
			     (unsigned long long)rows[i].value, result, error.text);
		cr_expect_eq(result != 0, error.text[0] != 0, "row %zu: a sentence when refused",
			     i);
		cr_expect_eq(qp_state(&qp), result ? QP_RESET : QP_READY, "row %zu", i);
		if (!result)
			qp_close(&qp);
		cr_expect_eq(qp_state(&qp), QP_RESET);
	}
}

/* Opens from reset: nothing is left of an earlier life. */
Test(engine_open, afresh)
{
	struct qp_config config = rig_config();
	struct rig *rig = rig_open(&config);
	struct frame frame;

	for (int i = 0; i < 20; i++)
		rig_message(rig, 700, RIG_WHOLE);
	rig_drain(rig);
	rig_receive(rig, 5, 0x61, 0);
	RIG_EQ(rig, qp_state(&rig->qp), QP_ERROR, "state");
	qp_close(&rig->qp);
	RIG_EQ(rig, qp_state(&rig->qp), QP_RESET, "state");
	RIG_EQ(rig, qp_transmit(&rig->qp, rig->now, &frame), QP_WAIT_ERROR, "answer when closed");

	config.start_psn = 0x42;
	cr_assert_eq(qp_open(&rig->qp, &config, rig->memory, rig->now, &(struct error){ "" }), 0);
	RIG_EQ(rig, qp_state(&rig->qp), QP_READY, "state");
	RIG_EQ(rig, qp_highest_psn(&rig->qp), 0x41, "highest PSN");
	RIG_EQ(rig, qp_deadline(&rig->qp), REQUESTER_NEVER, "deadline");
	RIG_EQ(rig, qp_outstanding(&rig->qp), 0, "outstanding");
	RIG_EQ(rig, rig->qp.counters.frames, 0, "frames");
	cr_assert_eq(qp_message(&rig->qp, 1), 0);
	qp_payload(&rig->qp, rig->pattern, 1, true);
	cr_assert_eq(qp_transmit(&rig->qp, rig->now, &frame), QP_FRAME);
	RIG_EQ(rig, frame.psn, 0x42, "PSN");
	rig_close(rig);
}

/* After close nothing reaches into the ring, whatever still arrives. */
Test(engine_open, late_events_after_close)
{
	struct qp_config config = rig_config();
	struct rig *rig = rig_open(&config);

	for (int i = 0; i < 20; i++)
		rig_message(rig, 700, RIG_WHOLE);
	rig->late = true;
	rig_drain(rig);
	qp_close(&rig->qp);
	RIG_EQ(rig, qp_outstanding(&rig->qp), 0, "outstanding");
	qp_completed(&rig->qp, 4096);
	rig_receive(rig, 5, 0x1F, 0);
	rig_receive(rig, 6, 0x60, 0);
	rig_time(rig, 100 * RIG_TIMEOUT);
	RIG_EQ(rig, qp_state(&rig->qp), QP_RESET, "state");
	RIG_EQ(rig, rig_drain(rig), 0, "frames");
	rig_close(rig);
}
