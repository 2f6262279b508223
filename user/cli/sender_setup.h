/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a run needs before it meets the receiver, and the datapath. The steps of sender_open, in its
 * order; sender_close gives back what they took. Internal to the sender.
 */
#ifndef USER_CLI_SENDER_SETUP_H
#define USER_CLI_SENDER_SETUP_H

#include <netinet/in.h>

#include "sender.h"

int sender_open_sources(struct sender *sender, struct error *error);
/* Route and PMTU to the receiver; its address as text. */
int sender_find_path(struct sender *sender, char host[INET6_ADDRSTRLEN], struct error *error);
int sender_claim_interface(struct sender *sender, struct error *error);
/* XDP program and worker, for sender->pmtu. */
int sender_open_datapath(struct sender *sender, struct error *error);

#endif
