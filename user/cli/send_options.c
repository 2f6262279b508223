/* SPDX-License-Identifier: BSD-2-Clause */
#include "send_options.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

#include "endpoint.h"
#include "peer.h"
#include "units.h"

enum {
	OPTION_TO = 't',
	OPTION_INTERFACE = 'i',
	OPTION_QUEUE = 'q',
	OPTION_JSON = 'j',
	OPTION_CONNECT = 'c',
	OPTION_PATTERN = 256,
	OPTION_STREAMS,
	OPTION_MESSAGE_SIZE,
	OPTION_MESSAGES,
	OPTION_SEED,
	OPTION_SIZE,
	OPTION_TRANSPORT,
	OPTION_IMMEDIATE,
	OPTION_PMTU,
	OPTION_RING,
	OPTION_ACK_TIMEOUT,
	OPTION_RETRY,
	OPTION_RNR_RETRY,
	OPTION_START_PSN,
	OPTION_QUIET,
	OPTION_SEGMENTATION,
	OPTION_RECORD,
	OPTION_DSCP,
	OPTION_ECN,
	OPTION_TTL,
	OPTION_VLAN_ID,
	OPTION_VLAN_PCP,
};

static const struct argp_option entries[] = {
	{ "to", OPTION_TO, "HOST[:PORT]", 0,
	  "The receiver, by name, IPv4 or IPv6 address, as in [fd00::2]:18515 (port 18515 by "
	  "default)",
	  1 },
	{ "connect", OPTION_CONNECT, "SCHEME://HOST[:PORT]", 0,
	  "Instead of --to: xdp2roce:// is the same; perftest:// is an `ib_write_bw` server; "
	  "pingpong:// is ibv_rc_pingpong or ibv_uc_pingpong (ports 18515 by default)",
	  1 },
	{ "interface", OPTION_INTERFACE, "NAME", 0,
	  "Send through this interface (default: the route's)", 1 },
	{ "queue", OPTION_QUEUE, "N", 0, "Transmit queue of the interface (0)", 1 },
	{ "pattern", OPTION_PATTERN, 0, 0, "Send a reproducible pattern instead of SOURCE", 2 },
	{ "messages", OPTION_MESSAGES, "N", 0, "Messages of the pattern (64)", 2 },
	{ "seed", OPTION_SEED, "N", 0, "Seed of the pattern (0)", 2 },
	{ "streams", OPTION_STREAMS, "N", 0,
	  "Streams of the pattern, 1 to 62, each with its own queue pair and the next seed (1)",
	  2 },
	{ "message-size", OPTION_MESSAGE_SIZE, "SIZE", 0,
	  "Bytes per message, as in 64KiB (1MiB); the receiver is told once per message", 2 },
	{ "size", OPTION_SIZE, "SIZE", 0,
	  "Bytes that standard input or a FIFO will deliver: messages then leave while they are "
	  "read",
	  2 },
	{ "transport", OPTION_TRANSPORT, "rc|uc", 0,
	  "Reliable Connection (rc), or Unreliable Connection: no answers, what is lost stays lost",
	  3 },
	{ "immediate", OPTION_IMMEDIATE, "on|off", 0,
	  "End messages with an immediate, the message number (on); off: the receiver is not told",
	  3 },
	{ "segmentation", OPTION_SEGMENTATION, "HOW", 0,
	  "How a message is cut: message, into one RDMA Write of many packets, or packet, into a "
	  "Write for each packet, so that a lost one costs no other (message for rc; for uc "
	  "packet, "
	  "with a record)",
	  3 },
	{ "record", OPTION_RECORD, "on|off", 0,
	  "End messages with 64 bytes that tell number, length, time and CRC (off for rc; on for "
	  "uc in packet mode); the receiver's slots must be 64 bytes larger",
	  3 },
	{ "pmtu", OPTION_PMTU, "BYTES", 0,
	  "256, 512, 1024, 2048 or 4096 (the largest that the interface's MTU carries)", 3 },
	{ "ring", OPTION_RING, "PACKETS", 0,
	  "Packets in flight per stream, a power of two from 16 to 32768 (256)", 3 },
	{ "ack-timeout", OPTION_ACK_TIMEOUT, "TIME", 0,
	  "Wait for an acknowledgement before sending again, as in 67ms (67.109ms); 0: for ever",
	  3 },
	{ "retry", OPTION_RETRY, "N", 0, "Times in a row without an answer, 0 to 7 (7)", 3 },
	{ "rnr-retry", OPTION_RNR_RETRY, "N", 0,
	  "Times in a row that the receiver may be not ready, 0 to 7, 7: for ever (7)", 3 },
	{ "start-psn", OPTION_START_PSN, "N", 0, "First PSN, 24 bit (random)", 3 },
	{ "dscp", OPTION_DSCP, "N", 0, "DSCP of the IP header, 0 to 63 (0)", 4 },
	{ "ecn", OPTION_ECN, "N", 0, "ECN of the IP header, 0 to 3 (0); 2 is ECT(0)", 4 },
	{ "ttl", OPTION_TTL, "N", 0, "TTL, or hop limit, 1 to 255 (64)", 4 },
	{ "vlan-id", OPTION_VLAN_ID, "N", 0,
	  "Put a VLAN tag in each frame, 1 to 4094 (none); not needed when the interface is a "
	  "VLAN's",
	  4 },
	{ "vlan-pcp", OPTION_VLAN_PCP, "N", 0, "Priority in that tag, 0 to 7 (0)", 4 },
	{ "json", OPTION_JSON, 0, 0, "Print the result as one JSON object on standard output", 5 },
	{ "quiet", OPTION_QUIET, 0, 0, "No progress, no summary; errors only", 5 },
	{ 0 },
};

