/*
 * allocate METHOD FILE BYTES: make a file of that size, sync it, and report how long that took and in how many
 * fragments it lies (FIEMAP; Documentation/filesystems/fiemap.rst). METHOD: fallocate, mmap, or the size of each write.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int fail(const char *what)
{
	fprintf(stderr, "allocate: %s: %s\n", what, strerror(errno));
	return 1;
}

/* Where the filesystem has none (ext3, unionfs-fuse), the C library writes a byte into each block, as for every program. */
static int by_fallocate(int fd, size_t size)
{
	int allocates = fallocate(fd, 0, 0, size) == 0;
	if (!allocates) {
		if (errno != EOPNOTSUPP)
			return fail("fallocate");
		errno = posix_fallocate(fd, 0, size);
		if (errno)
			return fail("posix_fallocate");
		printf("this filesystem has no fallocate: the C library has written into each block instead\n");
	}
	printf("kit: fallocate by the filesystem = %d\n", allocates);
	return 0;
}

static int by_mmap(int fd, size_t size)
{
	if (ftruncate(fd, size))
		return fail("ftruncate");
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return fail("mmap");
	memset(memory, 0x5a, size);
	if (munmap(memory, size))
		return fail("munmap");
	return 0;
}

static int by_write(int fd, size_t size, size_t each)
{
	char *block = malloc(each);
	if (!block)
		return fail("malloc");
	memset(block, 0x5a, each);
	for (size_t done = 0; done < size; ) {
		size_t want = size - done < each ? size - done : each;
		ssize_t wrote = write(fd, block, want);
		if (wrote <= 0)
			return fail("write");
		done += wrote;
	}
	free(block);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: allocate fallocate|mmap|WRITE-SIZE FILE BYTES\n");
		return 2;
	}
	size_t size = strtoull(argv[3], NULL, 10);
	int fd = open(argv[2], O_RDWR | O_CREAT | O_EXCL, 0644);
	if (fd < 0)
		return fail(argv[2]);
	double start = now();
	if (strcmp(argv[1], "fallocate") == 0) {
		if (by_fallocate(fd, size))
			return 1;
	} else if (strcmp(argv[1], "mmap") == 0) {
		if (by_mmap(fd, size))
			return 1;
	} else if (by_write(fd, size, strtoull(argv[1], NULL, 10))) {
		return 1;
	}
	double filled = now();
	if (fsync(fd))
		return fail("fsync");
	double synced = now();
	struct fiemap map = { .fm_length = FIEMAP_MAX_OFFSET, .fm_flags = FIEMAP_FLAG_SYNC };
	printf("kit: until synced = %.6f s\n", synced - start);
	printf("kit: of which sync = %.6f s\n", synced - filled);
	printf("kit: rate until synced = %.3f MB/s, more is better\n", size / 1e6 / (synced - start));
	if (ioctl(fd, FS_IOC_FIEMAP, &map) == 0)
		printf("kit: fragments = %u\n", map.fm_mapped_extents);
	else
		fprintf(stderr, "allocate: this filesystem has no FIEMAP (%s): no fragment count\n", strerror(errno));
	close(fd);
	return unlink(argv[2]) ? fail("unlink") : 0;
}
