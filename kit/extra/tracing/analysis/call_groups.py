"""Groups of system calls by meaning, and which part of their time off the CPU delayed their process. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kit.model.call import FAULT, FUNCTION, FUSE, Call

OPEN, STAT, LIST, READ, WRITE, CLOSE = "open", "stat", "list", "read", "write", "close"
NAMES, ATTRIBUTES, MEMORY, SYNC = "create, rename, remove", "change attributes", "map memory, fault", "sync"
EXEC, FORK, EXIT, WAIT, OTHER = "exec", "fork", "exit", "wait for others", "other"

_MEMBERS: Mapping[str, str] = {
    OPEN: "open openat openat2 creat open_by_handle_at open_tree",
    STAT: "stat lstat fstat newfstatat fstatat64 statx access faccessat faccessat2 readlink readlinkat statfs fstatfs "
    "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr name_to_handle_at chdir fchdir",
    LIST: "getdents getdents64",
    READ: "read pread64 readv preadv preadv2 readahead",
    WRITE: "write pwrite64 writev pwritev pwritev2 truncate ftruncate fallocate copy_file_range sendfile splice",
    CLOSE: "close close_range",
    NAMES: "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod mknodat",
    ATTRIBUTES: "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat "
    "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr",
    MEMORY: "mmap munmap mprotect mremap brk madvise",
    SYNC: "fsync fdatasync sync syncfs sync_file_range msync",
    EXEC: "execve execveat",
    FORK: "fork vfork clone clone3",
    EXIT: "exit exit_group",
    WAIT: "futex futex_wait futex_waitv wait4 waitid poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 "
    "nanosleep clock_nanosleep pause rt_sigsuspend rt_sigtimedwait flock io_getevents io_pgetevents io_uring_enter "
    "accept accept4 connect recvfrom recvmsg recvmmsg sendto sendmsg sendmmsg msgrcv semop semtimedop sched_yield "
    "restart_syscall",
}
_GROUP: Mapping[str, str] = {name: group for group, names in _MEMBERS.items() for name in names.split()}
#: Rows that are part of calls but no calls themselves: calls contain their time.
WITHIN = frozenset({FUSE, FUNCTION})
#: Groups whose calls never wait for another process of the workload: the driver causes all their delays.
_HELD_ASLEEP = frozenset({OPEN, STAT, LIST, NAMES, ATTRIBUTES, MEMORY, SYNC, EXEC})
#: Groups whose calls only wait for others, as a vfork for its child's exec.
_NEVER_HELD = frozenset({FORK, WAIT})


def group_of(call: Call) -> str:
    """Return the call's group; ``creating`` and similar suffixes after a comma belong to the call's own name."""
    if call.kind == FAULT:
        return MEMORY
    return call.kind if call.kind in WITHIN else _GROUP.get(call.name.partition(",")[0], OTHER)


def held(call: Call) -> float:
    """Return the seconds for which the call delayed its process: uninterruptible sleep (disk, lock), or a request to a
    FUSE daemon. All sleep counts in calls that wait for no other process of the workload."""
    group = group_of(call)
    if group in _NEVER_HELD or call.kind in WITHIN:
        return 0.0
    return call.disk + call.daemon + (call.slept if group in _HELD_ASLEEP else 0.0)