static const char usage_text[] = "SOURCE…\n--pattern";
static const char help_text[] =
	"Streams each SOURCE (a file, a FIFO, or - for standard input) into the memory of a "
	"receiver "
	"with RDMA Writes."
	"\vEach SOURCE is a stream of its own, with its own queue pair. The receiver is "
	"`xdp2roce recv` on a host with an RDMA device, or `xdp2roce recv --soft` on any other "
	"host or in another network namespace.\n\n"
	"Example: xdp2roce send --to 192.0.2.2 scan.raw\n\n"
	"Packet mode without a record needs messages of one size, since the receiver cannot tell "
	"their length; with one a FIFO's messages leave while they are read, also without "
	"--size.\n\n"
	"perftest: each stream is a queue pair of the server, which needs -q with their number and "
	"-s with the message size (or more); -c UC for --transport uc. PMTU is the smaller one of "
	"both ends. All messages go to the same memory, without immediates; the server prints our "
	"figures, in MiB/s and without a peak.\n\n"
	"Example: ib_write_bw -q 4 -s 1048576 -x 1 on the host 192.0.2.2, then\n"
	"xdp2roce send --connect perftest://192.0.2.2 --pattern --streams 4\n\n"
	"pingpong: the handshake, then one empty RDMA Write. The server takes Sends only: with RC "
	"its "
	"refusal proves that both queue pairs are connected, and ends it; UC has no answers.";

static int parse_host(struct send_options *options, const char *text, const char *option,
		      const struct peer *peer, struct error *error)
{
	struct endpoint endpoint = { .port = peer->port };
	int err;

	if (options->named_by && strcmp(options->named_by, option))
		return error_set(error, EINVAL, "--to and --connect exclude each other");
	err = parse_endpoint(text, &endpoint, error);
	if (err)
		return err;
	if (!endpoint.host[0] || !endpoint.port)
		return error_set(error, EINVAL,
				 "%s: expected HOST or HOST:PORT with a port from 1 to 65535, "
				 "found '%s'",
				 option, text);
	memcpy(options->host, endpoint.host, sizeof(options->host));
	options->sender.host = options->host;
	options->sender.port = endpoint.port;
	options->sender.peer = peer;
	options->named_by = option;
	return 0;
}

static int parse_connect(struct send_options *options, const char *text, struct error *error)
{
	const char *end = strstr(text, "://");
	const struct peer *peer = end ? peer_find(text, (size_t)(end - text)) : NULL;

	if (!peer)
		return error_set(error, EINVAL,
				 "--connect %s: expected xdp2roce://, perftest:// or pingpong:// "
				 "and HOST or HOST:PORT",
				 text);
	return parse_host(options, end + 3, "--connect", peer, error);
}

static int parse_pmtu(const char *text, uint32_t *pmtu, struct error *error)
{
	uint64_t value;

	if (parse_number(text, "PMTU", 256, 4096, &value, error))
		return -EINVAL;
	if (value & (value - 1))
		return error_set(error, EINVAL, "PMTU is %s, expected 256, 512, 1024, 2048 or 4096",
				 text);
	*pmtu = (uint32_t)value;
	return 0;
}

