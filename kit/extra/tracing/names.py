"""The names of system calls and FUSE requests by their numbers on this machine."""

from __future__ import annotations

import errno
from functools import lru_cache

#: As the program in calls.bt says of a thread that ended within a call; the kernel's own for a return from a signal
#: handler, which leaves no number behind.
EXIT, SIGNAL_RETURN = -2, -1
#: Offsets that the program adds to the number of a call, by the request in its flags.
_VARIANTS = {10000: ", creating", 20000: ", writing"}

#: enum fuse_opcode of include/uapi/linux/fuse.h, whose numbers never change.
_OPCODES = (
    (1, "LOOKUP FORGET GETATTR SETATTR READLINK SYMLINK"), (8, "MKNOD MKDIR UNLINK RMDIR RENAME LINK OPEN READ"),
    (16, "WRITE STATFS RELEASE"), (20, "FSYNC SETXATTR GETXATTR LISTXATTR REMOVEXATTR FLUSH INIT OPENDIR READDIR"),
    (29, "RELEASEDIR FSYNCDIR GETLK SETLK SETLKW ACCESS CREATE INTERRUPT BMAP DESTROY IOCTL POLL NOTIFY_REPLY"),
    (42, "BATCH_FORGET FALLOCATE READDIRPLUS RENAME2 LSEEK COPY_FILE_RANGE SETUPMAPPING REMOVEMAPPING SYNCFS"),
    (51, "TMPFILE STATX"),
)  # fmt: skip


#: Results that only the kernel sees: interrupted calls, most of which restart by themselves (include/linux/errno.h).
_RESTARTED = {512: "ERESTARTSYS", 513: "ERESTARTNOINTR", 514: "ERESTARTNOHAND", 516: "ERESTART_RESTARTBLOCK"}


@lru_cache
def _opcodes() -> dict[int, str]:
    return {first + at: name for first, names in _OPCODES for at, name in enumerate(names.split())}


def opcode_name(number: int) -> str:
    return _opcodes().get(number, f"opcode {number}")


@lru_cache(1024)
def call_name(number: int) -> str:
    """Return the name of a system call by its number on this machine's architecture; ``call N`` if the tables lack
    it."""
    from system_calls import NoSuchSystemCall, syscalls

    for added, flags in _VARIANTS.items():
        if 0 <= number - added < 10000:
            return f"{call_name(number - added)}{flags}"
    if number in (EXIT, SIGNAL_RETURN):
        return "exit" if number == EXIT else "rt_sigreturn"
    try:
        return str(syscalls().get_name(number))
    except NoSuchSystemCall:
        return f"call {number}"


def call_number(name: str) -> int:
    """Return the number of a system call by its name."""
    from system_calls import syscalls

    return int(syscalls().get(name))


def error_name(number: int) -> str:
    return errno.errorcode.get(number) or _RESTARTED.get(number, f"errno {number}")
