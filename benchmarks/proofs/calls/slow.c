/*
 * Preloaded: makes one library call, that of SLOW_CALL, slower, and notes by how much (ledger.h).
 *
 *   mkdirat, symlinkat, linkat   sleeps; in a FUSE daemon: whoever asks it for that waits
 *   open                         spins, in the process itself, before the system call: user time, no call's
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include "ledger.h"

static const char *which = "";

__attribute__((constructor)) static void set_up(void)
{
	const char *call = open_ledger("SLOW_CALL");
	if (call)
		which = call;
}

/* What it notes is the time asleep, or the CPU of a spin, which asks the kernel for no clock while it lasts. */
static void delay(const char *call, int asleep)
{
	if (!ledger || !amount || strcmp(which, call) != 0)
		return;
	clockid_t noted = asleep ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
	struct timespec time = {0, amount};
	int64_t start = now_ns(CLOCK_MONOTONIC), before = now_ns(noted);
	if (asleep)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
	while (now_ns(CLOCK_MONOTONIC) - start < amount)
		;
	note(now_ns(noted) - before);
}

int mkdirat(int directory, const char *path, mode_t mode)
{
	int (*real)(int, const char *, mode_t) = dlsym(RTLD_NEXT, "mkdirat");
	delay("mkdirat", 1);
	return real(directory, path, mode);
}

int symlinkat(const char *target, int directory, const char *path)
{
	int (*real)(const char *, int, const char *) = dlsym(RTLD_NEXT, "symlinkat");
	delay("symlinkat", 1);
	return real(target, directory, path);
}

int linkat(int from, const char *name, int directory, const char *path, int flags)
{
	int (*real)(int, const char *, int, const char *, int) = dlsym(RTLD_NEXT, "linkat");
	delay("linkat", 1);
	return real(from, name, directory, path, flags);
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