static int parse_ring(const char *text, uint32_t *ring, struct error *error)
{
	uint64_t value;

	if (parse_number(text, "ring", RETRANSMISSION_MIN, RETRANSMISSION_MAX, &value, error))
		return -EINVAL;
	if (value & (value - 1))
		return error_set(error, EINVAL,
				 "ring is %s packets, expected a power of two from 16 to 32768",
				 text);
	*ring = (uint32_t)value;
	return 0;
}

static int parse_choice(const char *text, const char *what, const char *no, const char *yes,
			bool *chosen, struct error *error)
{
	*chosen = !strcmp(text, yes);
	if (*chosen || !strcmp(text, no))
		return 0;
	return error_set(error, EINVAL, "%s is '%s', expected %s or %s", what, text, no, yes);
}

static int parse_range(const char *text, const char *what, uint64_t lowest, uint64_t highest,
		       uint32_t *number, struct error *error)
{
	uint64_t value;
	int err = parse_number(text, what, lowest, highest, &value, error);

	if (!err)
		*number = (uint32_t)value;
	return err;
}

static int parse_value(struct send_options *options, int key, const char *text, struct error *error)
{
	struct sender_options *sender = &options->sender;

	switch (key) {
	case OPTION_TO:
		return parse_host(options, text, "--to", &peer_xdp2roce, error);
	case OPTION_CONNECT:
		return parse_connect(options, text, error);
	case OPTION_STREAMS:
		return parse_range(text, "streams", 1, WORKER_STREAMS, &options->streams, error);
	case OPTION_QUEUE:
		return parse_range(text, "queue", 0, 65535, &sender->queue, error);
	case OPTION_MESSAGE_SIZE:
		return parse_size(text, &options->message_size, error);
	case OPTION_MESSAGES:
		return parse_number(text, "messages", 1, UINT64_MAX >> 32, &options->messages,
				    error);
	case OPTION_SEED:
		return parse_number(text, "seed", 0, UINT64_MAX, &options->seed, error);
	case OPTION_SIZE:
		return parse_size(text, &options->stream_bytes, error);
	case OPTION_TRANSPORT:
		return parse_choice(text, "transport", "rc", "uc", &sender->uc, error);
	case OPTION_IMMEDIATE:
		options->immediate = true;
		return parse_choice(text, "immediate", "off", "on", &sender->immediate, error);
	case OPTION_SEGMENTATION:
		options->segmentation = true;
		return parse_choice(text, "segmentation", "message", "packet", &sender->packet_mode,
				    error);
	case OPTION_RECORD:
		options->record = true;
		return parse_choice(text, "record", "off", "on", &sender->record, error);
	case OPTION_DSCP:
		return parse_range(text, "dscp", 0, 63, &sender->dscp, error);
	case OPTION_ECN:
		return parse_range(text, "ecn", 0, 3, &sender->ecn, error);
	case OPTION_TTL:
		return parse_range(text, "ttl", 1, 255, &sender->ttl, error);
	case OPTION_VLAN_ID:
		return parse_range(text, "vlan-id", 1, FRAMER_VLAN_MAX, &sender->vlan_id, error);
	case OPTION_VLAN_PCP:
		return parse_range(text, "vlan-pcp", 0, 7, &sender->vlan_pcp, error);
	case OPTION_PMTU:
		return parse_pmtu(text, &sender->pmtu, error);
	case OPTION_RING:
		return parse_ring(text, &sender->ring, error);
	case OPTION_ACK_TIMEOUT:
		return parse_duration(text, &sender->ack_timeout, error);
	case OPTION_RETRY:
		return parse_range(text, "retry", 0, 7, &sender->retry, error);
	case OPTION_RNR_RETRY:
		return parse_range(text, "rnr-retry", 0, 7, &sender->rnr_retry, error);
	case OPTION_START_PSN:
		sender->fixed_start_psn = true;
		return parse_range(text, "start-psn", 0, ROCE_PSN_MASK, &sender->start_psn, error);
	}
	return 0;
}

static void add_source(struct argp_state *state, struct send_options *options, const char *path)
{
	if (options->sender.source_count == WORKER_STREAMS)
		argp_error(state, "more than %u sources", WORKER_STREAMS);
	options->sources[options->sender.source_count++].path = path;
}

