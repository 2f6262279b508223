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

static void add_device(json_object *object, const struct verbs_address *address)
{
	json_object_object_add(object, "device", json_object_new_string(address->device));
	json_object_object_add(object, "port", json_object_new_int(address->port));
	json_object_object_add(object, "gid_index", json_object_new_int(address->gid_index));
}

/* Frames and faults are what the software responder counts; a device keeps its own counters. */
static void report_json(const struct recv_stream *stream, const struct figure *figures,
			const struct figure *responder, const struct figure *faults)
{
	json_object *object = json_object_new_object(), *injected;

	json_object_object_add(object, "name", json_object_new_string(stream->offer.name));
	json_object_object_add(object, "peer", json_object_new_string(stream->peer));
	json_object_object_add(object, "transport",
			       json_object_new_string(stream->offer.uc ? "uc" : "rc"));
	json_object_object_add(object, "segmentation",
			       json_object_new_string(stream->offer.packet_mode ? "packet"
										: "message"));
	json_object_object_add(object, "record", json_object_new_boolean(stream->offer.record));
	json_object_object_add(object, "state",
			       json_object_new_string(stream->complete ? "complete" : "failed"));
	if (!stream->complete)
		json_object_object_add(object, "error", json_object_new_string(stream->error.text));
	json_object_object_add(object, "qp_error", json_object_new_boolean(stream->qp_error));
	json_object_object_add(object, "seconds", json_object_new_double(stream->seconds));
	add_figures(object, figures);
	if (stream->shared->options.soft) {
		injected = json_object_new_object();
		add_figures(object, responder);
		add_figures(injected, faults);
		json_object_object_add(object, "faults", injected);
	} else {
		add_device(object, &stream->verbs);
	}
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
			const struct figure *responder, const struct figure *faults)
{
	char text[1024] = "", device[VERBS_NAME + 32] = "";
	size_t used = append_figures(text, sizeof(text), 0, figures);

	/* All zero when a device received. */
	used = append_figures(text, sizeof(text), used, responder);
	append_figures(text, sizeof(text), used, faults);
	if (!stream->shared->options.soft)
		snprintf(device, sizeof(device), " by %s port %u, GID %u", stream->verbs.device,
			 stream->verbs.port, stream->verbs.gid_index);
	fprintf(stderr, "xdp2roce recv: %s from %s%s%s%s%s %s in %.3f s (%.3f Gbit/s)%s\n",
		stream->offer.name, stream->peer, device, stream->offer.uc ? ", UC" : "",
		stream->offer.packet_mode ? ", packet mode" : "",
		stream->offer.record ? ", with records" : "",
		stream->complete ? "complete" : "FAILED", stream->seconds,
		stream->seconds > 0 ? (double)stream->bytes * 8e-9 / stream->seconds : 0.0, text);
}

void recv_report(const struct recv_stream *stream)
{
	const struct soft_report *soft = &stream->soft;
	const struct responder_counters *counters = &soft->counters;
	const struct figure figures[] = {
		{ "messages", stream->messages },
		{ "bytes", stream->bytes },
		{ "lost_messages", stream->lost_messages },
		{ "long_messages", stream->long_messages },
		{ "overruns", stream->overruns },
		{ "bad_records", stream->bad_records },
		{ NULL, 0 },
	};
	const struct figure responder[] = {
		{ "frames", counters->frames },
		{ "acks", counters->acks },
		{ "naks", counters->naks },
		{ "rnr_naks", counters->rnr_naks },
		{ "gaps", counters->gaps },
		{ "duplicates", counters->duplicates },
		{ "bad_icrc", counters->bad_icrc },
		{ "bad_frames", counters->bad_frames },
		{ "dropped_frames", counters->dropped },
		{ "ring_drops", soft->ring_drops },
		{ "send_errors", soft->send_errors },
		{ "foreign_frames", soft->foreign_frames },
		{ NULL, 0 },
	};
	const struct figure faults[] = {
		{ "dropped", soft->faults.dropped },
		{ "duplicated", soft->faults.duplicated },
		{ "reordered", soft->faults.reordered },
		{ "corrupted", soft->faults.corrupted },
		{ "delayed", soft->faults.delayed },
		{ "dropped_replies", soft->faults.dropped_replies },
		{ "corrupted_replies", soft->faults.corrupted_replies },
		{ "withheld", soft->faults.withheld },
		{ NULL, 0 },
	};

	if (stream->shared->options.json)
		report_json(stream, figures, responder, faults);
	else
		report_text(stream, figures, responder, faults);
	if (!stream->complete)
		fprintf(stderr, "xdp2roce recv: %s\n", stream->error.text);
}
