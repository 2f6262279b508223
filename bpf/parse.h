/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finds the BTH of a RoCEv2 frame: Ethernet, at most one VLAN tag, IPv4 without options that is not
 * a fragment or IPv6 without extension headers, UDP to port 4791. Anything else is not for us.
 *
 * All of that has to lie in the first buffer of the frame; drivers that split frames put 128 bytes
 * or more there.
 */
#ifndef BPF_PARSE_H
#define BPF_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <xdp2roce/roce.h>

#define IPV4_VERSION_IHL 0x45     /* no options */
#define IPV4_FRAGMENT 0x3FFF      /* more fragments, fragment offset */
#define IPV4_MAPPED 0xFFFF0000ull /* bytes 8…11 of ::ffff:a.b.c.d as a little-endian word */

struct vlan_tag {
	__be16 tci;
	__be16 type;
};

/* The 16 bytes of an address as they lie in memory, IPv4 as ::ffff:a.b.c.d. */
struct address {
	__u64 head, tail;
};

struct frame {
	const void *ip;
	const struct udphdr *udp;
	const struct roce_bth *bth;
	const void *end; /* of the frame in memory, Ethernet padding included */
	struct address source;
	struct address destination;
	__u32 ip_udp_length; /* UDP length that the IP header promises */
	bool ipv6;
};

static __always_inline bool parse_ipv4(struct frame *frame)
{
	const struct iphdr *ip = frame->ip;

	frame->udp = (const void *)(ip + 1);
	frame->bth = (const void *)(frame->udp + 1);
	if ((const void *)(frame->bth + 1) > frame->end)
		return false;
	if (*(const __u8 *)ip != IPV4_VERSION_IHL || ip->protocol != IPPROTO_UDP ||
	    ip->frag_off & bpf_htons(IPV4_FRAGMENT))
		return false;
	frame->source = (struct address){ 0, IPV4_MAPPED | (__u64)ip->saddr << 32 };
	frame->destination = (struct address){ 0, IPV4_MAPPED | (__u64)ip->daddr << 32 };
	frame->ip_udp_length = bpf_ntohs(ip->tot_len) - sizeof(*ip);
	frame->ipv6 = false;
	return true;
}

static __always_inline struct address load_address(const struct in6_addr *from)
{
	const __u64 *words = (const void *)from;

	return (struct address){ words[0], words[1] };
}

/* A mapped address stands for IPv4 in our maps and has no business in an IPv6 header. */
static __always_inline bool is_mapped(struct address address)
{
	return address.head == 0 && (__u32)address.tail == IPV4_MAPPED;
}

static __always_inline bool parse_ipv6(struct frame *frame)
{
	const struct ipv6hdr *ip = frame->ip;

	frame->udp = (const void *)(ip + 1);
	frame->bth = (const void *)(frame->udp + 1);
	if ((const void *)(frame->bth + 1) > frame->end)
		return false;
	if (*(const __u8 *)ip >> 4 != 6 || ip->nexthdr != IPPROTO_UDP)
		return false;
	frame->source = load_address(&ip->saddr);
	frame->destination = load_address(&ip->daddr);
	frame->ip_udp_length = bpf_ntohs(ip->payload_len);
	frame->ipv6 = true;
	return !is_mapped(frame->source);
}

static __always_inline bool parse(const struct xdp_md *ctx, struct frame *frame)
{
	const struct ethhdr *eth = (const void *)(long)ctx->data;
	const struct vlan_tag *tag = (const void *)(eth + 1);
	__be16 type;

	frame->end = (const void *)(long)ctx->data_end;
	if ((const void *)(tag + 1) > frame->end)
		return false;
	type = eth->h_proto;
	frame->ip = tag;
	if (type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD)) {
		type = tag->type;
		frame->ip = tag + 1;
	}
	if (type == bpf_htons(ETH_P_IP)) {
		if (!parse_ipv4(frame))
			return false;
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		if (!parse_ipv6(frame))
			return false;
	} else {
		return false;
	}
	return frame->udp->dest == bpf_htons(ROCE_UDP_PORT);
}

#endif
