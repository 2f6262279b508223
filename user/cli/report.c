/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

#include <json-c/json.h>
#include <string.h>
#include <sys/ioctl.h>

struct totals {
	uint64_t bytes, total_bytes, messages, frames, retransmitted, timeouts, rnr_naks;
	bool total_known;
	double seconds;
};

static struct totals sum(const struct sender *sender)
{
	uint64_t end = sender->finished ? sender->finished : worker_now();
	struct totals totals = {
		.total_known = true,
		.seconds = (double)(end - sender->started) / 1e9,
	};

	for (uint32_t i = 0; i < sender->stream_count; i++) {
		const struct sender_stream *stream = &sender->streams[i];

		totals.bytes += stream->status.bytes;
		totals.total_bytes += stream->total_bytes;
		totals.total_known &= stream->total_bytes != 0;
		totals.messages += stream->status.messages;
		totals.frames += stream->status.frames;
		totals.retransmitted += stream->status.retransmitted_frames;
		totals.timeouts += stream->status.timeouts;
		totals.rnr_naks += stream->status.rnr_naks;
	}
	return totals;
}

/* "12.3 MiB" */
static const char *size_text(uint64_t bytes, char text[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit < 4) {
		value /= 1024;
		unit++;
	}
	snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return text;
}

/* Payload rate: "1.23 Gbit/s". */
static const char *rate_text(uint64_t bytes, double seconds, char text[32])
{
	double bits = seconds > 0 ? (double)bytes * 8 / seconds : 0;

	if (bits >= 1e9)
		snprintf(text, 32, "%.2f Gbit/s", bits / 1e9);
	else if (bits >= 1e6)
		snprintf(text, 32, "%.1f Mbit/s", bits / 1e6);
	else
		snprintf(text, 32, "%.1f kbit/s", bits / 1e3);
	return text;
}

void report_setup(FILE *out, const struct sender *sender)
{
	const struct sender_options *options = sender->options;
	const struct xdp_program *program = &sender->program;
	char size[32];

	fprintf(out, "%s: XDP program ack_processor, id %u, %s mode", sender->route.interface,
		program->program_id, program->native ? "native" : "generic");
	if (!program->native)
		fprintf(out, " (native refused: %s)", program->native_refused);
	fprintf(out,
		"\n%s: AF_XDP on queue %u, copy mode; %u stream%s%s%s%s, PMTU %u, ring %u "
		"packets, %s of UMEM\n",
		sender->route.interface, options->queue, sender->stream_count,
		sender->stream_count == 1 ? "" : "s", options->uc ? ", UC" : "",
		options->packet_mode ? ", packet mode" : "",
		options->record ? ", with records" : "", sender->pmtu, options->ring,
		size_text(sender->worker.umem_bytes, size));
	fflush(out);
}

static void time_left_text(const struct totals *totals, char text[32])
{
	double rate = totals->seconds > 0 ? (double)totals->bytes / totals->seconds : 0;
	double left;

	if (!totals->total_known || totals->bytes > totals->total_bytes || rate <= 0) {
		snprintf(text, 32, "time left unknown");
		return;
	}
	left = (double)(totals->total_bytes - totals->bytes) / rate;
	if (left >= 3600)
		snprintf(text, 32, "%u h %02u min left", (unsigned int)left / 3600,
			 (unsigned int)left / 60 % 60);
	else if (left >= 60)
		snprintf(text, 32, "%u min %02u s left", (unsigned int)left / 60,
			 (unsigned int)left % 60);
	else
		snprintf(text, 32, "%.0f s left", left);
}

void report_progress(FILE *out, const struct sender *sender)
{
	struct totals totals = sum(sender);
	char done[32], whole[32], rate[32], left[32], line[256];
	struct winsize window = { .ws_col = 80 };
	int length;

	size_text(totals.bytes, done);
	size_text(totals.total_bytes, whole);
	time_left_text(&totals, left);
	length = snprintf(line, sizeof(line), "%s%s%s  %s  %llu retransmitted  %s", done,
			  totals.total_known ? " of " : "", totals.total_known ? whole : "",
			  rate_text(totals.bytes, totals.seconds, rate),
			  (unsigned long long)totals.retransmitted, left);
	ioctl(fileno(out), TIOCGWINSZ, &window);
	if (window.ws_col && length >= window.ws_col)
		line[window.ws_col - 1] = 0;
	fprintf(out, "\r%s\033[K", line);
	fflush(out);
}

void report_clear(FILE *out)
{
	fprintf(out, "\r\033[K");
}

static void summarize_stream(FILE *out, const struct sender_stream *stream, bool uc)
{
	const struct stream_status *status = &stream->status;
	char size[32];

	if (stream->refused) {
		fprintf(out,
			"queue pair 0x%06x answered PSN 0x%06x with NAK 0x%02x: both are "
			"connected; "
			"it takes no RDMA Writes, which ends the test\n",
			stream->answer.qpn, status->error.psn, status->error.syndrome);
		return;
	}
	fprintf(out, "%s: %llu message%s, %s %s", stream->name,
		(unsigned long long)status->messages, status->messages == 1 ? "" : "s",
		size_text(status->bytes, size), uc ? "sent" : "delivered");
	if (status->short_messages)
		fprintf(out, ", %llu filled with zeros",
			(unsigned long long)status->short_messages);
	if (stream->phase == SENDER_FAILED)
		fprintf(out, "\n%s: FAILED: %s", stream->name, stream->error.text);
	if (stream->phase == SENDER_FAILED && status->started_messages > status->messages)
		fprintf(out, "\n%s: %llu message%s of unknown fate", stream->name,
			(unsigned long long)(status->started_messages - status->messages),
			status->started_messages - status->messages == 1 ? "" : "s");
	fprintf(out, "\n");
}

