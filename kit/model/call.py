"""Records of traced runs: system calls, requests to a FUSE daemon, page faults, each by kind. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.codec import Amount, Count

#: A system call; a request to a FUSE daemon, by opcode; page faults that waited; files copied from a lower layer to the
#: upper one; a function of the kernel's, with what it calls; what a tracer could not record.
CALL, FUSE, FAULT, COPY_UP, FUNCTION, LOST = "call", "fuse", "fault", "copy-up", "function", "lost"
#: Names of rows: page faults, calls whose end was not recorded, calls before the tracer started.
PAGE_FAULT, NOT_RECORDED = "page fault", "not recorded"
#: Objects of copy-ups; new files of which nothing says whether they were copied or created; files by whether their
#: filesystem says which data they have alone, those bytes; unions whose copy-ups are unknown, without their upper
#: directory.
FILE, DIRECTORY, UNMARKED = "file", "directory", "copied or created"
WITH_DATA, NO_DATA, UNSEEN = "data of files", "data not known", "union not seen"


@dataclass(frozen=True)
class Call:
    """All calls of one name in one phase of one traced run, summed over all processes of the arm. Times are seconds."""

    name: str
    count: Count
    #: From entry to exit, in all; of these it was off the CPU in the four states below.
    seconds: Amount = 0.0
    #: In uninterruptible sleep: disk, network filesystem, a lock in the kernel; for fork calls, the child's exec.
    disk: Amount = 0.0
    daemon: Amount = 0.0  # while a request of it to a FUSE daemon was under way
    slept: Amount = 0.0  # otherwise asleep: pipe, child, futex, timer
    ready: Amount = 0.0  # able to run, while others had the CPU
    #: Log2 of the nanoseconds of a whole call; how many calls lay between that power and the next.
    histogram: tuple[tuple[Count, Count], ...] = ()
    errors: tuple[tuple[str, Count], ...] = ()  # names of errno values (EXDEV), and how often
    kind: str = CALL
    #: Of copy-ups: the sizes of the files, or the data that the copies have alone.
    bytes: Amount = 0.0

    @property
    def cpu(self) -> float:
        """Return the seconds in the kernel on a CPU."""
        return max(0.0, self.seconds - self.disk - self.daemon - self.slept - self.ready)
