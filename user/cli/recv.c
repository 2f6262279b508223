/* SPDX-License-Identifier: BSD-2-Clause */
#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../connect/guard.h"
#include "commands.h"
#include "faults_option.h"
#include "recv.h"
#include "units.h"

#define ACCEPT_PAUSE_MS 100
#define DEFAULT_SLOTS 16
#define DEFAULT_MEMORY (1ull << 30)
#define DEFAULT_RNR_TIMER 12 /* 0.64 ms, what most programs use */

enum {
	OPTION_SOFT = 256,
	OPTION_LISTEN,
	OPTION_OUTPUT,
	OPTION_STREAMS,
	OPTION_SLOTS,
	OPTION_SLOT_SIZE,
	OPTION_MEMORY,
	OPTION_CREDITS,
	OPTION_RNR_TIMER,
	OPTION_FAULTS,
	OPTION_SEED,
	OPTION_READER_DELAY,
	OPTION_TIMEOUT,
	OPTION_JSON,
};

static const struct argp_option option_table[] = {
	{ "soft", OPTION_SOFT, NULL, 0, "Receive in software: no RDMA device is needed", 0 },
	{ "listen", OPTION_LISTEN, "ADDR[:PORT]", 0,
	  "Accept senders here (all addresses, port 18515)", 0 },
	{ "output", OPTION_OUTPUT, "PATH", 0,
	  "Write payload to this file, to a new file in this directory named by the sender, or to "
	  "standard output (-); without it payload is counted and discarded",
	  0 },
	{ "streams", OPTION_STREAMS, "N", 0,
	  "Exit after N streams (1); 0 goes on until interrupted", 0 },
	{ "slots", OPTION_SLOTS, "N", 0, "Slots of each stream, 2 to 65536 (16)", 0 },
	{ "slot-size", OPTION_SLOT_SIZE, "SIZE", 0,
	  "Size of a slot (the sender's largest message, rounded up to 4096)", 0 },
	{ "memory", OPTION_MEMORY, "SIZE", 0, "Limit for the slots of all streams (1GiB)", 0 },
	{ "credits", OPTION_CREDITS, "WHAT", 0,
	  "Credits in acknowledgements: posted (default: receives that are posted), unlimited, or "
	  "a code 0 to 30",
	  0 },
	{ "rnr-timer", OPTION_RNR_TIMER, "CODE", 0,
	  "How long a sender waits when no receive is posted: 1 is 0.01 ms, 12 is 0.64 ms "
	  "(default), 20 is 10 ms, 31 is 492 ms, 0 is 655 ms; two codes up double it",
	  0 },
	{ "faults", OPTION_FAULTS, "SPEC", 0,
	  "Inject faults, such as drop=1%,duplicate=0.5%,reorder=2%,corrupt=0.1%,delay=1%:3ms, "
	  "drop-frame=17 (the 17th that arrives), drop-reply=3, drop-replies=5%, "
	  "corrupt-replies=1%, withhold=20ms:4 (no receive for 20 ms after every 4th message)",
	  0 },
	{ "seed", OPTION_SEED, "N", 0, "Seed of the faults (0): the same seed, the same faults",
	  0 },
	{ "reader-delay", OPTION_READER_DELAY, "TIME", 0,
	  "Wait so long before each slot is released: a slow reader", 0 },
	{ "timeout", OPTION_TIMEOUT, "TIME", 0,
	  "Give up when no stream finishes for so long (0: never)", 0 },
	{ "json", OPTION_JSON, NULL, 0, "Report each stream as one JSON object on standard output",
	  0 },
	{ 0 },
};

