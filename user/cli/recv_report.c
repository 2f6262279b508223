/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "recv.h"

struct figure {
	const char *name;
	uint64_t value;
};

static void add_figures(json_object *object, const struct figure *figures)
{
	for (; figures->name; figures++)
		json_object_object_add(object, figures->name,
				       json_object_new_uint64(figures->value));
}

static void report_json(const struct recv_stream *stream, const struct figure *figures,
			const struct figure *faults)
{
	json_object *object = json_object_new_object(), *injected = json_object_new_object();

	json_object_object_add(object, "name", json_object_new_string(stream->offer.name));
	json_object_object_add(object, "peer", json_object_new_string(stream->peer));
	json_object_object_add(object, "transport",
			       json_object_new_string(stream->offer.uc ? "uc" : "rc"));
	json_object_object_add(object, "state",
			       json_object_new_string(stream->complete ? "complete" : "failed"));
	if (!stream->complete)
		json_object_object_add(object, "error", json_object_new_string(stream->error.text));
	json_object_object_add(object, "qp_error",
			       json_object_new_boolean(stream->report.state == RESPONDER_ERROR));
	json_object_object_add(object, "seconds", json_object_new_double(stream->seconds));
	add_figures(object, figures);
	add_figures(injected, faults);
	json_object_object_add(object, "faults", injected);
	printf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
	fflush(stdout);
	json_object_put(object);
}

/* Only what is not zero: a clean transfer has a short report. */
static size_t append_figures(char *text, size_t size, size_t used, const struct figure *figures)
{
	for (; figures->name && used < size; figures++) {
		char name[32];

		if (!figures->value)
			continue;
		snprintf(name, sizeof(name), "%s", figures->name);
		for (char *c = name; *c; c++)
			*c = *c == '_' ? ' ' : *c;
		used += (size_t)snprintf(text + used, size - used, ", %" PRIu64 " %s",
					 figures->value, name);
	}
	return used;
}

static void report_text(const struct recv_stream *stream, const struct figure *figures,
			const struct figure *faults)
{
	char text[1024] = "";
	size_t used = append_figures(text, sizeof(text), 0, figures);

	append_figures(text, sizeof(text), used, faults);
	fprintf(stderr, "xdp2roce recv: %s from %s %s in %.3f s (%.3f Gbit/s)%s\n",
		stream->offer.name, stream->peer, stream->complete ? "complete" : "FAILED",
		stream->seconds,
		stream->seconds > 0 ? (double)stream->report.counters.bytes * 8e-9 / stream->seconds
				    : 0.0,
		text);
}

void recv_report(const struct recv_stream *stream)
{
	const struct soft_report *report = &stream->report;
	const struct responder_counters *counters = &report->counters;
	const struct figure figures[] = {
		{ "messages", counters->messages },
		{ "bytes", counters->bytes },
		{ "frames", counters->frames },
		{ "acks", counters->acks },
		{ "naks", counters->naks },
		{ "rnr_naks", counters->rnr_naks },
		{ "gaps", counters->gaps },
		{ "duplicates", counters->duplicates },
		{ "bad_icrc", counters->bad_icrc },
		{ "bad_frames", counters->bad_frames },
		{ "dropped_frames", counters->dropped },
		{ "lost_messages", stream->lost_messages },
		{ "ring_drops", report->ring_drops },
		{ "send_errors", report->send_errors },
		{ "foreign_frames", report->foreign_frames },
		{ NULL, 0 },
	};
	const struct figure faults[] = {
		{ "dropped", report->faults.dropped },
		{ "duplicated", report->faults.duplicated },
		{ "reordered", report->faults.reordered },
		{ "corrupted", report->faults.corrupted },
		{ "delayed", report->faults.delayed },
		{ "dropped_replies", report->faults.dropped_replies },
		{ "corrupted_replies", report->faults.corrupted_replies },
		{ "withheld", report->faults.withheld },
		{ NULL, 0 },
	};

	if (stream->shared->options.json)
		report_json(stream, figures, faults);
	else
		report_text(stream, figures, faults);
	if (!stream->complete)
		fprintf(stderr, "xdp2roce recv: %s\n", stream->error.text);
}
