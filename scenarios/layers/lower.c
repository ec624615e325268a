// What a layered driver does and plain files do not: lower MODE DIRECTORY PARALLEL FILES [FLAT]
//
// FILES files lie in DIRECTORY as DD/NNNN, a hundred in each DD, or with FLAT as NNNN. PARALLEL processes share them.
//   read     open, read whole, close
//   append   open for appending, write one byte, close: the first to do so in a layered filesystem copies the file up
//   stat     look up each file, which no one has before in this mount; then all again, twenty times
//   readdir  list the directory, which no one has before; then again, twenty times
//   rename   rename(2) of the directory itself; where the driver refuses (EXDEV), copy and delete as mv does
//   deep     append to the file at the end of each chain of directories DIRECTORY/NN-00/NN-01/…
// Prints figures as "kit: NAME = VALUE UNIT".
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 20, DEEP = 20 };
static const char *directory;
static int flat;
static char buffer[1 << 20];

static void fail(const char *what) {
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static const char *path_of(int number) {
	static char path[4096];
	if (flat)
		snprintf(path, sizeof path, "%s/%04d", directory, number);
	else
		snprintf(path, sizeof path, "%s/%02d/%04d", directory, number / 100, number);
	return path;
}

static long read_file(int number) {
	int file = open(path_of(number), O_RDONLY);
	if (file < 0)
		fail(path_of(number));
	long sum = 0, part;
	while ((part = read(file, buffer, sizeof buffer)) > 0)
		sum += part;
	if (part < 0)
		fail(path_of(number));
	close(file);
	return sum;
}

static void append_to(const char *path) {
	int file = open(path, O_WRONLY | O_APPEND);
	if (file < 0 || write(file, "x", 1) != 1 || close(file))
		fail(path);
}

static long append_file(int number) {
	append_to(path_of(number));
	return 1;
}

static long append_deep(int number) {
	char path[4096];
	int used = snprintf(path, sizeof path, "%s", directory);
	for (int level = 0; level < DEEP; level++)
		used += snprintf(path + used, sizeof path - used, "/%02d-%02d", number, level);
	snprintf(path + used, sizeof path - used, "/file");
	append_to(path);
	return 1;
}

static int ascending(const void *one, const void *other) {
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

// PARALLEL processes take every PARALLEL-th file each; latencies of all of them in one shared array.
static void in_parallel(int parallel, int files, long (*act)(int), int show_bytes) {
	double *latency = mmap(0, sizeof(double) * files, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long *bytes = mmap(0, sizeof(long) * files, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (latency == MAP_FAILED || bytes == MAP_FAILED)
		fail("mmap");
	double begin = now();
	for (int worker = 0; worker < parallel; worker++) {
		pid_t child = fork();
		if (child < 0)
			fail("fork");
		if (!child) {
			for (int number = worker; number < files; number += parallel) {
				double start = now();
				bytes[number] = act(number);
				latency[number] = now() - start;
			}
			_exit(0);
		}
	}
	int status, bad = 0;
	while (wait(&status) > 0)
		bad |= status;
	if (bad)
		exit(1);
	double seconds = now() - begin;
	long sum = 0;
	for (int number = 0; number < files; number++)
		sum += bytes[number];
	qsort(latency, files, sizeof *latency, ascending);
	printf("kit: files = %.6g per s, more is better\n", files / seconds);
	if (show_bytes)
		printf("kit: bandwidth = %.6g MB/s, more is better\n", sum / seconds / 1e6);
	printf("kit: latency p50 = %.6g µs\n", latency[files / 2] * 1e6);
	printf("kit: latency p99 = %.6g µs\n", latency[files * 99 / 100] * 1e6);
	printf("kit: latency, worst = %.6g µs\n", latency[files - 1] * 1e6);
}

static void stat_all(int files) {
	struct stat info;
	for (int number = 0; number < files; number++)
		if (stat(path_of(number), &info))
			fail(path_of(number));
}

static void list_all(int files) {
	int seen = 0;
	DIR *stream = opendir(directory);
	if (!stream)
		fail(directory);
	for (struct dirent *entry; (entry = readdir(stream));)
		seen += entry->d_name[0] != '.';
	closedir(stream);
	if (seen != files) {
		fprintf(stderr, "%s holds %d files, not %d\n", directory, seen, files);
		exit(1);
	}
}

static void first_and_again(int files, void (*act)(int)) {
	double start = now();
	act(files);
	double middle = now();
	for (int turn = 0; turn < REPEATS; turn++)
		act(files);
	double each = 1e6 / files;
	printf("kit: per file, the first time = %.6g µs\n", (middle - start) * each);
	printf("kit: per file, again = %.6g µs\n", (now() - middle) * each / REPEATS);
}

static void rename_directory(void) {
	char target[4096], command[9000];
	snprintf(target, sizeof target, "%s.renamed", directory);
	double start = now();
	int refused = rename(directory, target) != 0;
	if (refused && errno != EXDEV)
		fail("rename");
	if (refused) {
		snprintf(command, sizeof command, "cp -a '%s' '%s' && rm -r '%s'", directory, target, directory);
		if (system(command))
			fail("copying instead of renaming");
	}
	printf("kit: rename = %.6g µs\n", (now() - start) * 1e6);
	printf("kit: refused with EXDEV, copied instead = %d\n", refused);
}

int main(int count, char **words) {
	if (count < 5)
		return fprintf(stderr, "lower MODE DIRECTORY PARALLEL FILES [FLAT]\n"), 2;
	const char *mode = words[1];
	directory = words[2];
	int parallel = atoi(words[3]), files = atoi(words[4]);
	flat = count > 5;
	if (!strcmp(mode, "read"))
		in_parallel(parallel, files, read_file, 1);
	else if (!strcmp(mode, "append"))
		in_parallel(parallel, files, append_file, 0);
	else if (!strcmp(mode, "deep"))
		in_parallel(parallel, files, append_deep, 0);
	else if (!strcmp(mode, "stat"))
		first_and_again(files, stat_all);
	else if (!strcmp(mode, "readdir"))
		first_and_again(files, list_all);
	else if (!strcmp(mode, "rename"))
		rename_directory();
	else
		return fprintf(stderr, "unknown mode %s\n", mode), 2;
	return 0;
}