/* ADDR, ADDR:PORT, :PORT, [IPv6]:PORT; an IPv6 address without brackets has no port. */
static int parse_listen(const char *text, struct recv_options *options, struct error *error)
{
	const char *host = text, *port = strrchr(text, ':');
	size_t length;
	uint64_t number;
	int rc;

	if (*text == '[') {
		const char *end = strchr(text, ']');

		if (!end || (end[1] && end[1] != ':'))
			return error_set(error, EINVAL, "'%s' is not [ADDR]:PORT", text);
		host = text + 1;
		length = (size_t)(end - host);
		port = end[1] ? end + 1 : NULL;
	} else {
		if (port && strchr(text, ':') != port)
			port = NULL;
		length = port ? (size_t)(port - text) : strlen(text);
	}
	if (length >= sizeof(options->host))
		return error_set(error, EINVAL, "the address to listen at is too long");
	memcpy(options->host, host, length);
	options->host[length] = 0;
	if (!port)
		return 0;
	rc = parse_number(port + 1, "the port", 0, 65535, &number, error);
	options->port = (uint16_t)number;
	return rc;
}

static int parse_credits(const char *text, uint8_t *credits, struct error *error)
{
	uint64_t code;
	int rc;

	if (!strcmp(text, "posted")) {
		*credits = RESPONDER_CREDITS_POSTED;
		return 0;
	}
	if (!strcmp(text, "unlimited")) {
		*credits = ROCE_CREDITS_UNLIMITED;
		return 0;
	}
	rc = parse_number(text, "--credits: posted, unlimited, or a code that", 0,
			  ROCE_CREDITS_UNLIMITED - 1, &code, error);
	*credits = (uint8_t)code;
	return rc;
}

static int parse_value(int key, char *text, struct recv_options *options, struct error *error)
{
	uint64_t number = 0;
	int rc = 0;

	switch (key) {
	case OPTION_LISTEN:
		return parse_listen(text, options, error);
	case OPTION_STREAMS:
		return parse_number(text, "--streams", 0, UINT64_MAX, &options->streams, error);
	case OPTION_SLOTS:
		rc = parse_number(text, "--slots", 2, 65536, &number, error);
		options->slots = (uint32_t)number;
		return rc;
	case OPTION_SLOT_SIZE:
		rc = parse_size(text, &options->slot_size, error);
		if (!rc && (!options->slot_size || options->slot_size % 64 ||
			    options->slot_size > ROCE_MAX_MESSAGE))
			rc = error_set(error, EINVAL,
				       "--slot-size must be a multiple of 64 of at most 2GiB");
		return rc;
	case OPTION_MEMORY:
		return parse_size(text, &options->memory, error);
	case OPTION_CREDITS:
		return parse_credits(text, &options->credits, error);
	case OPTION_RNR_TIMER:
		rc = parse_number(text, "--rnr-timer", 0, 31, &number, error);
		options->rnr_timer = (uint8_t)number;
		return rc;
	case OPTION_FAULTS:
		return parse_faults(text, &options->faults, error);
	case OPTION_SEED:
		return parse_number(text, "--seed", 0, UINT64_MAX, &options->faults.seed, error);
	case OPTION_READER_DELAY:
		return parse_duration(text, &options->reader_delay_ns, error);
	default:
		return parse_duration(text, &options->timeout_ns, error);
	}
}

static bool is_directory(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISDIR(status.st_mode);
}

static void check_options(const struct recv_options *options, struct argp_state *state)
{
	if (!options->soft)
		argp_error(state, "the libibverbs receiver is not built in yet: add --soft");
	if (options->json && options->output && !strcmp(options->output, "-"))
		argp_error(state, "--json and --output - both want standard output: choose a file "
				  "for the payload");
	if (options->output && options->streams != 1 && !is_directory(options->output))
		argp_error(state,
			   "--output must be a directory when more than one stream is "
			   "received: %s is none",
			   options->output);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct recv_options *options = state->input;
	struct error error;

	switch (key) {
	case OPTION_SOFT:
		options->soft = true;
		return 0;
	case OPTION_JSON:
		options->json = true;
		return 0;
	case OPTION_OUTPUT:
		options->output = text;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option", text);
		return EINVAL;
	case ARGP_KEY_END:
		check_options(options, state);
		return 0;
	}
	if (key < OPTION_SOFT || key > OPTION_JSON)
		return ARGP_ERR_UNKNOWN;
	if (parse_value(key, text, options, &error))
		argp_error(state, "%s", error.text);
	return 0;
}

