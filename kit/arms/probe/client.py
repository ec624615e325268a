"""Communicates with the probe inside an arm over a Unix socket; probe.c describes the protocol."""

from __future__ import annotations

import os
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from kit.core.deadline import Deadline
from kit.core.errors import SESSION_LOG, RunError, TimedOut
from kit.host.interrupt import interruptible
from kit.host.page_cache import BLOCK

SOCKET_NAME = "s"
#: Seconds in which the probe must end its children.
_GOODBYE = 10.0
#: Seconds to wait for a probe.
_PATIENCE = 60.0
#: Maximum bytes of an answer: twice the longest one.
_LONGEST_ANSWER = 1024
#: Readings of a clock that is not this machine's.
_CLOCK_READINGS = 3
#: Fields of Timing that gVisor's kernel does not count as Linux does.
COUNTS = ("minor_faults", "major_faults", "voluntary_switches", "involuntary_switches", "dirtied_bytes")
_STATES = ("exit", "signal", "error")


@dataclass(frozen=True)
class Timing:
    """What the probe measured of one command: seconds from a monotonic clock, rusage of the waited-for tree.

    Exactly one of ``exit_code`` and ``signal`` is set. Counts are None that the arm's kernel does not keep.
    """

    exit_code: int | None
    signal: int | None
    real: float
    user: float
    sys: float
    max_rss: int  # bytes
    minor_faults: int | None
    major_faults: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None
    dirtied_bytes: int | None
    ended: float  # on the same clock, CLOCK_MONOTONIC
    copies: int = 1  # that ran at once
    spread: float = 0.0  # seconds from the end of the first copy to that of the last

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


class ProbeServer:
    """The socket a probe connects to, in a directory that the arm sees.

    ``shared``: for a container with remapped users. The directory above must keep other users out then.
    """

    def __init__(self, directory: Path, shared: bool = False) -> None:
        self.path = directory / SOCKET_NAME
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self.path.chmod(0o666 if shared else 0o600)
        self._listener.listen(1)

    def accept(self, alive: Callable[[], str]) -> Probe:
        """Wait for the probe. ``alive``, called every second, returns why the probe will never come, or ''. Raises
        RunError."""
        deadline = time.monotonic() + _PATIENCE
        while not select.select([self._listener], [], [], 1.0)[0]:
            reason = alive() or (f"no answer within {_PATIENCE:g} s" if time.monotonic() > deadline else "")
            if reason:
                raise RunError(
                    f"the probe did not start: {reason}", "check with kit doctor whether this arm works here"
                )
        connection, _ = self._listener.accept()
        return Probe(connection)

    def close(self) -> None:
        self._listener.close()
        self.path.unlink(missing_ok=True)


