/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"

#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "peer.h"
#include "report.h"
#include "sender.h"
#include "units.h"

#define POLL_MS 20
#define PROGRESS_NS 200000000u
#define DRAIN_NS 5000000000u

struct send_options {
	struct sender_options sender;
	struct source_config sources[WORKER_STREAMS];
	char host[256];
	const char *named_by;                 /* --to or --connect */
	bool pattern, immediate, json, quiet; /* immediate: asked for by name */
	uint64_t message_size, messages, seed, stream_bytes;
	uint32_t streams; /* of the pattern */
};

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
};

static const struct argp_option entries[] = {
	{ "to", OPTION_TO, "HOST[:PORT]", 0, "The receiver (port 18515 by default)", 1 },
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
	{ "json", OPTION_JSON, 0, 0, "Print the result as one JSON object on standard output", 4 },
	{ "quiet", OPTION_QUIET, 0, 0, "No progress, no summary; errors only", 4 },
	{ 0 },
};

static const char usage_text[] = "SOURCE…\n--pattern";
static const char help_text[] =
	"Streams each SOURCE (a file, a FIFO, or - for standard input) into the memory of a "
	"receiver "
	"with RDMA Writes over a reliable connection."
	"\vEach SOURCE is a stream of its own, with its own queue pair. The receiver is "
	"`xdp2roce recv --soft` on another host or in another network namespace.\n\n"
	"Example: xdp2roce send --to 192.0.2.2 scan.raw\n\n"
	"perftest: each stream is a queue pair of the server, which needs -q with their number and "
	"-s with the message size (or more); -c UC for --transport uc. PMTU is the smaller one of "
	"both ends. All messages go to the same memory, without immediates; the server prints our "
	"figures, in MiB/s and without a peak.\n\n"
	"Example: ib_write_bw -q 4 -s 1048576 -x 1 on the host 192.0.2.2, then\n"
	"xdp2roce send --connect perftest://192.0.2.2 --pattern --streams 4\n\n"
	"pingpong: the handshake, then one empty RDMA Write. The server takes Sends only: with RC "
	"its "
	"refusal proves that both queue pairs are connected, and ends it; UC has no answers.";

/* HOST, HOST:PORT; an IPv6 address would have more colons and is left to name resolution to refuse.
 */
static int parse_host(struct send_options *options, const char *text, const char *option,
		      const struct peer *peer, struct error *error)
{
	const char *colon = strchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	uint64_t port = peer->port;

	if (options->named_by && strcmp(options->named_by, option))
		return error_set(error, EINVAL, "--to and --connect exclude each other");
	if (colon && strchr(colon + 1, ':'))
		return error_set(error, EINVAL,
				 "%s %s: expected HOST or HOST:PORT with an IPv4 address or a name",
				 option, text);
	if (!length || length >= sizeof(options->host))
		return error_set(error, EINVAL, "%s: expected HOST or HOST:PORT, found '%s'",
				 option, text);
	if (colon && parse_number(colon + 1, "port", 1, 65535, &port, error))
		return -EINVAL;
	memcpy(options->host, text, length);
	options->host[length] = 0;
	options->sender.host = options->host;
	options->sender.port = (uint16_t)port;
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

static int parse_small(const char *text, const char *what, uint64_t highest, uint32_t *number,
		       struct error *error)
{
	uint64_t value;
	int err = parse_number(text, what, 0, highest, &value, error);

	if (!err)
		*number = (uint32_t)value;
	return err;
}

static int parse_streams(const char *text, uint32_t *streams, struct error *error)
{
	uint64_t value;
	int err = parse_number(text, "streams", 1, WORKER_STREAMS, &value, error);

	if (!err)
		*streams = (uint32_t)value;
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
		return parse_streams(text, &options->streams, error);
	case OPTION_QUEUE:
		return parse_small(text, "queue", 65535, &sender->queue, error);
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
	case OPTION_PMTU:
		return parse_pmtu(text, &sender->pmtu, error);
	case OPTION_RING:
		return parse_ring(text, &sender->ring, error);
	case OPTION_ACK_TIMEOUT:
		return parse_duration(text, &sender->ack_timeout, error);
	case OPTION_RETRY:
		return parse_small(text, "retry", 7, &sender->retry, error);
	case OPTION_RNR_RETRY:
		return parse_small(text, "rnr-retry", 7, &sender->rnr_retry, error);
	case OPTION_START_PSN:
		sender->fixed_start_psn = true;
		return parse_small(text, "start-psn", ROCE_PSN_MASK, &sender->start_psn, error);
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
	if (sender->peer->takes_writes)
		return;
	if (options->pattern || sender->source_count)
		argp_error(state, "%s:// takes no RDMA Writes: name no source",
			   sender->peer->scheme);
	options->pattern = true;
	options->messages = options->streams = 1;
	options->message_size = 0;
}

static void check_complete(struct argp_state *state, struct send_options *options)
{
	uint32_t count = options->sender.source_count;

	check_peer(state, options);
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
	}
	options->sender.sources = options->sources;
}

