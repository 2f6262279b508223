/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a ring, and the way its ends wake each other; see producer.c and consumer.c for the
 * ends.
 */
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wake.h"

#define SMALLEST (4ull << 20)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static bool is_power_of_two(uint64_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

uint64_t source_ring_size_for(uint64_t message_size)
{
	/* Two records, and less than one more lost to a skip before the end of the area. */
	uint64_t need = 3 * source_record_size(message_size);
	uint64_t size = SMALLEST;

	while (size < need)
		size *= 2;
	return size;
}

/*
 * No wake-up is lost, because both ends do the same with a full barrier in between (the
 * store-buffer pattern): the one that has news stores the news, fence, loads the flag; the one that
 * goes to sleep stores the flag, fence, loads the news. Whatever the order, at least one of the two
 * loads sees the other's store: either the sleeper finds the news and stays awake, or it is woken.
 * Acquire and release alone would let both loads overtake both stores. The exchange makes it one
 * write for one sleep.
 */
void source_ring_wake(uint32_t *waits, int fd)
{
	const uint64_t one = 1;
	ssize_t written;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(waits, __ATOMIC_RELAXED) == 0 ||
	    __atomic_exchange_n(waits, 0, __ATOMIC_RELAXED) == 0)
		return;
	/* EAGAIN only when the counter is full: then the other end is awake already. */
	written = write(fd, &one, sizeof(one));
	(void)written;
}

