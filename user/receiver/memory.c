/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A line of /proc/meminfo, 0 when there is none. Its unit, if any, is kB. */
static size_t meminfo(const char *name)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	size_t value = 0, length = strlen(name);

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length) && line[length] == ':' &&
		    sscanf(line + length + 1, "%zu", &value) == 1)
			break;
	if (file)
		fclose(file);
	return value;
}

static int no_huge_pages(size_t size, size_t page, int code, struct error *error)
{
	size_t free = meminfo("HugePages_Free"), reserved = meminfo("HugePages_Rsvd");

	return error_set(error, code,
			 "%zu huge pages of %zu kB are needed, and %zu are free: reserve them with "
			 "sysctl vm.nr_hugepages=%zu, or receive without --hugepages",
			 size / page, page / 1024, free - reserved,
			 meminfo("HugePages_Total") - (free - reserved) + size / page);
}

int receiver_memory_open(struct receiver_memory *memory, size_t size, bool huge,
			 struct error *error)
{
	size_t page = huge ? meminfo("Hugepagesize") * 1024 : (size_t)sysconf(_SC_PAGESIZE);
	size_t mapped;

	if (!page)
		return error_set(error, EOPNOTSUPP,
				 "this kernel has no huge pages: receive without --hugepages");
	mapped = (size + page - 1) / page * page;
	if (!size || mapped < size)
		return error_set(error, EINVAL, "%zu bytes of memory cannot be had", size);
	memory->bytes = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | (huge ? MAP_HUGETLB : 0), -1, 0);
	if (memory->bytes == MAP_FAILED) {
		memory->bytes = NULL;
		if (huge)
			return no_huge_pages(mapped, page, errno, error);
		return error_set(error, errno, "the receiver has no %zu bytes of memory left",
				 size);
	}
	memory->mapped = mapped;
	return 0;
}

void receiver_memory_close(struct receiver_memory *memory)
{
	if (memory->mapped)
		munmap(memory->bytes, memory->mapped);
	*memory = (struct receiver_memory){ 0 };
}
