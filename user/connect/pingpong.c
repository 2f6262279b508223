/* SPDX-License-Identifier: BSD-2-Clause */
#include "pingpong.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <xdp2roce/roce.h>

#include "exchange_connection.h"
#include "hex_text.h"

#define ROLE "pingpong server"

static const char done[] = "done";

void pingpong_format(char text[PINGPONG_LEN], const struct exchange_offer *offer)
{
	size_t used =
		(size_t)snprintf(text, PINGPONG_LEN, "0000:%06x:%06x:", offer->qpn & ROCE_PSN_MASK,
				 offer->psn & ROCE_PSN_MASK);

	for (size_t i = 0; i < sizeof(offer->ip); i++)
		used += (size_t)snprintf(text + used, PINGPONG_LEN - used, "%02x", offer->ip[i]);
}

static bool parse_fields(const char *at, struct exchange_answer *answer)
{
	uint64_t lid, qpn, psn;

	if (!hex_field(&at, 4, ':', &lid) || !hex_field(&at, 6, ':', &qpn) ||
	    !hex_field(&at, 6, ':', &psn))
		return false;
	answer->qpn = (uint32_t)qpn;
	answer->psn = (uint32_t)psn;
	return hex_bytes(&at, 0, answer->ip, sizeof(answer->ip)) && !*at;
}

int pingpong_parse(const char text[PINGPONG_LEN], const struct exchange_peer *peer,
		   struct exchange_answer *answer, struct error *error)
{
	static const uint8_t none[16];
	struct exchange_answer parsed = { .slot_size = 1, .slot_count = 1 };

	if (!parse_fields(text, &parsed))
		return error_set(error, EPROTO,
				 "%s answered something else than LID:QPN:PSN:GID: is it "
				 "ibv_rc_pingpong?",
				 peer->endpoint);
	if (parsed.qpn < 2)
		return error_set(error, EPROTO, "%s %s names QPN %u, expected 2 or more",
				 peer->role, peer->endpoint, parsed.qpn);
	if (!memcmp(parsed.ip, none, sizeof(none)))
		return error_set(
			error, EPROTO,
			"%s %s has no GID, expected one for RoCE: start it with -g and the "
			"index of its address",
			peer->role, peer->endpoint);
	*answer = parsed;
	return 0;
}

int pingpong_connect(const char *host, uint16_t port, int timeout_ms, struct error *error)
{
	int fd = exchange_connect(host, port, timeout_ms, error);

	if (fd == -ECONNREFUSED)
		return error_set(error, ECONNREFUSED,
				 "nothing listens at %s:%u: start `ibv_rc_pingpong -g …` there",
				 host, port);
	return fd;
}

static int failed(const struct exchange_peer *peer, int code, struct error *error)
{
	if (code == ETIMEDOUT)
		return error_set(error, code,
				 "%s %s did not answer the handshake: is it ibv_rc_pingpong?",
				 peer->role, peer->endpoint);
	if (code == ECONNRESET || code == EPIPE)
		return error_set(error, ECONNRESET,
				 "%s %s closed the connection in the handshake: was it started "
				 "with -g and the index of its RoCE address?",
				 peer->role, peer->endpoint);
	return error_set(error, code, "lost the connection to %s %s in the handshake: %s",
			 peer->role, peer->endpoint, strerror(code));
}

int pingpong_exchange(int fd, const struct exchange_offer *offer, struct exchange_answer *answer,
		      int timeout_ms, struct error *error)
{
	struct exchange_peer peer = exchange_peer_of(fd, ROLE);
	int64_t deadline = exchange_deadline(timeout_ms);
	char text[PINGPONG_LEN];
	size_t have = 0;
	int rc;

	pingpong_format(text, offer);
	rc = exchange_send_bytes(fd, text, sizeof(text), deadline);
	if (!rc)
		rc = exchange_read_bytes(fd, text, sizeof(text), &have, deadline);
	if (rc)
		return failed(&peer, -rc, error);
	rc = pingpong_parse(text, &peer, answer, error);
	answer->pmtu = offer->pmtu;
	return rc;
}

int pingpong_ready(int fd, struct error *error)
{
	struct exchange_peer peer = exchange_peer_of(fd, ROLE);
	int rc = exchange_send_bytes(fd, done, sizeof(done), exchange_deadline(0));

	return rc ? failed(&peer, -rc, error) : 0;
}
