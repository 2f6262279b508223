/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs_qp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <xdp2roce/roce.h>

#define ACK_TIMEOUT 14 /* 67 ms; like the retries without effect, since we send no requests */
#define RETRIES 7
#define HOP_LIMIT 64

/* No IBV_ACCESS_RELAXED_ORDERING: an immediate must never be seen before the payload it ends. */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* Most failures here are the limit of locked memory, and the kernel only says ENOMEM. */
static int cannot(const char *what, const struct verbs_device *device, uint64_t locked, int code,
		  struct error *error)
{
	struct rlimit limit;

	if (code == ENOMEM && !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		return error_set(error, code,
				 "%s on %s was refused; it needs %" PRIu64
				 " bytes of locked memory "
				 "and the limit is %llu kB: raise it (ulimit -l unlimited, "
				 "LimitMEMLOCK=infinity in a unit), or use fewer or smaller slots",
				 what, device->name, locked,
				 (unsigned long long)limit.rlim_cur / 1024);
	return error_set(error, code, "%s on %s failed: %s", what, device->name, strerror(code));
}

static int no_import(const struct verbs_device *device, int code, struct error *error)
{
	if (code == EOPNOTSUPP || code == EPROTONOSUPPORT || code == ENOSYS)
		return error_set(error, code,
				 "%s, or its driver in this kernel, cannot receive into a dma-buf "
				 "(%s): receive into ordinary memory, or look for a newer kernel",
				 device->name, strerror(code));
	return error_set(error, code, "%s cannot import the dma-buf: %s", device->name,
			 strerror(code));
}

static int register_memory(struct verbs_qp *qp, const struct verbs_device *device,
			   const struct verbs_config *config, struct error *error)
{
	uint64_t size;

	if (__builtin_mul_overflow(config->slot_size, (uint64_t)config->slot_count, &size) || !size)
		return error_set(error, EINVAL, "%u slots of %" PRIu64 " bytes cannot be",
				 config->slot_count, config->slot_size);
	/* In a dma-buf, the device wants address and offset to agree within a page. */
	qp->address = config->dmabuf ? config->dmabuf_offset : (uintptr_t)config->memory;
	errno = 0;
	qp->mr = config->dmabuf ? ibv_reg_dmabuf_mr(qp->pd, config->dmabuf_offset, size,
						    qp->address, config->dmabuf_fd, ACCESS)
				: ibv_reg_mr(qp->pd, config->memory, size, ACCESS);
	if (qp->mr)
		return 0;
	if (config->dmabuf)
		return no_import(device, errno ? errno : EIO, error);
	return cannot("registering the slots", device, size, errno ? errno : EIO, error);
}

static int create_queue(struct verbs_qp *qp, const struct verbs_device *device,
			const struct verbs_config *config, struct error *error)
{
	/* Each entry belongs to a posted receive, so that the completion queue cannot overflow. */
	uint32_t receives = config->immediate ? config->slot_count - 1 : 1;
	struct ibv_qp_init_attr init = {
		.cap = {
			.max_recv_wr = receives,
			.max_send_wr = 1,
			.max_recv_sge = 1,
			.max_send_sge = 1,
		},
		.qp_type = config->uc ? IBV_QPT_UC : IBV_QPT_RC,
	};

	errno = 0;
	qp->channel = ibv_create_comp_channel(device->context);
	if (!qp->channel)
		return cannot("the completion channel", device, 0, errno ? errno : EIO, error);
	qp->cq = ibv_create_cq(device->context, (int)receives, NULL, qp->channel, 0);
	if (!qp->cq)
		return cannot("the completion queue", device, receives * 64ull, errno ? errno : EIO,
			      error);
	if (ibv_req_notify_cq(qp->cq, 0))
		return cannot("the completion event", device, 0, errno ? errno : EIO, error);
	init.send_cq = init.recv_cq = qp->cq;
	qp->qp = ibv_create_qp(qp->pd, &init);
	return qp->qp ? 0
		      : cannot(config->uc ? "the UC queue pair" : "the RC queue pair", device,
			       receives * 64ull, errno ? errno : EIO, error);
}

int verbs_qp_create(struct verbs_qp *qp, const struct verbs_device *device,
		    const struct verbs_config *config, struct error *error)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = device->port,
		.qp_access_flags = ACCESS,
	};
	int rc;

	*qp = (struct verbs_qp){ 0 };
	if (getrandom(&qp->send_psn, sizeof(qp->send_psn), 0) < 0)
		return error_set(error, errno, "no random numbers: %s", strerror(errno));
	qp->send_psn &= ROCE_PSN_MASK;
	errno = 0;
	qp->pd = ibv_alloc_pd(device->context);
	if (!qp->pd)
		return cannot("a protection domain", device, 0, errno ? errno : EIO, error);
	rc = register_memory(qp, device, config, error);
	if (!rc)
		rc = create_queue(qp, device, config, error);
	if (rc)
		return rc;
	rc = ibv_modify_qp(qp->qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return rc ? cannot("the queue pair's first step (INIT)", device, 0, rc, error) : 0;
}

