/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `xdp2roce send` tells: how it is set up, the progress line, the summary, and the same for
 * programs.
 */
#ifndef USER_CLI_REPORT_H
#define USER_CLI_REPORT_H

#include <stdio.h>

#include "sender.h"

void report_setup(FILE *out, const struct sender *sender);
/* One line, rewritten in place; the terminal's width is respected. */
void report_progress(FILE *out, const struct sender *sender);
void report_clear(FILE *out);
void report_summary(FILE *out, const struct sender *sender);
/* One JSON object with everything in the summary, and a newline. */
void report_json(FILE *out, const struct sender *sender);

#endif