/* What the receiver cannot take is refused when it was asked for, and left out when not. */
static void check_peer(struct argp_state *state, struct send_options *options)
{
	struct sender_options *sender = &options->sender;

	if (!sender->peer) {
		argp_error(state, "--to HOST is missing: name the receiver");
		return;
	}
	if (!sender->peer->takes_immediate && options->immediate && sender->immediate)
		argp_error(state, "%s:// takes no immediates: leave --immediate out",
			   sender->peer->scheme);
	sender->immediate &= sender->peer->takes_immediate;
	if (!sender->peer->takes_record && (sender->packet_mode || sender->record))
		argp_error(state,
			   "%s:// takes whole messages without a record: leave --segmentation and "
			   "--record out",
			   sender->peer->scheme);
	if (sender->peer->takes_writes)
		return;
	if (options->pattern || sender->source_count)
		argp_error(state, "%s:// takes no RDMA Writes: name no source",
			   sender->peer->scheme);
	options->pattern = true;
	options->messages = options->streams = 1;
	options->message_size = 0;
}

/*
 * UC in message mode loses a whole message with one packet, and may not find it; so packet mode is
 * its default, and with it the record, without which no receiver could tell what is right.
 */
static void choose_segmentation(struct send_options *options)
{
	struct sender_options *sender = &options->sender;

	if (!sender->uc || !sender->peer->takes_record)
		return;
	if (!options->segmentation)
		sender->packet_mode = sender->record || !options->record;
	if (!options->record)
		sender->record = sender->packet_mode;
}

static void check_complete(struct argp_state *state, struct send_options *options)
{
	uint32_t count = options->sender.source_count;

	check_peer(state, options);
	choose_segmentation(options);
	if (options->sender.vlan_pcp && !options->sender.vlan_id)
		argp_error(state, "--vlan-pcp is of the tag that --vlan-id adds: give both");
	if (options->pattern && count)
		argp_error(state, "--pattern and SOURCE exclude each other");
	if (!options->pattern && !count)
		argp_error(state,
			   "nothing to send: name a file, - for standard input, or --pattern");
	if (options->message_size > ROCE_MAX_MESSAGE)
		argp_error(state, "message-size is %llu bytes, expected at most 2 GiB",
			   (unsigned long long)options->message_size);
	if (!options->message_size && !options->pattern)
		argp_error(state, "message-size 0 makes sense with --pattern only");
	if (!options->pattern && options->streams)
		argp_error(state, "--streams is for --pattern: each SOURCE is a stream");
	if (options->pattern)
		options->sender.source_count = options->streams ? options->streams : 1;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct send_options *options = state->input;
	struct error error;

	switch (key) {
	case OPTION_PATTERN:
		options->pattern = true;
		return 0;
	case OPTION_JSON:
		options->json = true;
		return 0;
	case OPTION_QUIET:
		options->quiet = true;
		return 0;
	case OPTION_INTERFACE:
		options->sender.interface = text;
		return 0;
	case ARGP_KEY_ARG:
		add_source(state, options, text);
		return 0;
	case ARGP_KEY_END:
		check_complete(state, options);
		return 0;
	}
	for (const struct argp_option *entry = entries; entry->name; entry++) {
		if (entry->key != key)
			continue;
		if (parse_value(options, key, text, &error))
			argp_error(state, "%s", error.text);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static void fill_sources(struct send_options *options)
{
	for (uint32_t i = 0; i < options->sender.source_count; i++) {
		struct source_config *source = &options->sources[i];

		source->message_size = options->message_size;
		source->messages = options->messages;
		source->seed = options->seed + i;
		source->stream_bytes = options->stream_bytes;
		source->open_ended = options->sender.packet_mode && options->sender.record;
	}
	options->sender.sources = options->sources;
}

void send_options_parse(struct send_options *options, int argc, char **argv)
{
	static const struct argp argp = {
		.options = entries,
		.parser = parse_option,
		.args_doc = usage_text,
		.doc = help_text,
	};
	static char name[] = "xdp2roce send"; /* what help and complaints call it */

	*options = (struct send_options){
		.message_size = 1u << 20,
		.messages = 64,
		.sender = {
			.immediate = true,
			.ring = 256,
			.ack_timeout = 67108864,
			.retry = 7,
			.rnr_retry = RNR_RETRY_FOREVER,
			.ttl = 64,
		},
	};
	argv[0] = name;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, options);
	fill_sources(options);
}
