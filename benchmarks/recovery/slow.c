/*
 * Preloaded into a build: makes opening files slower by a known amount, in those arms alone that SLOW_WHERE means.
 *
 *   container  every open, if this is a container         hits runtime, bind and layer
 *   read       opens below /usr that lie on an overlay     hits bind and layer
 *   write      opens in the build tree, if on an overlay   hits layer
 *
 * It spins SLOW_US microseconds of CPU and adds what it really took to a counter in the file SLOW_LEDGER, which all
 * processes of the build share: what was injected is known by another clock than the kit's, and one that stands still
 * with the build where arms run by turns.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define OVERLAYFS 0x794c7630

static int64_t *ledger, amount;
static char where;
static int contained;

__attribute__((constructor)) static void set_up(void)
{
	const char *path = getenv("SLOW_LEDGER"), *us = getenv("SLOW_US"), *place = getenv("SLOW_WHERE");
	if (!path || !us || !place)
		return;
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	int fd = real(path, O_RDWR);
	void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return;
	ledger = memory;
	amount = atoll(us) * 1000;
	where = place[0];
	/* In a container of the kit the first process is its probe. */
	char name[16] = "";
	fd = real("/proc/1/comm", O_RDONLY);
	contained = fd >= 0 && read(fd, name, sizeof name - 1) > 0 && strcmp(name, "kit-probe\n") == 0;
	close(fd);
}

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void delay(int fd, const char *path)
{
	int saved = errno;
	struct statfs fs;
	int in_tree = path[0] != '/' || strncmp(path, "/build", 6) == 0;
	if (ledger && fd >= 0 && fstatfs(fd, &fs) == 0) {
		int overlay = fs.f_type == OVERLAYFS;
		int hit = where == 'c' ? contained
			: where == 'r' ? overlay && strncmp(path, "/usr/", 5) == 0
			: where == 'w' ? overlay && in_tree : 0;
		if (hit && amount) {
			int64_t start = now_ns(), now;
			do
				now = now_ns();
			while (now - start < amount);
			__atomic_add_fetch(ledger, now - start, __ATOMIC_RELAXED);
		}
	}
	errno = saved;
}

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list rest; \
		va_start(rest, flags); \
		mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
		va_end(rest); \
		int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name); \
		int fd = real(path, flags, mode); \
		delay(fd, path); \
		return fd; \
	}
OPEN(open)
OPEN(open64)

#define FOPEN(name) \
	FILE *name(const char *path, const char *mode) \
	{ \
		FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, #name); \
		FILE *file = real(path, mode); \
		delay(file ? fileno(file) : -1, path); \
		return file; \
	}
FOPEN(fopen)
FOPEN(fopen64)