class Probe:
    """A connected probe."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._asked = "", ""
        self._behind = 0.0
        self._own_kernel = False

    @property
    def pid(self) -> int:
        """Return the probe's PID as this process sees it (SO_PEERCRED, unix(7)); 0 if it can't see it."""
        pid, _, _ = struct.unpack("3i", self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid)

    def meet_kernel(self, program: str) -> None:
        """Learn of an arm with a kernel of its own how far its clock is behind this machine's: it begins at 0. That
        kernel keeps no counts. ``program``: the probe as the arm sees it; without words it ends at once. Raises
        RunError."""
        self._own_kernel = True
        readings = []
        with open(os.devnull, "wb") as output:
            for _ in range(_CLOCK_READINGS):
                timing = self.run([program], cwd="/", env={}, output=output)
                readings.append(time.monotonic() - timing.ended)
        self._behind = min(readings)  # the answer that was on its way for the shortest time

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        output: IO[bytes],
        uid: int = 0,
        gid: int = 0,
        alive: Callable[[], str] = lambda: "",
        deadline: Deadline | None = None,
    ) -> Timing:
        """Run a command in the arm to its end. Raises RunError if it can't be started or the arm dies meanwhile. Raises
        TimedOut past the deadline: then the probe has ended all its children, and itself.

        ``alive`` is called every second while waiting and returns why the arm is dead, or ''."""
        self.start(argv, cwd=cwd, env=env, output=output, uid=uid, gid=gid)
        while not self.answers(_patience(deadline)):
            if deadline and time.monotonic() >= deadline.at:
                self.end()
                raise TimedOut(deadline.text)
            reason = alive()
            if reason:
                raise RunError(f"the arm died: {reason}", SESSION_LOG)
        return self.timing(alive)

    def aside(self) -> AbstractContextManager[None]:
        """Return a block of commands that later ones do not depend on, as a reporter is."""
        return nullcontext()

    @property
    def ran(self) -> bool:
        """Return whether the last command ran."""
        return True

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        output: IO[bytes],
        uid: int = 0,
        gid: int = 0,
    ) -> None:
        """Request a command: it begins as soon as the probe reads the request. Raises RunError if the arm is dead."""
        entries = [f"{key}={value}" for key, value in env.items()]
        fields = ["run", cwd, str(uid), str(gid), str(len(entries)), *entries, *argv]
        self._asked = argv[0], cwd
        self._request(fields, output.fileno())

    def suppress_syncs(self) -> None:
        """Let the kernel skip sync, fsync, fdatasync, msync, syncfs and sync_file_range in later commands: they succeed
        without effect, in all programs and roots (seccomp(2)). Files opened with O_SYNC, io_uring, AIO and pwritev2
        with RWF_DSYNC still wait. Raises RunError."""
        self._request(["nosync"])
        answer = self._answer()
        if failed := re.fullmatch(rb"status=error errno=(\d+) what=seccomp\n", answer):
            raise RunError(
                f"+nosync: no filter of system calls can be set: {os.strerror(int(failed[1]))}",
                "use a kernel with CONFIG_SECCOMP_FILTER on x86_64 or aarch64, or leave out +nosync",
            )
        if answer != b"status=done\n":
            raise _garbled(answer)

    def _request(self, fields: Sequence[str], *descriptors: int) -> None:
        body = b"".join(os.fsencode(word) + b"\0" for word in fields)
        try:
            socket.send_fds(self.connection, [struct.pack("<I", len(body))], descriptors)
            self.connection.sendall(body)
        except OSError as error:
            raise RunError(f"the arm died: {error.strerror}", SESSION_LOG) from None

    def answers(self, patience: float) -> bool:
        """Return whether, within this number of seconds, the command has ended or the arm died."""
        with interruptible():
            return bool(select.select([self.connection], [], [], patience)[0])

    def timing(self, alive: Callable[[], str] = lambda: "") -> Timing:
        """Return the timing of the ended command. Raises RunError if it could not be started, or the arm died."""
        timing = parse_answer(self._answer(alive), *self._asked)
        if self._own_kernel:
            unknown: dict[str, Any] = dict.fromkeys(COUNTS)
            timing = replace(timing, **unknown, ended=min(timing.ended + self._behind, time.monotonic()))
        return timing

    def _answer(self, alive: Callable[[], str] = lambda: "") -> bytes:
        received = b""
        while not received.endswith(b"\n"):
            try:
                part = self.connection.recv(4096)
            except OSError as error:
                raise RunError(f"the arm died: {error.strerror}", SESSION_LOG) from None
            if not part:
                raise RunError(
                    f"the arm died: {alive() or 'its probe is gone'}",
                    "check for lack of memory, and for programs that kill processes",
                )
            received += part
            if len(received) > _LONGEST_ANSWER:
                raise _garbled(received)
        return received

    def end(self) -> None:
        """Close the connection, and wait until the probe has ended all its children. It can't end a process that hangs
        in the kernel."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_GOODBYE)
        with suppress(OSError):
            while self.connection.recv(4096):
                pass

    def close(self) -> None:
        self.connection.close()


def _patience(deadline: Deadline | None) -> float:
    return 1.0 if deadline is None else min(1.0, max(0.0, deadline.at - time.monotonic()))


def parse_answer(answer: bytes, command: str, cwd: str) -> Timing:
    """Return what the probe says of an ended command. Raises RunError if it could not be started, or the answer is
    invalid."""
    try:
        values = dict(word.split("=", 1) for word in answer.decode().split())
        if values["status"] not in _STATES:
            raise ValueError(values["status"])
        numbers = {name: int(text) for name, text in values.items() if name not in ("status", "what")}
        if not all(0 <= number < 1 << 63 for number in numbers.values()):
            raise ValueError("a number out of range")
        if values["status"] == "error":
            reason = os.strerror(numbers["errno"])
            what = {"exec": f"'{command}'", "chdir": f"directory '{cwd}'"}.get(values["what"], values["what"])
        else:
            return _timing(values["status"] == "exit", numbers)
    except (ValueError, LookupError, OverflowError):
        raise _garbled(answer) from None
    raise RunError(f"can't start the command: {what}: {reason}", "check that it is in the image and on its PATH")


def _timing(exited: bool, numbers: Mapping[str, int]) -> Timing:
    return Timing(
        exit_code=numbers["code"] if exited else None,
        signal=None if exited else numbers["code"],
        real=numbers["real_ns"] / 1e9,
        user=numbers["user_us"] / 1e6,
        sys=numbers["sys_us"] / 1e6,
        max_rss=numbers["maxrss_kib"] * 1024,
        minor_faults=numbers["minflt"],
        major_faults=numbers["majflt"],
        voluntary_switches=numbers["nvcsw"],
        involuntary_switches=numbers["nivcsw"],
        dirtied_bytes=numbers["oublock"] * BLOCK,
        ended=numbers["end_ns"] / 1e9,
    )


def _garbled(answer: bytes) -> RunError:
    return RunError(
        f"the probe says what the kit does not know: {answer[:60]!r}",
        "check whether the workload writes to /kit-control",
    )
