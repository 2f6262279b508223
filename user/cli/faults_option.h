/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text of recv --faults: items NAME=VALUE, separated by commas.
 *
 *   drop, duplicate, reorder, corrupt        =1%     of the frames that arrive
 *   delay                                    =1%:3ms
 *   drop-frame, duplicate-frame, reorder-frame,
 *   corrupt-frame, delay-frame               =17     that frame, counted from 1; may be repeated
 *   drop-replies, corrupt-replies            =1%     of the replies that leave
 *   drop-reply, corrupt-reply                =3      that reply; may be repeated
 *   withhold                                 =20ms:4 no receive for 20 ms after every 4th message;
 *                                            =20ms:4:10 the first time after message 10
 */
#ifndef USER_CLI_FAULTS_OPTION_H
#define USER_CLI_FAULTS_OPTION_H

#include <xdp2roce/error.h>

#include "../receiver/faults.h"

/* Adds what text says to config. 0, or -EINVAL with a sentence that names the item at fault. */
int parse_faults(const char *text, struct faults_config *config, struct error *error);

#endif
