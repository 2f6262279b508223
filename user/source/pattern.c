/* SPDX-License-Identifier: BSD-2-Clause */
/* Reproducible bytes: 64-bit words, little-endian, each the splitmix64 of the seed and its own
 * index. */
#include <endian.h>
#include <string.h>

#include "source.h"

static uint64_t word(uint64_t seed, uint64_t index)
{
	uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

uint8_t source_pattern_byte(uint64_t seed, uint64_t offset)
{
	return (uint8_t)(word(seed, offset / 8) >> (offset % 8 * 8));
}

void source_pattern_fill(uint8_t *to, uint64_t seed, uint64_t offset, size_t length)
{
	for (; length > 0 && offset % 8 != 0; length--)
		*to++ = source_pattern_byte(seed, offset++);
	for (; length >= 8; length -= 8, offset += 8, to += 8) {
		uint64_t bytes = htole64(word(seed, offset / 8));

		memcpy(to, &bytes, sizeof(bytes));
	}
	for (; length > 0; length--)
		*to++ = source_pattern_byte(seed, offset++);
}