void source_ring_will_wait(uint32_t *waits)
{
	__atomic_store_n(waits, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void source_ring_awake(uint32_t *waits, int fd)
{
	uint64_t count;
	ssize_t taken;

	__atomic_store_n(waits, 0, __ATOMIC_RELAXED);
	taken = read(fd, &count, sizeof(count)); /* EAGAIN when nobody wrote */
	(void)taken;
}

static int map(struct source_ring *ring, struct error *error)
{
	void *memory = mmap(NULL, SOURCE_RING_HEADER + ring->size, PROT_READ | PROT_WRITE,
			    MAP_SHARED, ring->memory_fd, 0);

	if (memory == MAP_FAILED)
		return error_set(error, errno, "a source ring of %llu KiB cannot be mapped: %s",
				 (unsigned long long)ring->size >> 10, strerror(errno));
	ring->header = memory;
	ring->data = (uint8_t *)memory + SOURCE_RING_HEADER;
	return 0;
}

static void start_empty(struct source_ring *ring)
{
	memset(ring, 0, sizeof(*ring));
	ring->memory_fd = ring->payload_fd = ring->space_fd = -1;
}

/* Pages come when they are first written: a ring beyond the machine's memory would die much later.
 */
static int check_memory(uint64_t size, struct error *error)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	if (size < memory)
		return 0;
	return error_set(
		error, ENOMEM,
		"a source ring of %llu MiB (two messages) is more than this machine's memory of "
		"%llu MiB: use smaller messages",
		(unsigned long long)size >> 20, (unsigned long long)memory >> 20);
}

int source_ring_create(struct source_ring *producer, uint64_t size, struct error *error)
{
	int rc;

	start_empty(producer);
	if (!is_power_of_two(size) || size < 4096)
		return error_set(
			error, EINVAL,
			"a source ring of %llu bytes is not a power of two of at least 4096",
			(unsigned long long)size);
	rc = check_memory(size, error);
	if (rc < 0)
		return rc;
	producer->size = size;
	producer->memory_fd = memfd_create("source-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	producer->payload_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	producer->space_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (producer->memory_fd < 0 || producer->payload_fd < 0 || producer->space_fd < 0 ||
	    ftruncate(producer->memory_fd, (off_t)(SOURCE_RING_HEADER + size)) < 0 ||
	    fcntl(producer->memory_fd, F_ADD_SEALS, SEALS) < 0)
		rc = error_set(error, errno, "a source ring of %llu KiB cannot be made: %s",
			       (unsigned long long)size >> 10, strerror(errno));
	else
		rc = map(producer, error);
	if (rc < 0) {
		source_ring_close(producer);
		return rc;
	}
	producer->header->magic = SOURCE_RING_MAGIC;
	producer->header->version = SOURCE_RING_VERSION;
	producer->header->size = size;
	return 0;
}

/* What the kernel vouches for: the size of the memory, and that it will stay. */
static int check_memory_fd(struct source_ring *ring, struct error *error)
{
	int seals = fcntl(ring->memory_fd, F_GET_SEALS);
	struct stat status;

	if (seals < 0 || (seals & SEALS) != SEALS)
		return error_set(
			error, EINVAL,
			"the source ring's memory can still change its size: it must be a memfd "
			"sealed with F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL");
	if (fstat(ring->memory_fd, &status) < 0)
		return error_set(error, errno, "the source ring cannot be examined: %s",
				 strerror(errno));
	ring->size = (uint64_t)status.st_size - SOURCE_RING_HEADER;
	if (status.st_size < SOURCE_RING_HEADER + 4096 || !is_power_of_two(ring->size))
		return error_set(
			error, EINVAL,
			"the source ring's memory has %lld bytes: 4096 and a power of two of at "
			"least 4096 are expected",
			(long long)status.st_size);
	return 0;
}

static int check_header(const struct source_ring *ring, struct error *error)
{
	uint32_t magic = __atomic_load_n(&ring->header->magic, __ATOMIC_RELAXED);
	uint32_t version = __atomic_load_n(&ring->header->version, __ATOMIC_RELAXED);
	uint64_t size = __atomic_load_n(&ring->header->size, __ATOMIC_RELAXED);

	if (magic != SOURCE_RING_MAGIC)
		return error_set(error, EPROTO,
				 "not a source ring: it begins with 0x%08x instead of 0x%08x",
				 magic, SOURCE_RING_MAGIC);
	if (version != SOURCE_RING_VERSION)
		return error_set(error, EPROTO,
				 "the source ring has version %u, this program knows %u: update "
				 "the older one",
				 version, SOURCE_RING_VERSION);
	if (size != ring->size)
		return error_set(error, EPROTO,
				 "the source ring declares %llu bytes, its memory holds %llu",
				 (unsigned long long)size, (unsigned long long)ring->size);
	return 0;
}

int source_ring_attach(struct source_ring *consumer, const struct source_ring *producer,
		       struct error *error)
{
	int rc;

	start_empty(consumer);
	consumer->memory_fd = fcntl(producer->memory_fd, F_DUPFD_CLOEXEC, 0);
	consumer->payload_fd = fcntl(producer->payload_fd, F_DUPFD_CLOEXEC, 0);
	consumer->space_fd = fcntl(producer->space_fd, F_DUPFD_CLOEXEC, 0);
	if (consumer->memory_fd < 0 || consumer->payload_fd < 0 || consumer->space_fd < 0)
		rc = error_set(error, errno, "the source ring cannot be opened: %s",
			       strerror(errno));
	else
		rc = check_memory_fd(consumer, error);
	if (rc == 0)
		rc = map(consumer, error);
	if (rc == 0)
		rc = check_header(consumer, error);
	if (rc < 0) {
		source_ring_close(consumer);
		return rc;
	}
	/* A consumer that comes later starts at what was not released yet; peek checks it. */
	consumer->position = __atomic_load_n(&consumer->header->tail, __ATOMIC_ACQUIRE);
	return 0;
}

void source_ring_close(struct source_ring *ring)
{
	if (ring->header)
		munmap(ring->header, SOURCE_RING_HEADER + ring->size);
	if (ring->memory_fd >= 0)
		close(ring->memory_fd);
	if (ring->payload_fd >= 0)
		close(ring->payload_fd);
	if (ring->space_fd >= 0)
		close(ring->space_fd);
	start_empty(ring);
}
