/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receiving program as a user of the library writes it: receiver LISTEN FILE [END_AT]. Appends
 * every message to FILE, refuses message END_AT, ends on standard input's end. Software responder.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <xdp2roce/xdp2roce.h>

struct sink {
	FILE *file;
	uint64_t end_at, messages;
};

static int take(void *context, const struct xdp2roce_message *message)
{
	struct sink *sink = context;

	if (message->number != sink->messages++)
		return 1;
	if (message->number == sink->end_at)
		return 7;
	if (fwrite(message->payload, 1, message->length, sink->file) != message->length)
		return 2;
	printf("%s %s %llu %llu\n", message->stream, message->peer,
	       (unsigned long long)message->number, (unsigned long long)message->length);
	return 0;
}

int main(int argc, char **argv)
{
	struct xdp2roce_receive_config config = { .listen = argv[1], .soft = 1, .stop_fd = 0 };
	struct sink sink = { .end_at = UINT64_MAX };
	char error[512];
	int rc;

	if (argc < 3)
		return 2;
	if (argc > 3)
		sink.end_at = strtoull(argv[3], NULL, 10);
	sink.file = fopen(argv[2], "w");
	if (!sink.file)
		return 2;
	rc = xdp2roce_receive(&config, take, &sink, error, sizeof(error));
	if (rc)
		fprintf(stderr, "receiver: %d %s\n", rc, error);
	return fclose(sink.file) || rc;
}
