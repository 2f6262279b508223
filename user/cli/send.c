/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "report.h"
#include "send_options.h"

#define POLL_MS 20
#define PROGRESS_NS 200000000u
#define DRAIN_NS 5000000000u

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
	static struct send_options options;
	struct sender sender;
	struct error error = { "" };
	int signals;
	bool delivered;

	send_options_parse(&options, argc, argv);
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
