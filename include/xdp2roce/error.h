/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a room tells its caller what went wrong: a negative errno as the return value, and one
 * sentence for the person at the terminal: what was expected, what was found, what to do.
 */
#ifndef XDP2ROCE_ERROR_H
#define XDP2ROCE_ERROR_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct error {
	char text[512]; /* without a full stop or a newline at the end; empty when nothing failed */
};

/*
 * Writes the sentence and returns −code, so that it can be returned on. code is a positive errno;
 * anything else, such as an errno that a library forgot to set, becomes EIO, so that a failure is
 * never 0.
 */
__attribute__((format(printf, 3, 4))) static inline int error_set(struct error *error, int code,
								  const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error->text, sizeof(error->text), format, arguments);
	va_end(arguments);
	return code > 0 ? -code : -EIO;
}

#endif
