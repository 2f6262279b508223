/* SPDX-License-Identifier: BSD-2-Clause */
/* The RDMA device, port and GID of a stream; internal to the libibverbs receiver. */
#ifndef USER_RECEIVER_VERBS_DEVICE_H
#define USER_RECEIVER_VERBS_DEVICE_H

#include <infiniband/verbs.h>

#include "verbs.h"

struct verbs_device {
	struct ibv_context *context;
	char name[VERBS_NAME];
	uint8_t port;
	uint8_t gid_index;
	uint8_t ip[16];
	char interface[16]; /* behind the GID, empty when not known */
	struct ibv_device_attr limits;
	struct ibv_port_attr state;
};

/* Opens the device that the choice comes to, when its port is up. */
int verbs_device_open(struct verbs_device *device, const struct verbs_choice *choice,
		      struct error *error);
void verbs_device_close(struct verbs_device *device);

/* Does it take what the stream needs? */
int verbs_device_check(const struct verbs_device *device, const struct verbs_config *config,
		       struct error *error);

#endif