/* The accept loop. */

struct receiver {
	struct recv_shared shared;
	struct recv_stream *streams; /* whose threads have not been joined */
	int listener;
	int signals;
	int guard;
	uint64_t active;   /* entries of streams */
	uint64_t finished; /* streams that were started and have ended */
	uint64_t failed;
	bool stopping;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void accept_sender(struct receiver *receiver)
{
	struct recv_stream *stream = calloc(1, sizeof(*stream));
	struct error error = { "no memory for a sender" };
	int rc = -ENOMEM;

	if (stream) {
		stream->shared = &receiver->shared;
		rc = stream->connection = exchange_accept(receiver->listener, stream->peer, &error);
	}
	if (rc >= 0)
		rc = recv_stream_start(stream, &error);
	if (rc >= 0) {
		stream->next = receiver->streams;
		receiver->streams = stream;
		receiver->active++;
		return;
	}
	fprintf(stderr, "xdp2roce recv: %s\n", error.text);
	/* The connection may still be waiting: without descriptors or memory this must not spin. */
	poll(NULL, 0, ACCEPT_PAUSE_MS);
	if (stream && stream->connection >= 0)
		close(stream->connection);
	free(stream);
}

/* Joins the threads that have ended and says what came of them. True when a stream was among them.
 */
static bool collect_streams(struct receiver *receiver)
{
	struct recv_stream **link = &receiver->streams, *stream;
	bool any = false;

	while ((stream = *link)) {
		if (!atomic_load(&stream->ended)) {
			link = &stream->next;
			continue;
		}
		pthread_join(stream->thread, NULL);
		*link = stream->next;
		receiver->active--;
		if (stream->started) {
			recv_report(stream);
			receiver->finished++;
			receiver->failed += !stream->complete;
			any = true;
		} else {
			fprintf(stderr, "xdp2roce recv: refused %s: %s\n", stream->peer,
				stream->error.text);
		}
		free(stream);
	}
	return any;
}

static void stop(struct receiver *receiver)
{
	uint64_t one = 1;

	if (receiver->stopping)
		_exit(130);
	receiver->stopping = true;
	if (write(receiver->shared.stop, &one, sizeof(one)) < 0)
		_exit(130);
}

static int milliseconds_until(uint64_t deadline)
{
	uint64_t now = now_ns(), left = deadline > now ? (deadline - now + 999999) / 1000000 : 0;

	return deadline == UINT64_MAX ? -1 : left > 1000000 ? 1000000 : (int)left;
}

/* Waits for one thing to happen and handles it; moves the deadline when a stream has ended. */
static int turn(struct receiver *receiver, uint64_t *deadline, struct error *error)
{
	const struct recv_options *options = &receiver->shared.options;
	bool wanted =
		receiver->active < SOFT_STREAMS && !receiver->stopping &&
		(!options->streams || receiver->active + receiver->finished < options->streams);
	struct pollfd fds[3] = {
		{ .fd = receiver->signals, .events = POLLIN },
		{ .fd = receiver->shared.finished, .events = POLLIN },
		{ .fd = wanted ? receiver->listener : -1, .events = POLLIN },
	};
	struct signalfd_siginfo signal;
	uint64_t count;
	int rc = poll(fds, 3, receiver->stopping ? -1 : milliseconds_until(*deadline));

	if (rc < 0 && errno != EINTR)
		return error_set(error, errno, "cannot wait for senders: %s", strerror(errno));
	if (!rc && !receiver->stopping && now_ns() >= *deadline) {
		return error_set(error, ETIMEDOUT, "no stream finished within %.3f s",
				 (double)options->timeout_ns * 1e-9);
	}
	if (rc <= 0)
		return 0;
	if (fds[0].revents && read(receiver->signals, &signal, sizeof(signal)) > 0)
		stop(receiver);
	if (fds[1].revents && read(receiver->shared.finished, &count, sizeof(count)) > 0 &&
	    collect_streams(receiver) && options->timeout_ns)
		*deadline = now_ns() + options->timeout_ns;
	if (fds[2].revents)
		accept_sender(receiver);
	return 0;
}

static int receive(struct receiver *receiver, struct error *error)
{
	const struct recv_options *options = &receiver->shared.options;
	uint64_t deadline = options->timeout_ns ? now_ns() + options->timeout_ns : UINT64_MAX;
	int result = 0;

	while (!receiver->stopping || receiver->active) {
		int rc = turn(receiver, &deadline, error);

		if (rc && !result)
			result = rc;
		if (rc && !receiver->stopping)
			stop(receiver);
		if (options->streams && receiver->finished >= options->streams)
			break;
	}
	if (result)
		return result;
	if (receiver->failed && options->streams == 1) {
		error->text[0] = 0; /* the stream's own sentence has said it */
		return -EIO;
	}
	if (receiver->failed)
		return error_set(error, EIO, "%" PRIu64 " of %" PRIu64 " streams failed",
				 receiver->failed, receiver->finished);
	if (receiver->finished < options->streams)
		return error_set(error, EINTR,
				 "interrupted after %" PRIu64 " of %" PRIu64 " streams",
				 receiver->finished, options->streams);
	return 0;
}

static int open_receiver(struct receiver *receiver, struct error *error)
{
	const struct recv_options *options = &receiver->shared.options;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	pthread_mutex_init(&receiver->shared.lock, NULL);
	receiver->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	receiver->shared.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	receiver->shared.finished = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (receiver->signals < 0 || receiver->shared.stop < 0 || receiver->shared.finished < 0)
		return error_set(error, errno, "no descriptor for events: %s", strerror(errno));
	receiver->guard = guard_open(error);
	if (receiver->guard < 0 && receiver->guard != -EADDRINUSE)
		return receiver->guard;
	receiver->listener =
		exchange_listen(options->host[0] ? options->host : NULL, options->port, error);
	return receiver->listener < 0 ? receiver->listener : 0;
}

/* Scripts wait for this line. With port 0 it tells the one that was chosen. */
static void announce(const struct receiver *receiver)
{
	const struct recv_options *options = &receiver->shared.options;
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);
	uint16_t port = options->port;

