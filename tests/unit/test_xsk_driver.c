/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>

#include "../../user/xsk/xsk.h"

Test(xsk_driver, virtio_net_reads_late_before_6_18)
{
	static const struct {
		const char *driver, *release;
		bool late;
	} rows[] = {
		{ "virtio_net", "6.12.117-amd64", true },
		{ "virtio_net", "6.17.9", true },
		{ "virtio_net", "6.18.0-rc1", false },
		{ "virtio_net", "7.0.1", false },
		{ "virtio_net", "5.19", true },
		{ "virtio_net", "unreadable", true },
		{ "veth", "6.1.0", false },
		{ "mlx5_core", "6.12.0", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_eq(xsk_driver_reads_late(rows[i].driver, rows[i].release), rows[i].late,
			     "%s on %s", rows[i].driver, rows[i].release);
}
