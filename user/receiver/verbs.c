/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "verbs_ledger.h"
#include "verbs_qp.h"

#define BATCH 32
#define REFUSED "the sender's last request was one that it must refuse"
#define DRAIN_TRIES 100 /* of a millisecond */

struct verbs {
	struct verbs_device device;
	struct verbs_qp qp;
	struct verbs_ledger ledger;
	bool immediate;
	int event; /* an epoll of completions and of the device's own events */
	int failed;
	struct error error; /* why */
};

static void fail(struct verbs *verbs, int code, const char *what)
{
	if (!verbs->failed)
		verbs->failed = error_set(&verbs->error, code, "%s: the queue pair failed: %s",
					  verbs->device.name, what);
}

/* Zero-length receives: what arrives is the immediate, the payload has gone to its slot. */
static void post_receives(struct verbs *verbs)
{
	struct ibv_recv_wr receive = { 0 }, *bad;
	uint32_t room = verbs->immediate ? verbs_ledger_room(&verbs->ledger) : 0;

	for (; room && !verbs->failed; room--) {
		int rc = ibv_post_recv(verbs->qp.qp, &receive, &bad);

		if (rc)
			fail(verbs, rc, "it takes no more receives");
		else
			verbs->ledger.posted++;
	}
}

/* Completions. */

/* A flushed receive only says that the end has come; the device's own event, if any, says why. */
static void take_completion(struct verbs *verbs, const struct ibv_wc *wc)
{
	char text[128];

	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		verbs->ledger.posted -= verbs->ledger.posted > 0;
	} else if (wc->status != IBV_WC_SUCCESS) {
		verbs->ledger.posted -= verbs->ledger.posted > 0;
		fail(verbs, EIO, ibv_wc_status_str(wc->status));
	} else if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(wc->wc_flags & IBV_WC_WITH_IMM)) {
		snprintf(text, sizeof(text),
			 "an RDMA Write with Immediate was expected, and operation %d came",
			 wc->opcode);
		fail(verbs, EPROTO, text);
	} else if (verbs_ledger_complete(&verbs->ledger, ntohl(wc->imm_data), wc->byte_len)) {
		fail(verbs, EPROTO, "it completed more receives than were posted");
	}
}

/* True when a flushed receive was among them. */
static bool take_completions(struct verbs *verbs)
{
	struct ibv_wc wc[BATCH];
	bool flushed = false;
	int count;

	do {
		count = ibv_poll_cq(verbs->qp.cq, BATCH, wc);
		for (int i = 0; i < count; i++) {
			take_completion(verbs, &wc[i]);
			flushed |= wc[i].status == IBV_WC_WR_FLUSH_ERR;
		}
	} while (count == BATCH);
	if (count < 0)
		fail(verbs, EIO, "its completion queue cannot be read");
	return flushed;
}

/* Events of the device. Those of its port are not ours: the sender retries meanwhile. */
static void take_device_events(struct verbs *verbs)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(verbs->device.context, &event)) {
		switch (event.event_type) {
		case IBV_EVENT_QP_ACCESS_ERR:
			fail(verbs, EACCES,
			     "the sender used a wrong key or wrote outside the slots");
			break;
		case IBV_EVENT_QP_REQ_ERR:
			fail(verbs, EPROTO,
			     "the sender's packets contradict each other or the PMTU");
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_CQ_ERR:
		case IBV_EVENT_DEVICE_FATAL:
			fail(verbs, EIO, ibv_event_type_str(event.event_type));
			break;
		default:
			break;
		}
		ibv_ack_async_event(&event);
	}
}

/* True when the channel had told of completions, which may be more than were polled. */
static bool rearm(struct verbs *verbs)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(verbs->qp.channel, &cq, &context))
		return false;
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		fail(verbs, EIO, "it cannot tell of completions");
	return true;
}

int verbs_collect(struct verbs *verbs, uint64_t *completed, struct error *error)
{
	struct pollfd fds[2] = {
		{ .fd = verbs->qp.channel->fd, .events = POLLIN },
		{ .fd = verbs->device.context->async_fd, .events = POLLIN },
	};
	bool flushed = take_completions(verbs);

	if (poll(fds, 2, 0) > 0) {
		if (fds[0].revents && rearm(verbs))
			flushed |= take_completions(verbs);
		if (fds[1].revents & POLLIN)
			take_device_events(verbs);
		else if (fds[1].revents)
			fail(verbs, ENODEV, "the device has gone");
	}
	if (flushed)
		fail(verbs, EIO, REFUSED);
	*completed = verbs->ledger.completed;
	if (verbs->failed)
		*error = verbs->error;
	return verbs->failed;
}

