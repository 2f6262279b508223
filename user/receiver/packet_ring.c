/* SPDX-License-Identifier: BSD-2-Clause */
#include "packet_ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xdp2roce/roce.h>

#define VLAN_TAG 4
/* The kernel's headers, the reserve, and the largest frame: PMTU 4096, IPv6, VLAN. */
#define FRAME_SIZE 4608u
#define BLOCK_FRAMES 256u
#define RESERVE 16 /* before the frame, so that a tag the kernel took out can be put back */

_Static_assert(FRAME_SIZE % TPACKET_ALIGNMENT == 0, "the kernel wants aligned frames");
_Static_assert(FRAME_SIZE *BLOCK_FRAMES % 65536 == 0,
	       "and blocks of whole pages, whatever their size");
_Static_assert(PACKET_RING_FRAMES % BLOCK_FRAMES == 0, "no block is partly used");

/* IPv4 without options, or IPv6, and UDP to the RoCEv2 port. Tags are taken out before it looks. */
static struct sock_filter roce_filter[] = {
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 4),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 8),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, 5, 6),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 5),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	BPF_STMT(BPF_RET | BPF_K, 0),
};

static bool set_option(int fd, int name, const void *value, socklen_t size)
{
	return !setsockopt(fd, SOL_PACKET, name, value, size);
}

/* The filter comes first and the bind last: nothing else ever enters the ring. */
static const char *configure(int fd, int ifindex)
{
	struct sock_fprog program = {
		.len = sizeof(roce_filter) / sizeof(roce_filter[0]),
		.filter = roce_filter,
	};
	struct tpacket_req request = {
		.tp_block_size = FRAME_SIZE * BLOCK_FRAMES,
		.tp_block_nr = PACKET_RING_FRAMES / BLOCK_FRAMES,
		.tp_frame_size = FRAME_SIZE,
		.tp_frame_nr = PACKET_RING_FRAMES,
	};
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = ifindex,
	};
	int version = TPACKET_V2, reserve = RESERVE, on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		return "attach the filter";
	if (!set_option(fd, PACKET_VERSION, &version, sizeof(version)))
		return "choose TPACKET_V2";
	if (!set_option(fd, PACKET_RESERVE, &reserve, sizeof(reserve)))
		return "reserve room for a tag";
	if (!set_option(fd, PACKET_IGNORE_OUTGOING, &on, sizeof(on)))
		return "ignore outgoing frames (kernel 4.20 or later)";
	if (!set_option(fd, PACKET_RX_RING, &request, sizeof(request)))
		return "allocate the receive ring";
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return "bind to the interface";
	return NULL;
}

int packet_ring_open(struct packet_ring *ring, int ifindex, const char *interface,
		     struct error *error)
{
	const char *failed;
	int rc;

	memset(ring, 0, sizeof(*ring));
	ring->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ring->fd < 0)
		return error_set(error, errno,
				 "a packet socket cannot be opened (%s): run as root or with "
				 "CAP_NET_RAW",
				 strerror(errno));
	ring->map_size = (size_t)FRAME_SIZE * PACKET_RING_FRAMES;
	failed = configure(ring->fd, ifindex);
	if (!failed) {
		ring->map =
			mmap(NULL, ring->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
		if (ring->map != MAP_FAILED)
			return 0;
		failed = "map the receive ring";
	}
	ring->map = NULL;
	rc = error_set(error, errno, "cannot %s of the packet socket on %s: %s", failed, interface,
		       strerror(errno));
	close(ring->fd);
	return rc;
}

void packet_ring_close(struct packet_ring *ring)
{
	munmap(ring->map, ring->map_size);
	close(ring->fd);
}

static struct tpacket2_hdr *current(const struct packet_ring *ring)
{
	return (struct tpacket2_hdr *)(ring->map + (size_t)ring->next * FRAME_SIZE);
}

/* The kernel keeps the outermost tag beside the frame; it goes back behind the addresses. */
static uint8_t *put_tag_back(const struct tpacket2_hdr *header, uint8_t *frame)
{
	uint16_t tag[2] = { htons(ETH_P_8021Q), htons(header->tp_vlan_tci) };

	if (header->tp_status & TP_STATUS_VLAN_TPID_VALID)
		tag[0] = htons(header->tp_vlan_tpid);
	memmove(frame - VLAN_TAG, frame, 2 * ETH_ALEN);
	memcpy(frame - VLAN_TAG + 2 * ETH_ALEN, tag, VLAN_TAG);
	return frame - VLAN_TAG;
}

uint8_t *packet_ring_peek(struct packet_ring *ring, uint32_t *length)
{
	for (;; packet_ring_advance(ring)) {
		struct tpacket2_hdr *header = current(ring);
		uint32_t status = __atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE);
		const struct sockaddr_ll *from =
			(const void *)((uint8_t *)header + TPACKET_ALIGN(sizeof(*header)));
		uint8_t *frame = (uint8_t *)header + header->tp_mac;

		if (!(status & TP_STATUS_USER))
			return NULL;
		/* Of other machines, or merged by the kernel from several: not what was sent to us.
		 */
		if (from->sll_pkttype != PACKET_HOST || header->tp_snaplen != header->tp_len ||
		    header->tp_snaplen < ETH_HLEN)
			continue;
		*length = header->tp_snaplen;
		if (!(status & TP_STATUS_VLAN_VALID))
			return frame;
		*length += VLAN_TAG;
		return put_tag_back(header, frame);
	}
}

void packet_ring_advance(struct packet_ring *ring)
{
	__atomic_store_n(&current(ring)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	ring->next = (ring->next + 1) % PACKET_RING_FRAMES;
}

void packet_ring_send(struct packet_ring *ring, const uint8_t *frame, uint32_t length)
{
	if (send(ring->fd, frame, length, MSG_DONTWAIT) != (ssize_t)length)
		ring->send_errors++;
}

void packet_ring_refresh(struct packet_ring *ring)
{
	struct tpacket_stats statistics;
	socklen_t size = sizeof(statistics);
	int pending;

	/* Reading resets the kernel's counters. */
	if (!getsockopt(ring->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &size))
		ring->ring_drops += statistics.tp_drops;
	size = sizeof(pending);
	getsockopt(ring->fd, SOL_SOCKET, SO_ERROR, &pending, &size);
}
