/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources: what goes in comes out in messages, whatever the input does; and a stop is a stop. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../user/source/source.h"

#define MESSAGE 10000u

static char directory[] = "/tmp/xdp2roce-source.XXXXXX";
static char path[64];
static struct source *source;
static struct source_ring consumer;
static struct source_view view;
static struct error error;

/* What came out of the last source. */
static uint8_t *payload;
static uint64_t bytes, messages, lengths[4096], availables[4096];

static void setup(void)
{
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/input", directory);
	signal(SIGPIPE, SIG_IGN);
}

static void teardown(void)
{
	unlink(path);
	rmdir(directory);
	free(payload);
}

TestSuite(source, .init = setup, .fini = teardown, .timeout = 60);

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void start_with(struct source_config config)
{
	cr_assert_eq(source_start(&source, &config, &error), 0, "%s", error.text);
	cr_assert_eq(source_ring_attach(&consumer, source_ring_of(source), &error), 0, "%s",
		     error.text);
}

static void start(const char *input, uint64_t message_size, uint64_t stream_bytes)
{
	start_with((struct source_config){
		.path = input, .message_size = message_size, .stream_bytes = stream_bytes });
}

static int stop(void)
{
	double before = seconds();
	int rc;

	source_ring_close(&consumer);
	rc = source_stop(source, &error);
	cr_assert_lt(seconds() - before, 0.1, "stopped after %.3f s", seconds() - before);
	return rc;
}

/* Waits until `seen` bytes of the current message are not all there is. */
static enum source_ring_state wait_for_more(uint64_t seen)
{
	struct pollfd fd = { .fd = consumer.payload_fd, .events = POLLIN };

	if (source_ring_arm(&consumer, seen)) {
		cr_assert_eq(poll(&fd, 1, 10000), 1, "nothing came");
		source_ring_disarm(&consumer);
	}
	return source_ring_peek(&consumer, &view);
}

static void wait_for_bytes(uint64_t count)
{
	for (uint64_t seen = 0; seen < count; seen = view.available)
		cr_assert_eq(wait_for_more(seen), SOURCE_RING_MESSAGE);
}

/* Takes everything to the end of the ring. */
static enum source_ring_state collect(void)
{
	enum source_ring_state state;

	bytes = messages = 0;
	while ((state = source_ring_peek(&consumer, &view)) <= SOURCE_RING_MESSAGE) {
		if (state == SOURCE_RING_EMPTY || !view.ended) {
			wait_for_more(state == SOURCE_RING_EMPTY ? 0 : view.available);
			continue;
		}
		payload = realloc(payload, bytes + view.available + 1);
		memcpy(payload + bytes, view.payload, view.available);
		bytes += view.available;
		cr_assert_lt(messages, 4096);
		lengths[messages] = view.length;
		availables[messages++] = view.available;
		source_ring_release(&consumer);
	}
	return state;
}

/* Any bytes; the pattern is as good as others. */
static uint8_t *make_content(uint64_t length)
{
	uint8_t *content = malloc(length + 1);

	source_pattern_fill(content, 42, 0, length);
	return content;
}

static void write_file(const uint8_t *content, uint64_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, content, length), (ssize_t)length);
	close(fd);
}

static void expect_content(const uint8_t *content, uint64_t length)
{
	cr_assert_eq(bytes, length, "%lu bytes instead of %lu", bytes, length);
	cr_assert_eq(memcmp(payload, content, length), 0);
}

/* Whole messages, the last one with the rest; no bytes are one message of length 0. */
static void expect_cut(uint64_t length, uint64_t message_size)
{
	cr_assert_eq(messages, length ? (length + message_size - 1) / message_size : 1);
	for (uint64_t i = 0; i < messages; i++) {
		uint64_t rest = length - i * message_size;

		cr_assert_eq(lengths[i], rest < message_size ? rest : message_size);
		cr_assert_eq(availables[i], lengths[i]);
	}
}

static const uint64_t sizes[] = {
	0, 1, MESSAGE - 1, MESSAGE, MESSAGE + 1, 2 * MESSAGE, 3 * MESSAGE + 5, 9000001,
};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

Test(source, file_arrives_identical)
{
	for (size_t i = 0; i < SIZES; i++) {
		uint8_t *content = make_content(sizes[i]);

		write_file(content, sizes[i]);
		start(path, MESSAGE, 0);
		cr_assert_eq(source_kind(source), SOURCE_FILE);
		cr_assert_eq(source_total_bytes(source), sizes[i]);
		cr_assert_eq(collect(), SOURCE_RING_CLOSED);
		expect_content(content, sizes[i]);
		expect_cut(sizes[i], MESSAGE);
		cr_assert_eq(stop(), 0);
		free(content);
	}
}

