/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commands of xdp2roce: each takes its own argv (argv[0] is the command's name) and returns the
 * exit status: 0 when everything that was asked for was done, 1 when not, 2 for a wrong command
 * line.
 */
#ifndef USER_CLI_COMMANDS_H
#define USER_CLI_COMMANDS_H

int send_main(int argc, char **argv);
int recv_main(int argc, char **argv);

#endif
