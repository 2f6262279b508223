/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text that came from elsewhere, made fit for a terminal and for json-c. Internal to connect.
 */
#ifndef USER_CONNECT_EXCHANGE_TEXT_H
#define USER_CONNECT_EXCHANGE_TEXT_H

#include <stddef.h>

#include "exchange.h"

#define EXCHANGE_ESCAPED (3 * EXCHANGE_LINE + 1)

/* Copies text so that it may be shown on a terminal and is valid JSON: other bytes become '?'. */
void exchange_copy_printable(char *to, size_t size, const char *from);

/*
 * Strict json-c 0.18 refuses every byte above 0x7f in a string (it compares a signed char with
 * 0x1f), so UTF-8 is given to it as \u escapes, three bytes at most for each one. Returns the
 * length, 0 when the line is empty, too long, or no text.
 */
size_t exchange_escape(char out[EXCHANGE_ESCAPED], const char *line, size_t length);

#endif
