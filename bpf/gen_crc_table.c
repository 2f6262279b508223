/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the eight tables of a slicing-by-8 CRC-32 (reflected 0xEDB88320) as a C header; runs at
 * build time. */
#include <stdint.h>
#include <stdio.h>

static uint32_t table[8][256];

static uint32_t crc_of_byte(uint32_t byte)
{
	for (int bit = 0; bit < 8; bit++)
		byte = byte >> 1 ^ (byte & 1 ? 0xEDB88320u : 0);
	return byte;
}

int main(void)
{
	for (uint32_t byte = 0; byte < 256; byte++)
		table[0][byte] = crc_of_byte(byte);
	for (int slice = 1; slice < 8; slice++)
		for (int byte = 0; byte < 256; byte++) {
			uint32_t before = table[slice - 1][byte];

			table[slice][byte] = before >> 8 ^ table[0][before & 0xFF];
		}

	printf("/* Made by bpf/gen_crc_table.c: [k][b] is the CRC-32 of byte b followed by k zero "
	       "bytes. */\n"
	       "static const __u32 crc_table[8][256] = {\n");
	for (int slice = 0; slice < 8; slice++) {
		printf("\t{");
		for (int byte = 0; byte < 256; byte++)
			printf("%s0x%08x,", byte % 8 ? " " : "\n\t\t", table[slice][byte]);
		printf("\n\t},\n");
	}
	printf("};\n");
	return ferror(stdout) || fflush(stdout) != 0;
}