Test(source, file_in_large_messages)
{
	const uint64_t size = 20000003, message = 7654321;
	uint8_t *content = make_content(size);

	write_file(content, size);
	start(path, message, 0);
	cr_assert_eq(collect(), SOURCE_RING_CLOSED);
	expect_content(content, size);
	expect_cut(size, message);
	cr_assert_eq(stop(), 0);
	free(content);
}

/* Until the source has filled the ring and sleeps. */
static void wait_until_full(void)
{
	double end = seconds() + 5;

	while (__atomic_load_n(&consumer.header->producer_waits, __ATOMIC_ACQUIRE) == 0) {
		cr_assert_lt(seconds(), end);
		usleep(1000);
	}
}

Test(source, file_that_shrinks_is_named)
{
	const uint64_t mib = 1 << 20, size = 8 * mib, cut = 3 * mib + 12345;
	uint8_t *content = make_content(size);

	write_file(content, size);
	start(path, mib, 0);
	wait_until_full(); /* 3 messages of 1 MiB fit into 4 MiB */
	cr_assert_eq(truncate(path, (off_t)cut), 0);
	cr_assert_eq(collect(), SOURCE_RING_FAILED);
	cr_assert_eq(messages, 4);
	cr_assert_eq(lengths[3], mib);
	cr_assert_eq(availables[3], 12345);
	expect_content(content, cut);
	cr_assert_eq(stop(), -EIO);
	cr_assert(strstr(error.text, path) && strstr(error.text, "3158073") &&
			  strstr(error.text, "8388608"),
		  "%s", error.text);
	free(content);
}

Test(source, file_that_grows_keeps_the_size_it_had)
{
	const uint64_t size = 8 << 20;
	uint8_t *content = make_content(size);
	int fd;

	write_file(content, size);
	start(path, 1 << 20, 0);
	wait_until_full();
	fd = open(path, O_WRONLY | O_APPEND);
	cr_assert_eq(write(fd, "more", 4), 4);
	close(fd);
	cr_assert_eq(collect(), SOURCE_RING_CLOSED);
	expect_content(content, size);
	cr_assert_eq(stop(), 0);
	free(content);
}

Test(source, file_as_standard_input_is_read_from_where_it_stands)
{
	uint8_t *content = make_content(25000);
	int fd;

	write_file(content, 25000);
	fd = open(path, O_RDONLY);
	cr_assert_eq(lseek(fd, 1000, SEEK_SET), 1000);
	dup2(fd, STDIN_FILENO);
	start("-", MESSAGE, 0);
	cr_assert_eq(source_kind(source), SOURCE_FILE);
	cr_assert_eq(source_total_bytes(source), 24000);
	cr_assert_eq(collect(), SOURCE_RING_CLOSED);
	expect_content(content + 1000, 24000);
	cr_assert_eq(stop(), 0);
	free(content);
}

struct refusal {
	const char *path;
	uint64_t message_size, messages;
	int code;
	const char *sentence;
};

Test(source, refusals_are_one_sentence)
{
	static const struct refusal table[] = {
		{ "/nowhere/at/all", MESSAGE, 0, ENOENT,
		  "/nowhere/at/all cannot be opened: No such file" },
		{ "/tmp", MESSAGE, 0, EISDIR, "/tmp is a directory" },
		{ "-", MESSAGE, 0, EBADF, "standard input cannot be opened" },
		{ "/dev/zero", 0, 0, EINVAL, "message of 0 bytes" },
		{ "/dev/zero", (1ull << 31) + 1, 0, EINVAL, "message of 2147483649 bytes" },
		{ NULL, (1ull << 31) + 1, 1, EINVAL, "message of 2147483649 bytes" },
		{ NULL, 1ull << 31, 1ull << 33, EINVAL, "more than 2^64" },
	};

	close(STDIN_FILENO);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct refusal *row = &table[i];
		struct source_config config = { .path = row->path,
						.message_size = row->message_size,
						.messages = row->messages };

		cr_expect_eq(source_start(&source, &config, &error), -row->code, "row %zu: %s", i,
			     error.text);
		cr_expect(strstr(error.text, row->sentence), "row %zu: %s", i, error.text);
		cr_expect_null(source);
	}
}

