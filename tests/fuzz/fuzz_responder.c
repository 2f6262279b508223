/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arbitrary frames against the responder. The input is a sequence of records: a control byte, a
 * length, and so many bytes, which become the frame behind a header that is made good as far as the
 * control byte says: addresses, lengths, checksum, QPN, PSN, key, ICRC. So the fuzzer gets past
 * each check, and also stops at each.
 *
 *   clang -g -O1 -Iinclude -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
 *       tests/fuzz/fuzz_responder.c user/receiver/responder.c user/receiver/responder_frame.c \
 *       user/receiver/faults.c -lz -o fuzz_responder && ./fuzz_responder -max_total_time=60
 */
#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "../../user/receiver/faults.h"
#include "../../user/receiver/responder.h"

#define SLOTS 3u
#define SLOT 4096u
#define ADDRESS 0x10000ull
#define GUARD 64 /* bytes around the slots that must stay as they are */
#define FRAME_MAX 1200
#define BTH 42

enum control {
	GOOD_IP = 0x01,
	GOOD_BTH = 0x02,
	GOOD_PSN = 0x04, /* what the queue pair expects, if nothing was refused */
	GOOD_KEY = 0x08,
	GOOD_ICRC = 0x10,
	SECOND_QP = 0x20, /* UC */
	RELEASE = 0x40,   /* the reader releases everything first */
	LATER = 0x80,     /* time passes */
};

struct target {
	struct responder *responder;
	struct responder_qp *qp[2];
	struct faults *faults;
	uint8_t memory[2][GUARD + SLOTS * SLOT + GUARD];
	uint64_t now;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right)
{
	if (!right)
		abort();
}

static void deliver(void *context, const uint8_t *frame, uint32_t length, uint64_t now)
{
	struct target *target = context;
	uint8_t reply[RESPONDER_REPLY_MAX];
	struct responder_qp *completed;
	/* Memory of exactly this size, so that a read past the end is seen. */
	uint8_t *copy = malloc(length ? length : 1);
	uint32_t reply_length;

	memcpy(copy, frame, length);
	reply_length = responder_receive(target->responder, copy, length, now, reply, &completed);
	check(reply_length <= RESPONDER_REPLY_MAX);
	if (reply_length) {
		struct responder_frame parsed;

		check(responder_frame_parse(&parsed, reply, reply_length));
		check(responder_frame_icrc_good(&parsed));
		check(parsed.dest_qpn == 0x99);
		faults_reply(target->faults, reply, reply_length);
	}
	free(copy);
}

static void open_target(struct target *target)
{
	static const struct faults_config faults = {
		.drop = FAULTS_WHOLE / 100,
		.duplicate = FAULTS_WHOLE / 50,
		.reorder = FAULTS_WHOLE / 20,
		.delay = FAULTS_WHOLE / 20,
		.delay_ns = 1000,
	};
	struct error error;

	memset(target, 0, sizeof(*target));
	memset(target->memory, 0xA5, sizeof(target->memory));
	check(!responder_create(&target->responder, 2, &error));
	for (uint32_t i = 0; i < 2; i++) {
		struct responder_config config = {
			.qpn = 0x100 + i,
			.peer_qpn = 0x99,
			.psn = 0xFFFFFE,
			.ip = { [10] = 0xFF, [11] = 0xFF, 10, 0, 0, 2 },
			.peer_ip = { [10] = 0xFF, [11] = 0xFF, 10, 0, 0, 1 },
			.uc = i,
			.immediate = true,
			.pmtu = 256,
			.address = ADDRESS,
			.rkey = 0x1234,
			.memory = target->memory[i] + GUARD,
			.slot_size = SLOT,
			.slot_count = SLOTS,
			.credits = RESPONDER_CREDITS_POSTED,
			.rnr_timer = 1,
		};

		check(!responder_open(target->responder, &config, &target->qp[i], &error));
	}
	check(!faults_create(&target->faults, &faults, deliver, target, &error));
}