/* Signals are taken at one place: threads that are started later inherit the mask. */
static int take_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool signalled(int signals, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = signals, .events = POLLIN };
	struct signalfd_siginfo info;

	return poll(&poll_fd, 1, timeout_ms) > 0 && read(signals, &info, sizeof(info)) > 0;
}

/* Until every stream has ended. The first signal drains, the second ends at once. */
static void stream_all(struct sender *sender, int signals, bool progress)
{
	uint64_t shown = worker_now(), drain_end = UINT64_MAX;

	while (sender_poll(sender)) {
		uint64_t now = worker_now();

		if (progress && now - shown >= PROGRESS_NS) {
			report_progress(stderr, sender);
			shown = now;
		}
		if (now >= drain_end) {
			sender_stop(sender);
			break;
		}
		if (!signalled(signals, POLL_MS))
			continue;
		if (sender->draining) {
			sender_stop(sender);
			break;
		}
		sender_drain(sender);
		drain_end = now + DRAIN_NS;
	}
	if (progress)
		report_clear(stderr);
}

static bool all_delivered(const struct sender *sender)
{
	for (uint32_t i = 0; i < sender->stream_count; i++)
		if (sender->streams[i].phase != SENDER_FINISHED)
			return false;
	return true;
}

static void report_failures(const struct sender *sender)
{
	for (uint32_t i = 0; i < sender->stream_count; i++)
		if (sender->streams[i].phase == SENDER_FAILED)
			fprintf(stderr, "xdp2roce send: %s: %s\n", sender->streams[i].name,
				sender->streams[i].error.text);
}

static bool run(struct sender *sender, const struct send_options *options, int signals,
		struct error *error)
{
	if (!options->quiet)
		report_setup(stderr, sender);
	if (sender_start(sender, error)) {
		fprintf(stderr, "xdp2roce send: %s\n", error->text);
		return false;
	}
	stream_all(sender, signals, !options->quiet && isatty(STDERR_FILENO));
	if (options->json)
		report_json(stdout, sender);
	if (options->quiet)
		report_failures(sender);
	else
		report_summary(stderr, sender);
	return all_delivered(sender);
}

int send_main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = entries,
		.parser = parse_option,
		.args_doc = usage_text,
		.doc = help_text,
	};
	static struct send_options options = {
		.message_size = 1u << 20,
		.messages = 64,
		.sender = {
			.immediate = true,
			.ring = 256,
			.ack_timeout = 67108864,
			.retry = 7,
			.rnr_retry = RNR_RETRY_FOREVER,
		},
	};
	static char name[] = "xdp2roce send";
	struct sender sender;
	struct error error = { "" };
	int signals;
	bool delivered;

	argv[0] = name;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	fill_sources(&options);

	signals = take_signals();
	if (sender_open(&sender, &options.sender, &error)) {
		fprintf(stderr, "xdp2roce send: %s\n", error.text);
		delivered = false;
	} else {
		delivered = run(&sender, &options, signals, &error);
	}
	sender_close(&sender);
	close(signals);
	return delivered ? 0 : 1;
}
