/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "commands.h"
#include "recv.h"

/* Signals are taken at one place: threads that are started later inherit the mask. */
static int take_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int recv_main(int argc, char **argv)
{
	struct recv_options options;
	struct error error = { "" };
	int signals, rc;

	if (recv_options_parse(&options, argc, argv))
		return EXIT_FAILURE;
	signals = take_signals();
	rc = recv_serve(&options, signals, &error);
	close(signals);
	/* What became of a single stream is told by its report. */
	if (rc && !(rc == -EIO && options.streams == 1))
		fprintf(stderr, "xdp2roce recv: %s\n", error.text);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
