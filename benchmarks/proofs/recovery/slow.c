/*
 * Preloaded into a build: makes opening files slower by a known amount, in those arms alone that SLOW_WHERE means.
 *
 *   container  every open, if this is a container         hits runtime, bind and layer
 *   read       opens below /usr that lie on an overlay     hits bind and layer
 *   write      opens in the build tree, if on an overlay   hits layer
 *
 * It spins, and notes CPU (ledger.h): by another clock than the kit's, and one that stands still with the build where
 * arms run by turns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include "ledger.h"

#define OVERLAYFS 0x794c7630

static char where;
static int contained;

__attribute__((constructor)) static void set_up(void)
{
	const char *place = open_ledger("SLOW_WHERE");
	if (!place)
		return;
	where = place[0];
	/* In a container of the kit the first process is its probe. */
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	char name[16] = "";
	int fd = real("/proc/1/comm", O_RDONLY);
	contained = fd >= 0 && read(fd, name, sizeof name - 1) > 0 && strcmp(name, "kit-probe\n") == 0;
	close(fd);
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
			int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID), now;
			do
				now = now_ns(CLOCK_THREAD_CPUTIME_ID);
			while (now - start < amount);
			note(now - start);
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
