/* SPDX-License-Identifier: BSD-2-Clause */
/* Section 8 of the design: where the time goes, counted to the nanosecond, each wait in its own
 * counter. */
#include "engine_rig.h"

static struct rig *rig_with(uint32_t ring, bool immediate)
{
	struct qp_config config = rig_config();

	config.ring = ring;
	config.immediate = immediate;
	return rig_open(&config);
}

static void check(const struct rig *rig, uint64_t credit, uint64_t window, uint64_t source)
{
	RIG_EQ(rig, rig->qp.counters.credit_wait_ns, credit, "credit_wait_ns");
	RIG_EQ(rig, rig->qp.counters.window_wait_ns, window, "window_wait_ns");
	RIG_EQ(rig, rig->qp.counters.source_wait_ns, source, "source_wait_ns");
	RIG_EQ(rig, rig->qp.requester.counters.rnr_wait_ns, 0, "rnr_wait_ns");
}

Test(engine_waits, credit)
{
	struct rig *rig = rig_with(64, true);

	rig_message(rig, 8, RIG_WHOLE);
	rig_message(rig, 8, RIG_WHOLE);
	RIG_EQ(rig, rig_drain(rig), 1, "frames");
	RIG_EQ(rig, rig->wait, QP_WAIT_CREDIT, "reason");
	rig_time(rig, 12345);
	RIG_EQ(rig, rig_drain(rig), 0, "frames");
	rig_receive(rig, 0, 0, 1);
	RIG_EQ(rig, rig_drain(rig), 1, "frames");
	check(rig, 12345, 0, 0);
	rig_close(rig);
}

Test(engine_waits, window)
{
	struct rig *rig = rig_with(16, false);

	for (int i = 0; i < 20; i++)
		rig_message(rig, 8, RIG_WHOLE);
	RIG_EQ(rig, rig_drain(rig), 16, "frames");
	RIG_EQ(rig, rig->wait, QP_WAIT_WINDOW, "reason");
	rig_time(rig, 777);
	rig_receive(rig, 7, 0x1F, 0);
	RIG_EQ(rig, rig_drain(rig), 4, "frames");
	RIG_EQ(rig, rig->wait, QP_WAIT_NOTHING, "reason");
	rig_time(rig, 5000);
	rig_message(rig, 8, RIG_WHOLE);
	RIG_EQ(rig, rig_drain(rig), 1, "frames");
	check(rig, 0, 777, 0);
	rig_close(rig);
}

Test(engine_waits, source)
{
	struct rig *rig = rig_with(16, false);

	rig_message(rig, 1000, 300);
	RIG_EQ(rig, rig_drain(rig), 1, "frames");
	RIG_EQ(rig, rig->wait, QP_WAIT_SOURCE, "reason");
	rig_time(rig, 4242);
	rig_payload(rig, 1000, false);
	RIG_EQ(rig, rig_drain(rig), 3, "frames");
	check(rig, 0, 0, 4242);
	rig_close(rig);
}