void report_summary(FILE *out, const struct sender *sender)
{
	struct totals totals = sum(sender);
	char size[32], rate[32];

	for (uint32_t i = 0; i < sender->stream_count; i++)
		summarize_stream(out, &sender->streams[i], sender->options->uc);
	fprintf(out,
		"%s in %.2f s, %s of payload; %llu frames, %llu of them retransmitted, %llu "
		"timeouts, %llu RNR NAKs\n",
		size_text(totals.bytes, size), totals.seconds,
		rate_text(totals.bytes, totals.seconds, rate), (unsigned long long)totals.frames,
		(unsigned long long)totals.retransmitted, (unsigned long long)totals.timeouts,
		(unsigned long long)totals.rnr_naks);
}

static void add_count(struct json_object *object, const char *name, uint64_t value)
{
	json_object_object_add(object, name, json_object_new_uint64(value));
}

static const char *const states[] = { "reset", "ready", "sending", "error" };

static struct json_object *json_error(const struct sender_stream *stream)
{
	const struct requester_error *qp = &stream->status.error;
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "text", json_object_new_string(stream->error.text));
	if (qp->failure == REQUESTER_OK)
		return object;
	add_count(object, "psn", qp->psn);
	add_count(object, "tries", qp->tries);
	if (qp->syndrome <= 0xFF)
		add_count(object, "syndrome", qp->syndrome);
	return object;
}

static struct json_object *json_stream(const struct sender_stream *stream)
{
	const struct stream_status *status = &stream->status;
	struct json_object *object = json_object_new_object();
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{ "una_psn", status->una_psn },
		{ "next_psn", status->next_psn },
		{ "msn", status->msn },
		{ "messages", status->messages },
		{ "bytes", status->bytes },
		{ "frames", status->frames },
		{ "retransmitted_frames", status->retransmitted_frames },
		{ "short_messages", status->short_messages },
		{ "acks", status->acks },
		{ "naks", status->naks },
		{ "rnr_naks", status->rnr_naks },
		{ "cnps", status->cnps },
		{ "timeouts", status->timeouts },
		{ "stale_acks", status->stale_acks },
		{ "rnr_wait_ns", status->rnr_wait_ns },
		{ "credit_wait_ns", status->credit_wait_ns },
		{ "window_wait_ns", status->window_wait_ns },
		{ "source_wait_ns", status->source_wait_ns },
	};

	json_object_object_add(object, "name", json_object_new_string(stream->name));
	json_object_object_add(object, "delivered",
			       json_object_new_boolean(stream->phase == SENDER_FINISHED &&
						       !stream->refused));
	json_object_object_add(object, "state", json_object_new_string(states[status->state]));
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		add_count(object, counts[i].name, counts[i].value);
	if (stream->phase == SENDER_FAILED || stream->refused)
		json_object_object_add(object, "error", json_error(stream));
	return object;
}

/* The XDP program's own counts, over all streams. */
static struct json_object *json_counters(const struct xdp_counters *counters)
{
	struct json_object *object = json_object_new_object();
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{ "acks", counters->acks },
		{ "naks", counters->naks },
		{ "cnps", counters->cnps },
		{ "stale_acks", counters->stale_acks },
		{ "invalid_psn", counters->invalid_psn },
		{ "bad_icrc", counters->bad_icrc },
		{ "bad_opcode", counters->bad_opcode },
		{ "bad_length", counters->bad_length },
		{ "bad_header", counters->bad_header },
		{ "stale_generation", counters->stale_generation },
		{ "contended", counters->contended },
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		add_count(object, counts[i].name, counts[i].value);
	return object;
}

void report_json(FILE *out, const struct sender *sender)
{
	struct totals totals = sum(sender);
	struct json_object *object = json_object_new_object();
	struct json_object *streams = json_object_new_array();
	struct xdp_counters counters;

	json_object_object_add(object, "interface",
			       json_object_new_string(sender->route.interface));
	json_object_object_add(object, "xdp_mode",
			       json_object_new_string(sender->program.native ? "native"
									     : "generic"));
	add_count(object, "xdp_program_id", sender->program.program_id);
	add_count(object, "pmtu", sender->pmtu);
	json_object_object_add(object, "transport",
			       json_object_new_string(sender->options->uc ? "uc" : "rc"));
	json_object_object_add(object, "segmentation",
			       json_object_new_string(sender->options->packet_mode ? "packet"
										   : "message"));
	json_object_object_add(object, "record", json_object_new_boolean(sender->options->record));
	json_object_object_add(object, "seconds", json_object_new_double(totals.seconds));
	add_count(object, "bytes", totals.bytes);
	if (!xdp_program_counters(&sender->program, &counters))
		json_object_object_add(object, "xdp", json_counters(&counters));
	for (uint32_t i = 0; i < sender->stream_count; i++)
		json_object_array_add(streams, json_stream(&sender->streams[i]));
	json_object_object_add(object, "streams", streams);
	fprintf(out, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
	fflush(out);
	json_object_put(object);
}
