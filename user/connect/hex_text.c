/* SPDX-License-Identifier: BSD-2-Clause */
#include "hex_text.h"

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool hex_digits(const char **text, unsigned int digits, uint64_t *value)
{
	*value = 0;
	for (unsigned int i = 0; i < digits; i++) {
		int digit = digit_value(**text);

		if (digit < 0)
			return false;
		*value = *value << 4 | (uint64_t)digit;
		++*text;
	}
	return true;
}

bool hex_field(const char **text, unsigned int digits, char end, uint64_t *value)
{
	if (!hex_digits(text, digits, value) || **text != end)
		return false;
	++*text;
	return true;
}

bool hex_bytes(const char **text, char end, uint8_t *bytes, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		uint64_t byte;

		if (end ? !hex_field(text, 2, end, &byte) : !hex_digits(text, 2, &byte))
			return false;
		bytes[i] = (uint8_t)byte;
	}
	return true;
}
