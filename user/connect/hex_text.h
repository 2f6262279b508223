/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hexadecimal numbers of fixed width, as other programs' exchanges have them. Internal to connect.
 */
#ifndef USER_CONNECT_HEX_TEXT_H
#define USER_CONNECT_HEX_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Reads so many digits, at most 16, and moves *text behind them. False when another character is
 * among them; what is behind it is not looked at.
 */
bool hex_digits(const char **text, unsigned int digits, uint64_t *value);

/* The same with the character that must follow. */
bool hex_field(const char **text, unsigned int digits, char end, uint64_t *value);

/* Two digits for each byte, with the character that must follow each, or 0 for none. */
bool hex_bytes(const char **text, char end, uint8_t *bytes, unsigned int count);

#endif
