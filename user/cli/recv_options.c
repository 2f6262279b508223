/* SPDX-License-Identifier: BSD-2-Clause */
#include <argp.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "endpoint.h"
#include "faults_option.h"
#include "recv.h"
#include "units.h"

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
	OPTION_HUGEPAGES,
	OPTION_RNR_TIMER,
	OPTION_DEVICE,
	OPTION_GID_INDEX,
	OPTION_CREDITS,
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
	  "Size of a slot (the sender's largest message, with its record, rounded up to 4096)", 0 },
	{ "memory", OPTION_MEMORY, "SIZE", 0, "Limit for the slots of all streams (1GiB)", 0 },
	{ "hugepages", OPTION_HUGEPAGES, NULL, 0, "Keep the slots in huge pages", 0 },
	{ "rnr-timer", OPTION_RNR_TIMER, "CODE", 0,
	  "How long a sender waits when no receive is posted: 1 is 0.01 ms, 12 is 0.64 ms "
	  "(default), 20 is 10 ms, 31 is 492 ms, 0 is 655 ms; two codes up double it",
	  0 },
	{ "reader-delay", OPTION_READER_DELAY, "TIME", 0,
	  "Wait so long before each slot is released: a slow reader", 0 },
	{ "timeout", OPTION_TIMEOUT, "TIME", 0,
	  "Give up when no stream finishes for so long (0: never)", 0 },
	{ "json", OPTION_JSON, NULL, 0, "Report each stream as one JSON object on standard output",
	  0 },
	{ NULL, 0, NULL, 0, "Of the RDMA device:", 1 },
	{ "device", OPTION_DEVICE, "NAME[:PORT]", 0,
	  "Receive with this one (the one that has the address the sender connects to)", 1 },
	{ "gid-index", OPTION_GID_INDEX, "N", 0,
	  "Receive at this GID of it (the one of that address, RoCE v2)", 1 },
	{ NULL, 0, NULL, 0, "With --soft:", 2 },
	{ "credits", OPTION_CREDITS, "WHAT", 0,
	  "Credits in acknowledgements: posted (default: receives that are posted), unlimited, or "
	  "a code 0 to 30",
	  2 },
	{ "faults", OPTION_FAULTS, "SPEC", 0,
	  "Inject faults, such as drop=1%,duplicate=0.5%,reorder=2%,corrupt=0.1%,delay=1%:3ms, "
	  "drop-frame=17 (the 17th that arrives), drop-reply=3, drop-replies=5%, "
	  "corrupt-replies=1%, withhold=20ms:4 (no receive for 20 ms after every 4th message)",
	  2 },
	{ "seed", OPTION_SEED, "N", 0, "Seed of the faults (0): the same seed, the same faults",
	  2 },
	{ 0 },
};

static int parse_listen(const char *text, struct recv_options *options, struct error *error)
{
	struct endpoint endpoint = { .port = options->port };
	int rc = parse_endpoint(text, &endpoint, error);

	if (rc)
		return rc;
	memcpy(options->host, endpoint.host, sizeof(options->host));
	options->port = endpoint.port;
	return 0;
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

/* NAME or NAME:PORT. */
static int parse_device(const char *text, struct recv_options *options, struct error *error)
{
	size_t length = strcspn(text, ":");
	uint64_t port = 0;
	int rc = 0;

	if (!length || length >= sizeof(options->device))
		return error_set(error, EINVAL, "--device must be NAME or NAME:PORT, such as rxe0");
	if (text[length])
		rc = parse_number(text + length + 1, "the port of the device", 1, 255, &port,
				  error);
	memcpy(options->device, text, length);
	options->device[length] = 0;
	options->device_port = (uint8_t)port;
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
	case OPTION_DEVICE:
		return parse_device(text, options, error);
	case OPTION_GID_INDEX:
		rc = parse_number(text, "--gid-index", 0, 255, &number, error);
		options->gid_index = (int16_t)number;
		return rc;
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
	if (options->soft && (options->device[0] || options->gid_index >= 0))
		argp_error(state, "--device and --gid-index are of an RDMA device, which --soft "
				  "does without");
	if (!options->soft && options->soft_only)
		argp_error(state,
			   "--credits, --faults and --seed need --soft: a device has its own "
			   "credits, and no faults to order");
	if (options->gid_index >= 0 && !options->device[0])
		argp_error(state, "--gid-index needs the --device that it is an index of");
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
	case OPTION_HUGEPAGES:
		options->hugepages = true;
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
	options->soft_only |= key == OPTION_CREDITS || key == OPTION_FAULTS || key == OPTION_SEED;
	if (parse_value(key, text, options, &error))
		argp_error(state, "%s", error.text);
	return 0;
}

int recv_options_parse(struct recv_options *options, int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.doc = "Receives streams of RDMA Writes, each announced over TCP by its sender, "
		       "with an "
		       "RDMA device or, with --soft, without one.",
	};
	static char name[] = "xdp2roce recv"; /* what help and complaints call it */

	*options = (struct recv_options){
		.port = EXCHANGE_PORT,
		.streams = 1,
		.slots = DEFAULT_SLOTS,
		.memory = DEFAULT_MEMORY,
		.credits = RESPONDER_CREDITS_POSTED,
		.rnr_timer = DEFAULT_RNR_TIMER,
		.gid_index = -1,
	};
	argv[0] = name;
	argp_err_exit_status = 2;
	return argp_parse(&argp, argc, argv, 0, NULL, options);
}
