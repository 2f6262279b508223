/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair and what it needs, from nothing to ready to receive; internal to the libibverbs
 * receiver. */
#ifndef USER_RECEIVER_VERBS_QP_H
#define USER_RECEIVER_VERBS_QP_H

#include "verbs_device.h"

struct verbs_qp {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint64_t address;  /* of the first slot, as the sender names it */
	uint32_t send_psn; /* random; nothing is ever sent */
};

/* Creates everything; the queue pair takes receives but no frames yet. On failure close what there
 * is. */
int verbs_qp_create(struct verbs_qp *qp, const struct verbs_device *device,
		    const struct verbs_config *config, struct error *error);
/* From here on frames are received. */
int verbs_qp_connect(struct verbs_qp *qp, const struct verbs_device *device,
		     const struct verbs_config *config, struct error *error);
/* Its receives come back as flushed. */
void verbs_qp_stop(struct verbs_qp *qp);
/* In the order that lets no device reach memory that it no longer may. */
void verbs_qp_destroy(struct verbs_qp *qp);

#endif
