/*
 * The timer that runs inside an arm.
 *
 *   kit-probe serve SOCKET [ROOT]   connect to SOCKET, then chroot to ROOT if given, and serve requests
 *   kit-probe step CWD WORD...      run a command as the only step of a container, and print its answer behind its output
 *   kit-probe spin                  print the nanoseconds that a fixed amount of arithmetic took, and those of a
 *                                   fixed number of page faults and dependent loads from memory
 *
 * It is static and talks to nothing but its socket, so that it runs in any root filesystem, as PID 1 of a
 * container as well as below a chroot. The session takes its counters while the probe waits for a request
 * and again when the answer has come, so neither engine nor exec latency is ever inside a measurement.
 *
 * A request is a 4-byte little-endian length and that many bytes of NUL-terminated fields:
 *   run, cwd, uid, gid, number of environment entries, the entries, the words of the command
 *      with one file descriptor attached (SCM_RIGHTS): the command's stdout and stderr
 *   nosync: the kernel skips the system calls of later commands that wait until data are on the disk
 * The answer is one line of key=value pairs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_REQUEST (4u << 20)
#define ENDING_TURNS 5000 /* of a millisecond: what does not die by then hangs in the kernel */
#define SPIN_STEPS 4000000u
#define SPINS 3
#define CHASE_LINES (1u << 19) /* cache lines of 64 bytes: 32 MiB, more than a share of most last-level caches */
#define CHASE_LOADS 400000u

extern char **environ;

struct failure {
	int error;
	char what[16];
};

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t usec(struct timeval t)
{
	return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

static void fail_child(int report, const char *what)
{
	struct failure f = { .error = errno };
	strncpy(f.what, what, sizeof f.what - 1);
	if (write(report, &f, sizeof f) < 0)
		_exit(126);
	_exit(127);
}

/* End everything below this process: what a child leaves behind comes to the probe, its subreaper. Called from a
 * signal handler. Without CONFIG_PROC_CHILDREN only the command's process group is ended. */
static void end_descendants(pid_t group)
{
	static char list[1 << 16];
	struct timespec moment = { .tv_nsec = 1000000 };
	if (group > 0)
		kill(-group, SIGKILL);
	for (int turn = 0; turn < ENDING_TURNS; turn++) {
		int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
		ssize_t size = fd < 0 ? 0 : read(fd, list, sizeof list - 1);
		pid_t pid = 0, ended;
		if (fd >= 0)
			close(fd);
		for (ssize_t i = 0; i < size; i++) {
			if (list[i] >= '0' && list[i] <= '9') {
				pid = pid * 10 + list[i] - '0';
				continue;
			}
			if (pid > 0)
				kill(pid, SIGKILL);
			pid = 0;
		}
		while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (ended < 0)
			return; /* no child is left */
		nanosleep(&moment, NULL);
	}
}

/* The session that asked is gone, or has had enough: end the command, and with PID 1 everything in the container.
 * gVisor sends the signal also when the watch begins, with nothing to read. */
static pid_t running;
static int watched;

static void hung_up(int number)
{
	struct pollfd state = { .fd = watched, .events = POLLIN | POLLRDHUP };
	int before = errno;
	(void)number;
	if (poll(&state, 1, 0) == 0) {
		errno = before;
		return;
	}
	signal(SIGTERM, SIG_IGN);
	end_descendants(running);
	_exit(3);
}

static void watch(int sock, int on)
{
	watched = sock;
	fcntl(sock, F_SETOWN, getpid());
	fcntl(sock, F_SETFL, on ? O_ASYNC : 0);
}

static void exec_child(int report, int output, const char *cwd, uid_t uid, gid_t gid, char **env, char **argv)
{
	int null = open("/dev/null", O_RDONLY);
	setsid();
	if (null >= 0)
		dup2(null, 0);
	dup2(output, 1);
	dup2(output, 2);
	signal(SIGPIPE, SIG_DFL);
	if (uid != 0 || gid != 0) {
		if (setgroups(1, &gid) || setgid(gid) || setuid(uid))
			fail_child(report, "setuid");
	}
	if (chdir(cwd))
		fail_child(report, "chdir");
	environ = env;
	execvp(argv[0], argv);
	fail_child(report, "exec");
}

/* Reap everything that ends, as PID 1 must, until the command itself has ended. */
static int wait_for(pid_t child, int *status, struct rusage *usage)
{
	for (;;) {
		pid_t pid = wait4(-1, status, 0, usage);
		if (pid == child)
			return 0;
		if (pid < 0 && errno != EINTR)
			return -1;
	}
}

struct command {
	int output;
	const char *cwd;
	uid_t uid;
	gid_t gid;
	char **env;
	char **argv;
};

/* Run a command to its end, and write the answer into line. */
static void run_command(const struct command *command, char *line, size_t room)
{
	struct failure failure = { 0 };
	struct rusage usage;
	int status, report[2];

	if (pipe2(report, O_CLOEXEC)) {
		snprintf(line, room, "status=error errno=%d what=pipe\n", errno);
		return;
	}
	int64_t start = now_ns();
	pid_t child = fork();
	if (child == 0)
		exec_child(report[1], command->output, command->cwd, command->uid, command->gid, command->env, command->argv);
	running = child;
	int waited = child < 0 ? -1 : wait_for(child, &status, &usage);
	int64_t end = now_ns();
	int error = errno;
	running = 0;

	close(report[1]);
	ssize_t got = read(report[0], &failure, sizeof failure);
	close(report[0]);
	if (waited < 0) {
		snprintf(line, room, "status=error errno=%d what=fork\n", error);
		return;
	}
	if (got == sizeof failure) {
		snprintf(line, room, "status=error errno=%d what=%s\n", failure.error, failure.what);
		return;
	}
	int signalled = WIFSIGNALED(status);
	snprintf(line, room,
		 "status=%s code=%d real_ns=%lld end_ns=%lld user_us=%lld sys_us=%lld maxrss_kib=%ld minflt=%ld majflt=%ld "
		 "nvcsw=%ld nivcsw=%ld oublock=%ld\n",
		 signalled ? "signal" : "exit", signalled ? WTERMSIG(status) : WEXITSTATUS(status),
		 (long long)(end - start), (long long)end, (long long)usec(usage.ru_utime),
		 (long long)usec(usage.ru_stime), usage.ru_maxrss, usage.ru_minflt, usage.ru_majflt, usage.ru_nvcsw, usage.ru_nivcsw,
		 usage.ru_oublock);
}

static int answer_run(int sock, int output, char **field, int count)
{
	char line[512];

	int nenv = count > 4 ? atoi(field[4]) : -1;
	if (nenv < 0 || count < 5 + nenv + 1 || output < 0)
		return dprintf(sock, "status=error errno=%d what=request\n", EINVAL);
	char **env = calloc(nenv + 1, sizeof *env);
	char **argv = calloc(count - 5 - nenv + 1, sizeof *argv);
	memcpy(env, field + 5, nenv * sizeof *env);
	memcpy(argv, field + 5 + nenv, (count - 5 - nenv) * sizeof *argv);

	struct command command = { output, field[1], atoi(field[2]), atoi(field[3]), env, argv };
	watch(sock, 1);
	run_command(&command, line, sizeof line);
	watch(sock, 0);
	free(env);
	free(argv);
	return dprintf(sock, "%s", line);
}

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define ARCH_32 AUDIT_ARCH_I386
static const uint32_t calls_32[] = { 36, 118, 148, 144, 314, 344 }; /* arch/x86/entry/syscalls/syscall_32.tbl */
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#define ARCH_32 AUDIT_ARCH_ARM
static const uint32_t calls_32[] = { 36, 118, 148, 144, 341, 373 }; /* arch/arm/tools/syscall.tbl */
#endif
#define ALLOWED BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

#ifdef ARCH
/* Append to a filter: on this architecture these calls return 0 at once, others run, and what follows is for others. */
static size_t skip_calls(struct sock_filter *filter, uint32_t arch, const uint32_t *calls, size_t count)
{
	size_t size = 0;
	filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 0, count + 3);
	filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < count; i++)
		filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], count - i, 0);
	filter[size++] = (struct sock_filter)ALLOWED;
	filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0);
	return size;
}
#endif

