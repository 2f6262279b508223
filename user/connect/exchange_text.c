/* SPDX-License-Identifier: BSD-2-Clause */
#include "exchange_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at text, which ends with a NUL; 0 when it is not one. */
static size_t utf8_length(const uint8_t *text)
{
	size_t length = text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;

	if (length > 1 && (text[0] < 0xc2 || text[0] > 0xf4))
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, above U+10FFFF. */
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return length;
}

/* The same, 0 for control characters too: below space, DEL, and C1 (U+0080 to U+009F). */
static size_t printable_length(const uint8_t *text)
{
	if (text[0] < 0x20 || text[0] == 0x7f || (text[0] == 0xc2 && text[1] < 0xa0))
		return 0;
	return utf8_length(text);
}

void exchange_copy_printable(char *to, size_t size, const char *from)
{
	size_t used = 0;

	while (*from) {
		size_t length = printable_length((const uint8_t *)from);
		size_t bytes = length ? length : 1;

		if (used + bytes >= size)
			break;
		memcpy(to + used, length ? from : "?", bytes);
		used += bytes;
		from += bytes;
	}
	to[used] = '\0';
}

size_t exchange_escape(char out[EXCHANGE_ESCAPED], const char *line, size_t length)
{
	size_t used = 0;

	if (length > EXCHANGE_LINE)
		return 0;
	for (size_t i = 0; i < length;) {
		uint8_t bytes[5] = { 0 }; /* ends in a NUL, which is part of no character */
		size_t left = length - i, size;
		uint32_t code;

		memcpy(bytes, line + i, left < 4 ? left : 4);
		if (bytes[0] && bytes[0] < 0x80) {
			out[used++] = line[i++];
			continue;
		}
		size = utf8_length(bytes);
		if (!bytes[0] || !size)
			return 0;
		code = bytes[0] & (0x7f >> size);
		for (size_t k = 1; k < size; k++)
			code = code << 6 | (bytes[k] & 0x3f);
		i += size;
		if (code < 0x10000)
			used += (size_t)sprintf(out + used, "\\u%04x", code);
		else
			used += (size_t)sprintf(out + used, "\\u%04x\\u%04x",
						0xd800 + ((code - 0x10000) >> 10),
						0xdc00 + (code & 0x3ff));
	}
	out[used] = '\0';
	return used;
}
