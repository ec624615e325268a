/*
 * fsync files|directories COUNT: COUNT times what a program does that must not lose data, each step timed.
 *
 *   files        open a new file, write 4096 bytes, fsync it, close it, rename it over the old one, fsync the directory
 *   directories  make a directory, fsync it, rename it, fsync the parent
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char block[4096];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void check(int failed, const char *what)
{
	if (failed) {
		fprintf(stderr, "fsync: %s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static void sync_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	check(fd < 0, path);
	check(fsync(fd), "fsync of a directory");
	close(fd);
}

static void file_cycle(long i)
{
	(void)i;
	int fd = open("work/new", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	check(fd < 0, "work/new");
	check(write(fd, block, sizeof block) != sizeof block, "write");
	check(fsync(fd), "fsync");
	check(close(fd), "close");
	check(rename("work/new", "work/current"), "rename");
	sync_path("work");
}

static void directory_cycle(long i)
{
	char name[64];
	check(mkdir("work/new", 0755), "mkdir");
	sync_path("work/new");
	snprintf(name, sizeof name, "work/d%ld", i);
	check(rename("work/new", name), "rename");
	sync_path("work");
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	long count = argc == 3 ? atol(argv[2]) : 0;
	if (count < 1 || (strcmp(argv[1], "files") && strcmp(argv[1], "directories"))) {
		fprintf(stderr, "usage: fsync files|directories COUNT\n");
		return 2;
	}
	void (*cycle)(long) = strcmp(argv[1], "files") ? directory_cycle : file_cycle;
	double *took = malloc(count * sizeof *took), start = now();
	check(!took, "malloc");
	check(mkdir("work", 0755) && errno != EEXIST, "work");
	for (long i = 0; i < count; i++) {
		double begin = now();
		cycle(i);
		took[i] = now() - begin;
	}
	double whole = now() - start;
	qsort(took, count, sizeof *took, compare);
	printf("kit: cycles = %.3f per s, more is better\n", count / whole);
	printf("kit: latency p50 = %.3f ms\n", took[(count - 1) / 2] * 1e3);
	printf("kit: latency p90 = %.3f ms\n", took[(count - 1) * 9 / 10] * 1e3);
	printf("kit: latency p99 = %.3f ms\n", took[(count - 1) * 99 / 100] * 1e3);
	printf("kit: latency worst = %.3f ms\n", took[count - 1] * 1e3);
	return 0;
}