/* From here on the kernel skips the system calls that wait until data are on the disk, and reports success (seccomp(2);
 * systemd-nspawn --suppress-sync does the same). This holds for static programs and in any root too. Not for a file that
 * is opened with O_SYNC or O_DSYNC, nor for io_uring: a filter sees neither. Return 0, or an error number. */
static int suppress_syncs(void)
{
#ifndef ARCH
	return ENOSYS;
#else
	static const uint32_t calls[] = { __NR_sync, __NR_fsync, __NR_fdatasync, __NR_msync, __NR_sync_file_range, __NR_syncfs };
	/* Without this flag Linux before 5.16 makes speculation slower in a process that has a filter; gVisor has no flag. */
	static const unsigned flags[] = { SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0 };
	struct sock_filter filter[2 * (sizeof calls / sizeof *calls + 5) + 1];
	size_t size = skip_calls(filter, ARCH, calls, sizeof calls / sizeof *calls);
	size += skip_calls(filter + size, ARCH_32, calls_32, sizeof calls_32 / sizeof *calls_32);
	filter[size++] = (struct sock_filter)ALLOWED;
	struct sock_fprog program = { .len = size, .filter = filter };

	for (int privileged = 1; privileged >= 0; privileged--) {
		/* A filter needs CAP_SYS_ADMIN, or that no later program gains rights. */
		if (!privileged && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
			return errno;
		for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
			if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags[i], &program) == 0)
				return fsync(-1) ? EBADF : 0; /* it fails, unless it is skipped */
	}
	return errno;
#endif
}

static int answer_nosync(int sock)
{
	int error = suppress_syncs();
	return error ? dprintf(sock, "status=error errno=%d what=seccomp\n", error) : dprintf(sock, "status=done\n");
}

/* A RUN step of an image build. Its output is all that leaves the container: two lines in it, with the time, enclose
 * the command's own. It succeeds however the command ends, or a builder would discard the layer and say why in words of
 * its own; the second line says how. */
