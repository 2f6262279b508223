/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "commands.h"

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "send", send_main, "stream files, standard input or a pattern into a receiver's memory" },
	{ "recv", recv_main, "receive streams, with an RDMA device or in software" },
};

static void usage(FILE *out)
{
	fprintf(out, "Usage: xdp2roce COMMAND [OPTION…]\n\n"
		     "Streams data into the memory of a remote host with RoCEv2 RDMA Writes.\n\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(out, "  %-6s %s\n", commands[i].name, commands[i].help);
	fprintf(out, "\nxdp2roce COMMAND --help tells the rest.\n");
}

int main(int argc, char **argv)
{
	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		usage(stdout);
		return 0;
	}
	for (size_t i = 0; argc >= 2 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	if (argc >= 2)
		fprintf(stderr, "xdp2roce: there is no command '%s'\n\n", argv[1]);
	usage(stderr);
	return 2;
}