Test(source, unreadable_file_is_named)
{
	struct source_config config = { .path = path, .message_size = MESSAGE };

	if (geteuid() != 0)
		cr_skip_test("needs root, to become another user");
	write_file((const uint8_t *)"secret", 6);
	cr_assert_eq(setresuid(65534, 65534, 0), 0);
	cr_expect_eq(source_start(&source, &config, &error), -EACCES);
	cr_expect(strstr(error.text, path), "%s", error.text);
	cr_assert_eq(setresuid(0, 0, 0), 0);
}

/* A writer with a thread of its own; pieces of `piece` bytes, with a pause after each. */
struct writer {
	int fd;
	const uint8_t *content;
	uint64_t length, piece;
	useconds_t pause;
	pthread_t thread;
};

static void *write_stream(void *argument)
{
	struct writer *writer = argument;

	for (uint64_t done = 0; done < writer->length;) {
		uint64_t rest = writer->length - done;
		ssize_t n = write(writer->fd, writer->content + done,
				  rest < writer->piece ? rest : writer->piece);

		if (n < 0)
			break;
		done += (uint64_t)n;
		if (writer->pause)
			usleep(writer->pause);
	}
	close(writer->fd);
	return NULL;
}

/* The read end becomes standard input. */
static int make_stdin(void)
{
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	return ends[1];
}

static void stream(const uint8_t *content, uint64_t length, uint64_t piece, uint64_t stream_bytes)
{
	struct writer writer = { make_stdin(), content, length, piece, piece < 5000 ? 100 : 0, 0 };

	pthread_create(&writer.thread, NULL, write_stream, &writer);
	start("-", MESSAGE, stream_bytes);
	cr_assert_eq(source_kind(source), SOURCE_STREAM);
	cr_assert_eq(source_total_bytes(source), stream_bytes);
	cr_assert_eq(collect(), SOURCE_RING_CLOSED);
	pthread_join(writer.thread, NULL);
}

Test(source, stream_of_unknown_length)
{
	for (size_t i = 0; i < SIZES; i++) {
		uint8_t *content = make_content(sizes[i]);

		stream(content, sizes[i], i & 1 ? 65536 : 100000, 0);
		expect_content(content, sizes[i]);
		expect_cut(sizes[i], MESSAGE);
		cr_assert_eq(stop(), 0);
		free(content);
	}
}

Test(source, stream_of_known_length)
{
	for (size_t i = 1; i < SIZES; i++) {
		uint8_t *content = make_content(sizes[i]);

		stream(content, sizes[i], i & 1 ? 65536 : 777777, sizes[i]);
		expect_content(content, sizes[i]);
		expect_cut(sizes[i], MESSAGE);
		cr_assert_eq(source_excess_bytes(source), 0);
		cr_assert_eq(stop(), 0);
		free(content);
	}
}

Test(source, stream_that_trickles)
{
	uint8_t *content = make_content(25000);

	for (int known = 0; known < 2; known++) {
		stream(content, 25000, 333, known ? 25000 : 0);
		expect_content(content, 25000);
		expect_cut(25000, MESSAGE);
		cr_assert_eq(stop(), 0);
	}
	free(content);
}

struct ending {
	uint64_t length; /* what the stream has, of 30000 declared */
	uint64_t messages;
	uint64_t last, taken; /* declared and delivered bytes of the last one */
};

Test(source, stream_that_ends_early)
{
	static const struct ending table[] = {
		{ 0, 1, 0, 0 },
		{ 1, 1, MESSAGE, 1 },
		{ MESSAGE, 1, MESSAGE, MESSAGE }, /* on the border: no message that is all fill */
		{ MESSAGE + 1, 2, MESSAGE, 1 },
		{ 29999, 3, MESSAGE, 9999 },
	};
	uint8_t *content = make_content(30000);

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		stream(content, table[i].length, 65536, 30000);
		expect_content(content, table[i].length);
		cr_assert_eq(messages, table[i].messages, "row %zu", i);
		cr_assert_eq(lengths[messages - 1], table[i].last, "row %zu", i);
		cr_assert_eq(availables[messages - 1], table[i].taken, "row %zu", i);
		cr_assert_eq(stop(), 0);
	}
	free(content);
}

