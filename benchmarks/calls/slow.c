/*
 * Preloaded: makes one library call slower by SLOW_US microseconds, and adds what it really took to a counter in the
 * file SLOW_LEDGER, which all processes share.
 *
 *   mkdirat   sleeps; in a FUSE daemon: whoever asks it for a directory waits
 *   open      spins for so much CPU, in the process itself, before the system call: user time, no call's
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int64_t *ledger, amount;
static const char *which = "";

__attribute__((constructor)) static void set_up(void)
{
	const char *path = getenv("SLOW_LEDGER"), *us = getenv("SLOW_US"), *call = getenv("SLOW_CALL");
	if (!path || !us || !call)
		return;
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	int fd = real(path, O_RDWR);
	void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return;
	ledger = memory;
	amount = atoll(us) * 1000;
	which = call;
}

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* What it notes is the time asleep, or the CPU of a spin, which asks the kernel for no clock while it lasts. */
static void delay(const char *call, int asleep)
{
	if (!ledger || strcmp(which, call) != 0)
		return;
	clockid_t noted = asleep ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
	struct timespec time = {0, amount};
	int64_t start = now_ns(CLOCK_MONOTONIC), before = now_ns(noted);
	if (asleep)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
	while (now_ns(CLOCK_MONOTONIC) - start < amount)
		;
	__atomic_add_fetch(ledger, now_ns(noted) - before, __ATOMIC_RELAXED);
}

int mkdirat(int directory, const char *path, mode_t mode)
{
	int (*real)(int, const char *, mode_t) = dlsym(RTLD_NEXT, "mkdirat");
	delay("mkdirat", 1);
	return real(directory, path, mode);
}

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list rest; \
		va_start(rest, flags); \
		mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
		va_end(rest); \
		int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name); \
		delay("open", 0); \
		return real(path, flags, mode); \
	}
OPEN(open)
OPEN(open64)
