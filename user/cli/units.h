/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers with units, as people write them on a command line. All are decimal, may have a fraction
 * ("1.5GiB"), and must come out as a whole number of the base unit. Signs, spaces, exponents,
 * unknown units and overflow are refused with a sentence and -EINVAL or -ERANGE; the result is then
 * untouched.
 */
#ifndef USER_CLI_UNITS_H
#define USER_CLI_UNITS_H

#include <stdint.h>

#include <xdp2roce/error.h>

/* Bytes: none or B; K, M, G, T and KiB, MiB, GiB, TiB (powers of 1024); kB, MB, GB, TB (of 1000).
 */
int parse_size(const char *text, uint64_t *bytes, struct error *error);

/* ns, us (or µs), ms, s, min, h; a number without unit only when it is 0. */
int parse_duration(const char *text, uint64_t *nanoseconds, struct error *error);

#define PARSE_PERCENT_WHOLE 1000000000u /* what 100% comes out as */

/* "1%", "0.05%", at most 100%; the unit is required. In parts per 10^9. */
int parse_percent(const char *text, uint32_t *parts, struct error *error);

/* A whole number from lowest to highest, decimal or 0x…, without unit; what names it in the
 * sentence. */
int parse_number(const char *text, const char *what, uint64_t lowest, uint64_t highest,
		 uint64_t *number, struct error *error);

#endif
