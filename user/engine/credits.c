/* SPDX-License-Identifier: BSD-2-Clause */
#include "credits.h"

#include <xdp2roce/roce.h>

void credits_init(struct credits *credits)
{
	credits->ssn = 1;
	credits->lsn = 0;
	credits->unlimited = false;
}

bool credits_allow(const struct credits *credits, bool consumes)
{
	if (!consumes || credits->unlimited)
		return true;
	return roce_psn_diff(credits->ssn, roce_psn_add(credits->lsn, 1)) <= 0;
}

bool credits_take(struct credits *credits, bool consumes)
{
	bool over = roce_psn_diff(credits->ssn, credits->lsn) > 0;

	credits->ssn = roce_psn_add(credits->ssn, 1);
	if (!consumes) {
		credits->lsn = roce_psn_add(credits->lsn, 1);
		return false;
	}
	return over && !credits->unlimited;
}

bool credits_cover(const struct credits *credits)
{
	return credits->unlimited || roce_psn_diff(credits->ssn, credits->lsn) <= 1;
}

void credits_update(struct credits *credits, uint32_t msn, uint32_t syndrome)
{
	uint32_t code = syndrome & ROCE_AETH_VALUE_MASK, limit;

	if (code == ROCE_CREDITS_UNLIMITED) {
		credits->unlimited = true;
		return;
	}
	limit = roce_psn_add(msn, roce_credits(code));
	if (roce_psn_diff(limit, credits->lsn) > 0)
		credits->lsn = limit;
}

uint32_t credits_left(const struct credits *credits)
{
	int32_t left = roce_psn_diff(credits->lsn, credits->ssn) + 1;

	return left > 0 ? (uint32_t)left : 0;
}