static enum ibv_mtu mtu_code(uint32_t pmtu)
{
	enum ibv_mtu code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && 128u << code < pmtu)
		code++;
	return code;
}

/* The kernel asks for the peer's MAC address at this step: RoCE answers go to it. */
static int cannot_reach(const struct verbs_device *device, const struct verbs_config *config,
			int code, struct error *error)
{
	char ip[INET6_ADDRSTRLEN];

	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)config->peer_ip))
		inet_ntop(AF_INET, config->peer_ip + 12, ip, sizeof(ip));
	else
		inet_ntop(AF_INET6, config->peer_ip, ip, sizeof(ip));
	if (code == ETIMEDOUT || code == EHOSTUNREACH || code == ENETUNREACH)
		return error_set(
			error, code,
			"%s finds no way to the sender's address %s (%s): look at the route "
			"to it and whether it answers ARP",
			device->name, ip, strerror(code));
	return error_set(error, code, "%s cannot connect its queue pair to %s: %s", device->name,
			 ip, strerror(code));
}

int verbs_qp_connect(struct verbs_qp *qp, const struct verbs_device *device,
		     const struct verbs_config *config, struct error *error)
{
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_code(config->pmtu),
		.dest_qp_num = config->peer_qpn,
		.rq_psn = config->psn,
		.min_rnr_timer = config->rnr_timer,
		.ah_attr = {
			.is_global = 1,
			.port_num = device->port,
			.grh = { .sgid_index = device->gid_index, .hop_limit = HOP_LIMIT },
		},
	};
	int rc;

	memcpy(attr.ah_attr.grh.dgid.raw, config->peer_ip, 16);
	if (!config->uc)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	rc = ibv_modify_qp(qp->qp, &attr, mask);
	if (rc)
		return cannot_reach(device, config, rc, error);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = qp->send_psn,
		.timeout = ACK_TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = RETRIES,
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (!config->uc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	rc = ibv_modify_qp(qp->qp, &attr, mask);
	return rc ? cannot("the queue pair's last step (RTS)", device, 0, rc, error) : 0;
}

void verbs_qp_stop(struct verbs_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (qp->qp)
		ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE);
}

void verbs_qp_destroy(struct verbs_qp *qp)
{
	if (qp->qp)
		ibv_destroy_qp(qp->qp);
	if (qp->mr)
		ibv_dereg_mr(qp->mr);
	if (qp->cq)
		ibv_destroy_cq(qp->cq);
	if (qp->channel)
		ibv_destroy_comp_channel(qp->channel);
	if (qp->pd)
		ibv_dealloc_pd(qp->pd);
	*qp = (struct verbs_qp){ 0 };
}