Test(source, stream_beyond_its_length_is_discarded_and_counted)
{
	uint8_t *content = make_content(3000000);
	double end = seconds() + 5;

	stream(content, 3000000, 65536, 25000);
	expect_content(content, 25000);
	expect_cut(25000, MESSAGE);
	while (source_excess_bytes(source) < 3000000 - 25000 && seconds() < end)
		usleep(1000);
	cr_assert_eq(source_excess_bytes(source), 3000000 - 25000);
	cr_assert_eq(stop(), 0);
	free(content);
}

Test(source, bytes_of_a_known_stream_leave_as_they_arrive)
{
	int fd = make_stdin();

	start("-", MESSAGE, 2 * MESSAGE);
	usleep(20000);
	cr_assert_eq(source_ring_peek(&consumer, &view), SOURCE_RING_EMPTY,
		     "no message before a byte");
	cr_assert_eq(write(fd, "0123456789", 10), 10);
	wait_for_bytes(10);
	cr_assert_eq(view.length, MESSAGE);
	cr_assert_eq(view.available, 10);
	cr_assert_not(view.ended);
	cr_assert_eq(memcmp(view.payload, "0123456789", 10), 0);
	close(fd);
	while (!view.ended)
		cr_assert_eq(wait_for_more(10), SOURCE_RING_MESSAGE);
	cr_assert_eq(view.available, 10);
	cr_assert_eq(stop(), 0);
}

Test(source, open_ended_messages_start_with_their_first_byte)
{
	int fd = make_stdin();

	start_with(
		(struct source_config){ .path = "-", .message_size = MESSAGE, .open_ended = true });
	cr_assert_eq(source_total_bytes(source), 0);
	cr_assert_eq(write(fd, "0123456789", 10), 10);
	wait_for_bytes(10);
	cr_assert_eq(view.length, MESSAGE);
	cr_assert_not(view.ended);
	close(fd);
	while (!view.ended)
		cr_assert_eq(wait_for_more(10), SOURCE_RING_MESSAGE);
	cr_assert_eq(view.available, 10);
	cr_assert_eq(stop(), 0);
}

Test(source, message_of_an_unknown_stream_starts_when_it_is_complete)
{
	uint8_t *content = make_content(MESSAGE);
	int fd = make_stdin();

	start("-", MESSAGE, 0);
	cr_assert_eq(write(fd, content, MESSAGE - 1), MESSAGE - 1);
	usleep(20000);
	cr_assert_eq(source_ring_peek(&consumer, &view), SOURCE_RING_EMPTY);
	cr_assert_eq(write(fd, content, 1), 1);
	wait_for_bytes(MESSAGE);
	cr_assert_eq(view.length, MESSAGE);
	close(fd);
	cr_assert_eq(stop(), 0);
	free(content);
}

Test(source, fifo)
{
	uint8_t *content = make_content(123456);
	struct writer writer = { -1, content, 123456, 10000, 0, 0 };

	cr_assert_eq(mkfifo(path, 0600), 0);
	start(path, MESSAGE, 0);
	cr_assert_eq(source_kind(source), SOURCE_STREAM);
	usleep(20000); /* the writer comes later */
	writer.fd = open(path, O_WRONLY);
	pthread_create(&writer.thread, NULL, write_stream, &writer);
	cr_assert_eq(collect(), SOURCE_RING_CLOSED);
	pthread_join(writer.thread, NULL);
	expect_content(content, 123456);
	cr_assert_eq(stop(), 0);
	free(content);
}

Test(source, device)
{
	uint8_t *zero = calloc(1, 1000000);

	start("/dev/zero", MESSAGE, 1000000);
	cr_assert_eq(collect(), SOURCE_RING_CLOSED);
	expect_content(zero, 1000000);
	cr_assert_eq(source_excess_bytes(source), 0, "a device has no writer to be kept alive");
	cr_assert_eq(stop(), 0);
	start("/dev/null", MESSAGE, 0);
	cr_assert_eq(collect(), SOURCE_RING_CLOSED);
	expect_cut(0, MESSAGE);
	cr_assert_eq(stop(), 0);
	free(zero);
}

