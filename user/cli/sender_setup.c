/* SPDX-License-Identifier: BSD-2-Clause */
#include "sender_setup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "../connect/guard.h"
#include "../connect/owner.h"
#include "peer.h"

static const uint8_t mapped_prefix[12] = { [10] = 0xFF, [11] = 0xFF };

int sender_check_kernel(const char *release, uint32_t pmtu, struct error *error)
{
	unsigned int major = 0, minor = 0;

	if (sscanf(release, "%u.%u", &major, &minor) != 2)
		return 0; /* no release that we know how to read: let the calls themselves tell */
	if (major < 6 || (major == 6 && minor < 1))
		return error_set(error, ENOSYS, "xdp2roce needs Linux 6.1 or later, found %s",
				 release);
	if (pmtu > 2048 && major == 6 && minor < 6)
		return error_set(error, ENOSYS,
				 "PMTU 4096 needs Linux 6.6 or later (a frame of two descriptors), "
				 "found %s: use --pmtu 2048",
				 release);
	return 0;
}

/* The first address that the resolver names, also as text. */
static int resolve(struct sender *sender, char host[INET6_ADDRSTRLEN], struct error *error)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const struct sockaddr_in6 *v6;
	const struct sockaddr_in *v4;
	struct addrinfo *found;
	int err = getaddrinfo(sender->options->host, NULL, &hints, &found);

	if (err)
		return error_set(error, EHOSTUNREACH,
				 "'%s' is no address and no known name (%s): name a host or an "
				 "address that the receiver listens on",
				 sender->options->host, gai_strerror(err));
	v4 = (const void *)found->ai_addr;
	v6 = (const void *)found->ai_addr;
	if (found->ai_family == AF_INET) {
		memcpy(sender->remote_ip, mapped_prefix, sizeof(mapped_prefix));
		memcpy(sender->remote_ip + 12, &v4->sin_addr, 4);
	} else {
		memcpy(sender->remote_ip, &v6->sin6_addr, 16);
	}
	freeaddrinfo(found);
	if (framer_is_ipv4(sender->remote_ip))
		inet_ntop(AF_INET, sender->remote_ip + 12, host, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, sender->remote_ip, host, INET6_ADDRSTRLEN);
	if (IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)sender->remote_ip))
		return error_set(error, EINVAL,
				 "%s is a link-local address, which names no network: use a global "
				 "or unique local address of the receiver",
				 host);
	return 0;
}

/* The largest PMTU that the interface carries, or the one asked for, if it does. */
static int choose_pmtu(struct sender *sender, struct error *error)
{
	uint32_t wanted = sender->options->pmtu, mtu = sender->route.mtu, pmtu = 4096;
	uint32_t overhead = framer_ip_overhead(!framer_is_ipv4(sender->remote_ip));
	struct utsname system;

	uname(&system);
	if (!wanted)
		while (pmtu > 256 &&
		       (pmtu + overhead > mtu || sender_check_kernel(system.release, pmtu, error)))
			pmtu /= 2;
	else
		pmtu = wanted;
	if (pmtu + overhead > mtu)
		return error_set(
			error, EMSGSIZE,
			"PMTU %u needs an MTU of %u on %s, found %u: raise it (ip link set %s "
			"mtu %u) or choose a smaller --pmtu",
			pmtu, pmtu + overhead, sender->route.interface, mtu,
			sender->route.interface, pmtu + overhead);
	sender->pmtu = pmtu;
	return sender_check_kernel(system.release, pmtu, error);
}

int sender_find_path(struct sender *sender, char host[INET6_ADDRSTRLEN], struct error *error)
{
	int err = resolve(sender, host, error);

	if (!err)
		err = route_find(&sender->route, sender->remote_ip, sender->options->interface,
				 PEER_TIMEOUT_MS, error);
	return err ? err : choose_pmtu(sender, error);
}

static const char *source_name(const struct source_config *config)
{
	const char *slash;

	if (!config->path)
		return "pattern";
	if (!strcmp(config->path, "-"))
		return "stdin";
	slash = strrchr(config->path, '/');
	return slash ? slash + 1 : config->path;
}

/* Without a record the receiver has the length of a message in packet mode from the offer alone. */
static int check_sizes(const struct sender *sender, const struct sender_stream *stream,
		       const struct source_config *config, struct error *error)
{
	uint64_t size = config->message_size;
	bool whole = stream->total_bytes && !(stream->total_bytes % size);

	if (!sender->options->packet_mode || sender->options->record || !config->path || whole)
		return 0;
	return error_set(error, EINVAL,
			 "packet mode without a record needs messages of one size, and %s does not "
			 "come as a known number of messages of %llu bytes: use --record on, or a "
			 "--message-size (and --size) that fits",
			 stream->name, (unsigned long long)size);
}

int sender_open_sources(struct sender *sender, struct error *error)
{
	for (uint32_t i = 0; i < sender->options->source_count; i++) {
		const struct source_config *config = &sender->options->sources[i];
		struct sender_stream *stream = &sender->streams[i];
		int err = source_start(&stream->source, config, error);

		if (err)
			return err;
		snprintf(stream->name, sizeof(stream->name), "%s", source_name(config));
		stream->total_bytes = source_total_bytes(stream->source);
		err = check_sizes(sender, stream, config, error);
		if (err)
			return err;
	}
	return 0;
}

int sender_claim_interface(struct sender *sender, struct error *error)
{
	sender->claim = owner_claim(sender->route.ifindex, sender->route.interface, error);
	return sender->claim < 0 ? sender->claim : 0;
}

static int open_program(struct sender *sender, struct error *error)
{
	int err = xdp_program_open(&sender->program, sender->route.ifindex, sender->route.interface,
				   ACK_MAP_QPS, 1, error);

	if (err)
		return err;
	sender->program_open = true;
	sender->guard = guard_open(error);
	if (sender->guard < 0 && sender->guard != -EADDRINUSE)
		return sender->guard;
	return 0;
}

static int open_worker(struct sender *sender, struct error *error)
{
	const struct worker_config config = {
		.program = &sender->program,
		.interface = sender->route.interface,
		.queue = sender->options->queue,
		.streams = sender->stream_count,
		.umem_bytes = sender->stream_count *
			      worker_stream_bytes(sender->pmtu, sender->options->ring),
		.multi_buffer = sender->pmtu > 2048,
	};
	int err = worker_open(&sender->worker, &config, error);

	sender->worker_open = !err;
	return err;
}

int sender_open_datapath(struct sender *sender, struct error *error)
{
	int err = open_program(sender, error);

	return err ? err : open_worker(sender, error);
}