	/* The port is at the same place in both families' addresses. */
	if (!getsockname(receiver->listener, (struct sockaddr *)&address, &length))
		port = ntohs(((struct sockaddr_in *)&address)->sin_port);
	fprintf(stderr,
		strchr(options->host, ':') ? "listening on [%s]:%u\n" : "listening on %s:%u\n",
		options->host[0] ? options->host : "*", port);
	fflush(stderr);
}

static void close_receiver(struct receiver *receiver)
{
	int fds[] = { receiver->listener, receiver->signals, receiver->shared.stop,
		      receiver->shared.finished, receiver->guard };

	for (int i = 0; i < RECV_INTERFACES; i++)
		soft_stop(receiver->shared.interfaces[i].soft);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

int recv_main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.doc = "Receives streams of RDMA Writes, each announced over TCP by its sender.",
	};
	struct receiver receiver = {
		.shared = {
			.options = {
				.port = EXCHANGE_PORT,
				.streams = 1,
				.slots = DEFAULT_SLOTS,
				.memory = DEFAULT_MEMORY,
				.credits = RESPONDER_CREDITS_POSTED,
				.rnr_timer = DEFAULT_RNR_TIMER,
			},
			.stop = -1,
			.finished = -1,
		},
		.listener = -1,
		.signals = -1,
		.guard = -1,
	};
	static char name[] = "xdp2roce recv"; /* what help and complaints call it */
	struct error error = { "" };
	int rc;

	argv[0] = name;
	argp_err_exit_status = 2;
	if (argp_parse(&argp, argc, argv, 0, NULL, &receiver.shared.options))
		return EXIT_FAILURE;
	rc = open_receiver(&receiver, &error);
	if (!rc) {
		announce(&receiver);
		rc = receive(&receiver, &error);
	}
	close_receiver(&receiver);
	if (rc && error.text[0])
		fprintf(stderr, "xdp2roce recv: %s\n", error.text);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