static int step(const char *cwd, char **argv)
{
	struct command command = { 1, cwd, 0, 0, environ, argv };
	struct timespec t;
	char line[512];

	signal(SIGPIPE, SIG_IGN);
	umask(022);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	clock_gettime(CLOCK_REALTIME, &t);
	dprintf(1, "kit-step began %lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
	run_command(&command, line, sizeof line);
	clock_gettime(CLOCK_REALTIME, &t);
	dprintf(1, "\nkit-step ended %lld.%09ld %s", (long long)t.tv_sec, t.tv_nsec, line);
	return 0;
}

/* Read exactly size bytes; take along a file descriptor if one is attached to the first of them. */
static int receive(int sock, void *buffer, size_t size, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	size_t done = 0;
	while (done < size) {
		struct iovec iov = { (char *)buffer + done, size - done };
		struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
					  .msg_controllen = sizeof control };
		ssize_t got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		if (header && header->cmsg_type == SCM_RIGHTS && fd)
			memcpy(fd, CMSG_DATA(header), sizeof *fd);
		done += got;
	}
	return 0;
}

static int serve_one(int sock)
{
	int output = -1, count = 0, result;
	uint32_t size;
	if (receive(sock, &size, sizeof size, &output) || size == 0 || size > MAX_REQUEST)
		return -1;
	char *body = malloc(size + 1);
	char **field = calloc(size + 1, sizeof *field);
	if (!body || !field || receive(sock, body, size, &output))
		return -1;
	body[size] = 0;
	for (char *p = body; p < body + size; p += strlen(p) + 1)
		field[count++] = p;
	if (count && strcmp(field[0], "run") == 0)
		result = answer_run(sock, output, field, count);
	else if (count && strcmp(field[0], "nosync") == 0)
		result = answer_nosync(sock);
	else
		result = dprintf(sock, "status=error errno=%d what=request\n", EINVAL);
	if (output >= 0)
		close(output);
	free(field);
	free(body);
	return result < 0 ? -1 : 0;
}

static int serve(const char *path, const char *root)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (strlen(path) >= sizeof address.sun_path) {
		fprintf(stderr, "kit-probe: socket path too long: %s\n", path);
		return 2;
	}
	strcpy(address.sun_path, path);
	if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof address)) {
		fprintf(stderr, "kit-probe: %s: %s\n", path, strerror(errno));
		return 2;
	}
	if (root && (chroot(root) || chdir("/"))) {
		fprintf(stderr, "kit-probe: %s: %s\n", root, strerror(errno));
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGIO, hung_up);
	umask(022);
	/* Daemons that leave the tree come back to the probe on every arm, not only where it is PID 1. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	while (serve_one(sock) == 0)
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	return 0;
}

static int64_t arithmetic(void)
{
	/* A chain of dependent multiplications: its time follows the clock speed and nothing else. The fastest of a
	 * few counts, because being preempted once, or reading this page from disk, is not the clock's doing. */
	volatile uint64_t sink;
	uint64_t x = 88172645463325252u;
	int64_t best = INT64_MAX;
	for (int spin = 0; spin < SPINS; spin++) {
		int64_t start = now_ns();
		for (uint32_t i = 0; i < SPIN_STEPS; i++)
			x = x * 6364136223846793005u + 1442695040888963407u;
		int64_t took = now_ns() - start;
		if (took < best)
			best = took;
	}
	sink = x;
	(void)sink;
	return best;
}

static int64_t memory(void)
{
	/* Fresh pages, then loads that each wait for the one before: what a neighbour on the same memory slows down. */
	enum { STRIDE = 64 / sizeof(uint64_t) };
	size_t size = (size_t)CHASE_LINES * 64;
	int64_t start = now_ns();
	uint64_t *lines = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (lines == MAP_FAILED)
		return -1;
	madvise(lines, size, MADV_NOHUGEPAGE);
	uint64_t at = 0;
	for (uint32_t i = 0; i < CHASE_LINES; i++) { /* one cycle through all lines: Hull and Dobell 1962 */
		uint64_t next = (at * 5 + 12345) % CHASE_LINES;
		lines[at * STRIDE] = next;
		at = next;
	}
	volatile uint64_t sink;
	for (uint32_t i = 0; i < CHASE_LOADS; i++)
		at = lines[at * STRIDE];
	sink = at;
	(void)sink;
	munmap(lines, size);
	return now_ns() - start;
}

static int spin(void)
{
	int64_t first = arithmetic(), second = memory();
	printf("%lld %lld\n", (long long)first, (long long)second);
	return second < 0;
}

int main(int argc, char **argv)
{
	if (argc >= 3 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2], argc > 3 ? argv[3] : NULL);
	if (argc >= 4 && strcmp(argv[1], "step") == 0)
		return step(argv[2], argv + 3);
	if (argc == 2 && strcmp(argv[1], "spin") == 0)
		return spin();
	fprintf(stderr, "usage: kit-probe serve SOCKET [ROOT] | kit-probe step CWD WORD... | kit-probe spin\n");
	return 2;
}