void verbs_ask(struct verbs *verbs)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (!ibv_query_qp(verbs->qp.qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR)
		fail(verbs, EIO, REFUSED);
}

struct receiver_message verbs_message(const struct verbs *verbs, uint64_t n)
{
	return verbs_ledger_message(&verbs->ledger, n);
}

void verbs_release(struct verbs *verbs, uint64_t n)
{
	verbs_ledger_release(&verbs->ledger, n);
	post_receives(verbs);
}

uint64_t verbs_bytes(const struct verbs *verbs)
{
	return verbs->ledger.bytes;
}

int verbs_event(const struct verbs *verbs)
{
	return verbs->event;
}

/* Life. */

static int watch(struct verbs *verbs, int fd, struct error *error)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) ||
	    epoll_ctl(verbs->event, EPOLL_CTL_ADD, fd, &event))
		return error_set(error, errno, "the events of %s cannot be watched: %s",
				 verbs->device.name, strerror(errno));
	return 0;
}

static int watch_events(struct verbs *verbs, struct error *error)
{
	int rc;

	verbs->event = epoll_create1(EPOLL_CLOEXEC);
	if (verbs->event < 0)
		return error_set(error, errno, "no descriptor for events: %s", strerror(errno));
	rc = watch(verbs, verbs->qp.channel->fd, error);
	return rc ? rc : watch(verbs, verbs->device.context->async_fd, error);
}

/* Receives are there before the first frame can be: no stream starts with an RNR NAK. */
static int start(struct verbs *verbs, const struct verbs_config *config, struct error *error)
{
	int rc = verbs_device_check(&verbs->device, config, error);

	if (!rc && config->immediate)
		rc = verbs_ledger_open(&verbs->ledger, config->slot_count, error);
	if (!rc)
		rc = verbs_qp_create(&verbs->qp, &verbs->device, config, error);
	if (!rc)
		rc = watch_events(verbs, error);
	if (rc)
		return rc;
	post_receives(verbs);
	if (verbs->failed) {
		*error = verbs->error;
		return verbs->failed;
	}
	return verbs_qp_connect(&verbs->qp, &verbs->device, config, error);
}

static void tell_address(const struct verbs *verbs, struct verbs_address *address)
{
	address->qpn = verbs->qp.qp->qp_num;
	address->psn = verbs->qp.send_psn;
	address->rkey = verbs->qp.mr->rkey;
	address->address = verbs->qp.address;
	address->port = verbs->device.port;
	address->gid_index = verbs->device.gid_index;
	memcpy(address->ip, verbs->device.ip, 16);
	memcpy(address->device, verbs->device.name, sizeof(address->device));
}

int verbs_open(struct verbs **verbs, const struct verbs_config *config,
	       struct verbs_address *address, struct error *error)
{
	struct verbs *new = calloc(1, sizeof(*new));
	int rc;

	if (!new)
		return error_set(error, ENOMEM, "no memory for a stream");
	new->event = -1;
	new->immediate = config->immediate;
	rc = verbs_device_open(&new->device, &config->choice, error);
	if (!rc)
		rc = start(new, config, error);
	if (rc) {
		verbs_close(new);
		return rc;
	}
	tell_address(new, address);
	*verbs = new;
	return 0;
}

/* A device may hand out receives for a while after the queue pair has ended. */
static void drain(struct verbs *verbs)
{
	static const struct timespec pause = { .tv_nsec = 1000000 };

	verbs_qp_stop(&verbs->qp);
	for (int i = 0; i < DRAIN_TRIES && verbs->ledger.posted; i++) {
		take_completions(verbs);
		if (verbs->ledger.posted)
			nanosleep(&pause, NULL);
	}
}

void verbs_close(struct verbs *verbs)
{
	if (!verbs)
		return;
	if (verbs->qp.qp)
		drain(verbs);
	if (verbs->event >= 0)
		close(verbs->event);
	verbs_qp_destroy(&verbs->qp);
	verbs_device_close(&verbs->device);
	verbs_ledger_close(&verbs->ledger);
	free(verbs);
}
