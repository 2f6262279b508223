/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a slot (section 4 of the design): it is built anew only when its packet is
 * acknowledged and every descriptor submitted for it has completed, in whatever order that happens.
 */
#include "engine_rig.h"

static struct rig *rig_late(uint32_t ring, uint32_t pmtu, bool positional)
{
	struct qp_config config = rig_config();
	struct rig *rig;

	config.ring = ring;
	config.pmtu = pmtu;
	config.positional_completions = positional;
	rig = rig_open(&config);
	rig->late = true;
	for (int i = 0; i < 200; i++)
		rig_message(rig, pmtu, RIG_WHOLE);
	return rig;
}

/* One descriptor of the packet's slot. */
static void complete(struct rig *rig, int64_t relative)
{
	uint32_t index = rig_psn(rig, relative) & (rig->config.ring - 1);

	qp_completed(&rig->qp,
		     (uint64_t)index * qp_stride(rig->config.pmtu, rig->config.chunk) + 54);
}

Test(engine_slots, acknowledged_and_completed)
{
	struct rig *rig = rig_late(16, 256, false);

	RIG_EQ(rig, rig_drain(rig), 16, "frames");
	RIG_EQ(rig, qp_outstanding(&rig->qp), 16, "outstanding");
	rig_receive(rig, 15, 0x1F, 0);
	RIG_EQ(rig, rig_drain(rig), 0, "frames without a completion");
	RIG_EQ(rig, rig->wait, QP_WAIT_WINDOW, "reason");
	complete(rig, 0);
	RIG_EQ(rig, rig_drain(rig), 1, "frames after the first completion");

	/* Out of order: the next slot is the one that counts. */
	complete(rig, 2);
	complete(rig, 3);
	complete(rig, 5);
	RIG_EQ(rig, rig_drain(rig), 0, "frames while the next slot is outstanding");
	complete(rig, 1);
	RIG_EQ(rig, rig_drain(rig), 3, "frames");
	complete(rig, 4);
	RIG_EQ(rig, rig_drain(rig), 2, "frames");
	RIG_EQ(rig, qp_outstanding(&rig->qp), 16, "outstanding");
	rig_close(rig);
}

Test(engine_slots, completed_and_not_acknowledged)
{
	struct rig *rig = rig_late(16, 256, false);

	RIG_EQ(rig, rig_drain(rig), 16, "frames");
	for (int i = 0; i < 16; i++)
		complete(rig, i);
	RIG_EQ(rig, rig_drain(rig), 0, "frames");
	rig_receive(rig, 4, 0x1F, 0);
	RIG_EQ(rig, rig_drain(rig), 5, "frames");
	rig_close(rig);
}

Test(engine_slots, every_submission_counts)
{
	struct rig *rig = rig_late(16, 256, false);

	RIG_EQ(rig, rig_drain(rig), 16, "frames");
	rig_receive(rig, 0, 0x60, 0);
	RIG_EQ(rig, rig_drain(rig), 16, "replays while the first submissions are outstanding");
	RIG_EQ(rig, qp_outstanding(&rig->qp), 32, "outstanding");
	rig_receive(rig, 15, 0x1F, 0);
	for (int i = 0; i < 16; i++)
		complete(rig, i);
	RIG_EQ(rig, rig_drain(rig), 0, "frames after half of the completions");
	complete(rig, 0);
	complete(rig, 1);
	RIG_EQ(rig, rig_drain(rig), 2, "frames");
	rig_close(rig);
}

Test(engine_slots, doubled_completions_are_harmless)
{
	struct rig *rig = rig_late(16, 256, false);

	RIG_EQ(rig, rig_drain(rig), 16, "frames");
	for (int i = 0; i < 10; i++)
		complete(rig, 3);
	RIG_EQ(rig, qp_outstanding(&rig->qp), 15, "outstanding");
	rig_receive(rig, 15, 0x1F, 0);
	for (int i = 0; i < 3; i++)
		complete(rig, i);
	RIG_EQ(rig, rig_drain(rig), 4, "frames");
	RIG_EQ(rig, qp_outstanding(&rig->qp), 16, "outstanding");
	rig_close(rig);
}