static void close_target(struct target *target)
{
	for (int i = 0; i < 2; i++) {
		const uint8_t *memory = target->memory[i];
		const struct responder_counters *counters = responder_counters(target->qp[i]);

		for (size_t at = 0; at < GUARD; at++)
			check(memory[at] == 0xA5 && memory[GUARD + SLOTS * SLOT + at] == 0xA5);
		check(counters->messages <= counters->frames);
		check(responder_reader_completed(target->qp[i]) <= counters->messages);
		check(i == 0 || counters->acks + counters->naks + counters->rnr_naks == 0);
	}
	faults_destroy(target->faults);
	responder_destroy(target->responder);
}

/* Makes the parts of the frame good that the control byte names. Length is at least BTH + 12 + 4.
 */
static void mend(const struct target *target, uint8_t *frame, uint32_t length, uint8_t control)
{
	uint8_t *ip = frame + 14, *udp = ip + 20, *bth = frame + BTH;
	bool second = control & SECOND_QP;
	uint32_t sum = 0;

	if (control & GOOD_IP) {
		static const uint8_t header[20] = { 0x45, 0, 0,  0, 0, 0, 0x40, 0, 64, 17,
						    0,    0, 10, 0, 0, 1, 10,   0, 0,  2 };

		memcpy(ip, header, sizeof(header));
		ip[2] = (uint8_t)((length - 14) >> 8);
		ip[3] = (uint8_t)(length - 14);
		for (int i = 0; i < 20; i += 2)
			sum += (uint32_t)ip[i] << 8 | ip[i + 1];
		sum = (sum & 0xFFFF) + (sum >> 16);
		ip[10] = (uint8_t)(~sum >> 8);
		ip[11] = (uint8_t)~sum;
		frame[12] = 0x08;
		frame[13] = 0;
		udp[2] = ROCE_UDP_PORT >> 8;
		udp[3] = ROCE_UDP_PORT & 0xFF;
		udp[4] = (uint8_t)((length - 34) >> 8);
		udp[5] = (uint8_t)(length - 34);
	}
	if (control & GOOD_BTH) {
		bth[0] = (uint8_t)((bth[0] % 6 + ROCE_RC_WRITE_FIRST) | (second ? 0x20 : 0));
		bth[1] &= 0xF0;
		bth[2] = bth[3] = 0xFF;
		roce_put24(bth + 5, second ? 0x101 : 0x100);
	}
	if (control & GOOD_PSN)
		roce_put24(bth + 9,
			   roce_psn_add(0xFFFFFE,
					(uint32_t)responder_counters(target->qp[second])->frames));
	if (control & GOOD_KEY && length >= BTH + 12 + 16 + 4) {
		uint64_t address =
			htobe64(ADDRESS + (bth[16] << 8 | bth[17]) % (SLOTS * SLOT + 256));
		uint32_t rkey = htonl(0x1234);

		memcpy(bth + 12, &address, 8);
		memcpy(bth + 20, &rkey, 4);
		bth[24] = bth[25] = 0;
		bth[26] &= 0x0F;
	}
	if (control & GOOD_ICRC) {
		uint8_t masked[FRAME_MAX + 8];
		uint32_t icrc;

		memset(masked, 0xFF, 8);
		memcpy(masked + 8, ip, length - 14);
		masked[8 + 1] = masked[8 + 8] = masked[8 + 10] = masked[8 + 11] = 0xFF;
		masked[8 + 26] = masked[8 + 27] = masked[8 + 32] = 0xFF;
		icrc = htole32((uint32_t)crc32(0, masked, 8 + length - 14 - 4));
		memcpy(frame + length - 4, &icrc, 4);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct target target;
	static uint8_t frame[FRAME_MAX];

	open_target(&target);
	while (size >= 3) {
		uint8_t control = data[0];
		uint32_t length = (data[1] << 8 | data[2]) % FRAME_MAX;
		uint32_t given = length < size - 3 ? length : (uint32_t)(size - 3);

		memset(frame, 0, sizeof(frame));
		memcpy(frame, data + 3, given);
		data += 3 + given;
		size -= 3 + given;
		if (length >= BTH + 12 + 4)
			mend(&target, frame, length, control);
		target.now += control & LATER ? 5000 : 1;
		for (int i = 0; i < 2 && control & RELEASE; i++)
			responder_reader_release(target.qp[i],
						 responder_reader_completed(target.qp[i]));
		faults_tick(target.faults, target.now);
		faults_frame(target.faults, frame, length, target.now);
	}
	faults_tick(target.faults, UINT64_MAX);
	close_target(&target);
	return 0;
}
