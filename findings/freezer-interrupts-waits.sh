#!/bin/bash
# A process that cgroup v2 freezes and thaws gets EINTR from epoll_wait, semop, sigtimedwait, recv with a timeout, though
# no signal was sent; poll and nanosleep go on waiting.
#
# Tools that pause builds by cgroup.freeze therefore change programs that take EINTR for an error. Seen with Linux
# 6.18.44.
# As root, with a cgroup2 mount and gcc.
set -euo pipefail
dir=$(mktemp -d)
mount=$(findmnt -t cgroup2 -no TARGET | head -n 1)
group=$mount/freezer-finding-$$
trap 'rmdir "$group" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
mkdir "$group"
cat >"$dir/wait.c" <<'END'
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int result, ends[2];
	const char *what = argv[argc - 1];
	struct timespec three = {3, 0};
	puts("ready"); fflush(stdout);
	if (!strcmp(what, "epoll_wait")) {
		struct epoll_event event;
		result = epoll_wait(epoll_create1(0), &event, 1, 3000);
	} else if (!strcmp(what, "semop")) {
		struct sembuf down = {0, -1, 0};
		int id = semget(IPC_PRIVATE, 1, 0600);
		result = semtimedop(id, &down, 1, &three);
		int code = errno; semctl(id, 0, IPC_RMID); errno = code;
	} else if (!strcmp(what, "sigtimedwait")) {
		sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); sigprocmask(SIG_BLOCK, &set, NULL);
		result = sigtimedwait(&set, NULL, &three);
	} else if (!strcmp(what, "recv")) {
		struct timeval time = {3, 0}; char byte;
		socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
		setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
		result = recv(ends[0], &byte, 1, 0);
	} else if (!strcmp(what, "poll")) {
		result = poll(NULL, 0, 3000);
	} else {
		result = nanosleep(&three, NULL);
	}
	puts(result < 0 ? strerrorname_np(errno) : "0");
	return 0;
}
END
gcc -o "$dir/wait" "$dir/wait.c"
all=""
for what in epoll_wait semop sigtimedwait recv poll nanosleep; do
	"$dir/wait" "$what" >"$dir/out" &
	echo $! >"$group/cgroup.procs"
	until grep -q ready "$dir/out"; do sleep 0.1; done
	sleep 0.5
	echo 1 >"$group/cgroup.freeze"
	until grep -q "frozen 1" "$group/cgroup.events"; do sleep 0.1; done
	echo 0 >"$group/cgroup.freeze"
	wait $!
	echo "$what: $(tail -n 1 "$dir/out")"
	all="$all $what=$(tail -n 1 "$dir/out")"
done
[ "$all" = " epoll_wait=EINTR semop=EINTR sigtimedwait=EINTR recv=EINTR poll=0 nanosleep=0" ] || { echo "changed"; exit 1; }
