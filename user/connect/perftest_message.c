/* SPDX-License-Identifier: BSD-2-Clause */
#include "perftest_message.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <xdp2roce/roce.h>

#include "exchange_text.h"
#include "hex_text.h"

#define OLDEST 570 /* hundredths */
#define MTU_CODES 5

static uint32_t mtu_bytes(unsigned int code)
{
	return 128u << code;
}

void perftest_format_version(char text[PERFTEST_VERSION_LEN])
{
	memset(text, 0, PERFTEST_VERSION_LEN);
	memcpy(text, PERFTEST_OUR_VERSION, sizeof(PERFTEST_OUR_VERSION));
}

void perftest_format_mtu(char text[PERFTEST_MTU_LEN], uint32_t pmtu)
{
	unsigned int code = 1;

	while (code < MTU_CODES && mtu_bytes(code) < pmtu)
		code++;
	text[0] = (char)('0' + code);
	text[1] = 0;
}

/* LID, and the number of a shared receive queue, are InfiniBand's and DC's; Reads are not used. */
void perftest_format_key(char text[PERFTEST_KEY_LEN], const struct perftest_key *key)
{
	size_t used =
		(size_t)snprintf(text, PERFTEST_KEY_LEN, "%04x:%04x:%06x:%06x:%08x:%016llx:", 0u,
				 1u, key->qpn & ROCE_PSN_MASK, key->psn & ROCE_PSN_MASK, key->rkey,
				 (unsigned long long)key->address);

	for (size_t i = 0; i < sizeof(key->gid); i++)
		used += (size_t)snprintf(text + used, PERFTEST_KEY_LEN - used,
					 "%02x:", key->gid[i]);
	snprintf(text + used, PERFTEST_KEY_LEN - used, "%08x:", 0u);
}

void perftest_format_figure(uint8_t bytes[PERFTEST_FIGURE_LEN],
			    const struct perftest_report *report, unsigned int which)
{
	const double doubles[] = { report->peak, report->average, report->rate };
	uint64_t word;

	if (which == 0)
		word = report->size;
	else if (which == 1)
		word = report->iterations;
	else
		memcpy(&word, &doubles[which - 2], sizeof(word));
	word = htobe64(word);
	memcpy(bytes, &word, sizeof(word));
}

/* "6.24" as 624; −1 when it is not such a number. */
static int version_hundredths(const char *text)
{
	int major = 0, minor = 0, digits = 0;

	if (*text < '0' || *text > '9')
		return -1;
	for (; *text >= '0' && *text <= '9' && digits < 4; digits++)
		major = major * 10 + *text++ - '0';
	if (*text++ != '.')
		return -1;
	if (*text < '0' || *text > '9')
		return -1;
	minor = (*text++ - '0') * 10;
	if (*text >= '0' && *text <= '9')
		minor += *text++ - '0';
	return *text ? -1 : major * 100 + minor;
}

int perftest_check_version(const char text[PERFTEST_VERSION_LEN], const struct exchange_peer *peer,
			   struct error *error)
{
	char copy[PERFTEST_VERSION_LEN + 1] = { 0 }, shown[4 * sizeof(copy)];
	int version;

	memcpy(copy, text, PERFTEST_VERSION_LEN);
	if (!strncmp(copy, "{\"xdp2roce\"", 11))
		return error_set(error, EPROTO,
				 "%s is xdp2roce itself and not a perftest server: use --to",
				 peer->endpoint);
	version = version_hundredths(copy);
	if (version >= OLDEST)
		return 0;
	exchange_copy_printable(shown, sizeof(shown), copy);
	if (version >= 0)
		return error_set(error, EPROTO,
				 "%s %s has version %s, expected 5.70 or later: install a newer "
				 "perftest there",
				 peer->role, peer->endpoint, shown);
	return error_set(error, EPROTO,
			 "%s answered '%s', expected perftest's version: is it ib_write_bw, and "
			 "started without -R?",
			 peer->endpoint, shown);
}

int perftest_parse_mtu(const char text[PERFTEST_MTU_LEN], const struct exchange_peer *peer,
		       uint32_t *pmtu, struct error *error)
{
	unsigned int code = (unsigned int)(unsigned char)text[0] - '0';

	if (!code || code > MTU_CODES || text[1])
		return error_set(error, EPROTO,
				 "%s %s names MTU code 0x%02x%02x, expected a digit from 1 to 5: "
				 "is it ib_write_bw?",
				 peer->role, peer->endpoint, (unsigned char)text[0],
				 (unsigned char)text[1]);
	*pmtu = mtu_bytes(code);
	return 0;
}

static bool parse_fields(const char *at, struct perftest_key *key)
{
	uint64_t lid, reads, qpn, psn, rkey, srqn;

	if (!hex_field(&at, 4, ':', &lid) || !hex_field(&at, 4, ':', &reads) ||
	    !hex_field(&at, 6, ':', &qpn) || !hex_field(&at, 6, ':', &psn) ||
	    !hex_field(&at, 8, ':', &rkey) || !hex_field(&at, 16, ':', &key->address))
		return false;
	key->qpn = (uint32_t)qpn;
	key->psn = (uint32_t)psn;
	key->rkey = (uint32_t)rkey;
	return hex_bytes(&at, ':', key->gid, sizeof(key->gid)) && hex_field(&at, 8, ':', &srqn) &&
	       !*at;
}

int perftest_parse_key(const char text[PERFTEST_KEY_LEN], const struct exchange_peer *peer,
		       struct perftest_key *key, struct error *error)
{
	struct perftest_key parsed;

	if (!parse_fields(text, &parsed))
		return error_set(error, EPROTO,
				 "%s %s sent a key that cannot be read: is it ib_write_bw, without "
				 "-R, -b and --data_validation?",
				 peer->role, peer->endpoint);
	if (parsed.qpn < 2)
		return error_set(error, EPROTO, "%s %s names QPN %u, expected 2 or more",
				 peer->role, peer->endpoint, parsed.qpn);
	*key = parsed;
	return 0;
}

bool perftest_same_key(const struct perftest_key *a, const struct perftest_key *b)
{
	return a->qpn == b->qpn && a->psn == b->psn && a->rkey == b->rkey &&
	       a->address == b->address && !memcmp(a->gid, b->gid, sizeof(a->gid));
}
