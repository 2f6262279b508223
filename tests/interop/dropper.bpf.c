/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drops PERCENT of the RoCEv2 frames over IPv4 that come in, by a pseudo-random sequence that SEED
 * determines: the n-th frame always has the same fate.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ROCE_PORT 4791

__u32 frames, dropped;

struct headers {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

/* A bijection that spreads its input over all bits ("lowbias32"). */
static __u32 mix(__u32 x)
{
	x = (x ^ (x >> 16)) * 0x7FEB352Du;
	x = (x ^ (x >> 15)) * 0x846CA68Bu;
	return x ^ (x >> 16);
}

SEC("xdp")
int drop(struct xdp_md *context)
{
	struct headers *headers = (void *)(long)context->data;

	if ((void *)(headers + 1) > (void *)(long)context->data_end)
		return XDP_PASS;
	if (headers->ethernet.h_proto != bpf_htons(ETH_P_IP) ||
	    headers->ip.protocol != IPPROTO_UDP || headers->udp.dest != bpf_htons(ROCE_PORT))
		return XDP_PASS;
	if (mix(SEED + __sync_fetch_and_add(&frames, 1)) % 100 >= PERCENT)
		return XDP_PASS;
	__sync_fetch_and_add(&dropped, 1);
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