Test(engine_slots, two_descriptors_at_pmtu_4096)
{
	struct rig *rig = rig_late(16, 4096, false);

	RIG_EQ(rig, rig_drain(rig), 16, "frames");
	RIG_EQ(rig, qp_outstanding(&rig->qp), 32, "outstanding");
	rig_receive(rig, 15, 0x1F, 0);
	complete(rig, 0);
	RIG_EQ(rig, rig_drain(rig), 0, "frames after one of two descriptors");
	qp_completed(&rig->qp, (uint64_t)(rig_psn(rig, 0) & 15) * 8192 + 4096);
	RIG_EQ(rig, rig_drain(rig), 1, "frames after both");
	rig_close(rig);
}

/* An acknowledged packet whose submissions are outstanding holds its slot, not the window before
 * it. */
Test(engine_slots, late_completion_after_replay_and_ack)
{
	struct rig *rig = rig_late(16, 256, false);

	RIG_EQ(rig, rig_drain(rig), 16, "frames");
	rig_receive(rig, 8, 0x60, 0);
	RIG_EQ(rig, rig_drain(rig), 8, "replays");
	for (int i = 0; i < 16; i++)
		complete(rig, i);
	RIG_EQ(rig, qp_outstanding(&rig->qp), 8, "outstanding");
	rig_receive(rig, 15, 0x1F, 0);
	RIG_EQ(rig, rig_drain(rig), 8, "frames in the slots that are free");
	RIG_EQ(rig, rig->wait, QP_WAIT_WINDOW, "reason");
	for (int i = 8; i < 16; i++)
		complete(rig, i);
	RIG_EQ(rig, rig_drain(rig), 8, "frames in the others");
	rig_close(rig);
}

/* virtio_net before 6.18: a replayed slot waits until nothing older is outstanding on the socket.
 */
Test(engine_slots, positional_completions)
{
	struct rig *rig = rig_late(16, 256, true);

	RIG_EQ(rig, rig_drain(rig), 16, "frames");
	rig_receive(rig, 2, 0x60, 0);
	qp_quiet(&rig->qp); /* before the replay: says nothing about it */
	RIG_EQ(rig, rig_drain(rig), 14, "replays");
	for (int i = 0; i < 16; i++)
		complete(rig, i);
	for (int i = 2; i < 16; i++)
		complete(rig, i);
	rig_receive(rig, 15, 0x1F, 0);
	RIG_EQ(rig, rig_drain(rig), 2, "frames in slots that were sent once");
	RIG_EQ(rig, rig->wait, QP_WAIT_WINDOW, "reason");
	complete(rig, 16);
	complete(rig, 17);
	qp_quiet(&rig->qp);
	RIG_EQ(rig, rig_drain(rig), 14, "frames after the quiet moment");
	rig_close(rig);
}

Test(engine_slots, positional_completions_off)
{
	struct rig *rig = rig_late(16, 256, false);

	rig_drain(rig);
	rig_receive(rig, 0, 0x60, 0);
	rig_drain(rig);
	for (int i = 0; i < 32; i++)
		complete(rig, i % 16);
	rig_receive(rig, 15, 0x1F, 0);
	RIG_EQ(rig, rig_drain(rig), 16, "frames without a quiet moment");
	rig_close(rig);
}

/* Built once: the bytes of a slot do not change while the packet is in flight, whatever happens. */
Test(engine_slots, bytes_stay)
{
	struct qp_config config = rig_config();
	struct rig *rig = rig_open(&config);
	uint8_t *before = malloc(64 * 4096);

	for (int i = 0; i < 200; i++)
		rig_message(rig, 700, RIG_WHOLE);
	RIG_EQ(rig, rig_drain(rig), 64, "frames");
	memcpy(before, rig->memory, 64 * 4096);
	rig_receive(rig, 0, 0x60, 0);
	rig_drain(rig);
	rig_expire(rig);
	rig_drain(rig);
	rig_receive(rig, 2, 0x2C, 0);
	rig_expire(rig);
	cr_assert(!memcmp(before, rig->memory, 64 * 4096));
	free(before);
	rig_close(rig);
}