Test(source, pattern)
{
	static const uint64_t message_sizes[] = { 0, 1, 7, 8, 1000, 4099, 3 << 20 };

	for (size_t i = 0; i < sizeof(message_sizes) / sizeof(message_sizes[0]); i++) {
		uint64_t size = message_sizes[i];

		start_with(
			(struct source_config){ .message_size = size, .messages = 3, .seed = i });
		cr_assert_eq(source_kind(source), SOURCE_PATTERN);
		cr_assert_eq(source_total_bytes(source), 3 * size);
		cr_assert_eq(collect(), SOURCE_RING_CLOSED);
		cr_assert_eq(messages, 3);
		cr_assert_eq(bytes, 3 * size);
		for (uint64_t j = 0; j < bytes; j++)
			cr_assert_eq(payload[j], source_pattern_byte(i, j));
		cr_assert_eq(stop(), 0);
	}
	start_with((struct source_config){ .message_size = 100, .messages = 0 });
	cr_assert_eq(collect(), SOURCE_RING_CLOSED);
	cr_assert_eq(messages, 0);
	cr_assert_eq(stop(), 0);
}

/* splitmix64 with seed 0 begins with 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4. */
Test(source, pattern_is_splitmix64_little_endian)
{
	static const uint8_t expected[16] = { 0xAF, 0xCD, 0x1D, 0x7B, 0x39, 0xA8, 0x20, 0xE2,
					      0xF4, 0x65, 0xB9, 0xA1, 0x6A, 0x9E, 0x78, 0x6E };
	uint8_t buffer[16];

	for (uint64_t from = 0; from < 16; from++) {
		for (uint64_t to = from; to <= 16; to++) {
			memset(buffer, 0, sizeof(buffer));
			source_pattern_fill(buffer + from, 0, from, to - from);
			cr_assert_eq(memcmp(buffer + from, expected + from, to - from), 0);
			cr_assert(to == 16 || buffer[to] == 0);
		}
	}
}

static uint64_t count_entries(const char *name)
{
	DIR *entries = opendir(name);
	uint64_t count = 0;

	while (readdir(entries))
		count++;
	closedir(entries);
	return count;
}

static void open_full_ring(void)
{
	start_with((struct source_config){ .message_size = MESSAGE, .messages = 1u << 30 });
	wait_until_full();
}

static void open_large_message(void)
{
	start_with((struct source_config){ .message_size = 1u << 30, .messages = 1 });
}

static int held = -1;

static void open_fifo_without_writer(void)
{
	mkfifo(path, 0600);
	start(path, MESSAGE, 0);
}

static void open_empty_fifo(void)
{
	open_fifo_without_writer();
	held = open(path, O_WRONLY);
}

static void open_known_stream_in_mid_message(void)
{
	mkfifo(path, 0600);
	start(path, MESSAGE, 50000);
	held = open(path, O_WRONLY);
	cr_assert_eq(write(held, "bytes", 5), 5);
	wait_for_bytes(5);
}

static void open_unknown_stream_in_mid_message(void)
{
	open_empty_fifo();
	cr_assert_eq(write(held, "bytes", 5), 5);
}

static void open_excess(void)
{
	mkfifo(path, 0600);
	start(path, MESSAGE, 5);
	held = open(path, O_WRONLY);
	cr_assert_eq(write(held, "bytes and more", 14), 14);
	cr_assert_eq(collect(), SOURCE_RING_CLOSED);
}

Test(source, stop_returns_from_wherever_the_thread_waits)
{
	void (*const open_blocked[])(void) = {
		open_full_ring,
		open_large_message,
		open_fifo_without_writer,
		open_empty_fifo,
		open_excess,
		open_known_stream_in_mid_message,
		open_unknown_stream_in_mid_message,
	};
	uint64_t descriptors, threads = count_entries("/proc/self/task");

	descriptors = count_entries("/proc/self/fd");
	for (size_t i = 0; i < sizeof(open_blocked) / sizeof(open_blocked[0]); i++) {
		open_blocked[i]();
		usleep(20000); /* now it waits */
		cr_assert_eq(stop(), 0);
		if (held >= 0)
			close(held);
		held = -1;
		unlink(path);
	}
	cr_assert_eq(count_entries("/proc/self/fd"), descriptors);
	cr_assert_eq(count_entries("/proc/self/task"), threads);
	cr_assert_eq(source_stop(NULL, &error), 0);
}

/* A consumer that outlives its source sees an end, and not one that looks complete. */
Test(source, stopped_in_the_middle_is_failed)
{
	int fd = make_stdin();

	start("-", MESSAGE, 50000);
	cr_assert_eq(write(fd, "bytes", 5), 5);
	wait_for_bytes(5);
	cr_assert_eq(source_stop(source, &error), 0);
	cr_assert_eq(collect(), SOURCE_RING_FAILED);
	cr_assert_eq(lengths[0], MESSAGE);
	expect_content((const uint8_t *)"bytes", 5);
	source_ring_close(&consumer);
	close(fd);
}
