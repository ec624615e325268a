"""Divides a build's output: what the step's command has printed, and what the build tool says of its own work."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from threading import Thread
from typing import IO

from kit.core.errors import RunError

_BEGAN, _ENDED = b"kit-step began ", b"kit-step ended "
_CHUNK = 1 << 16
#: Most lines of a build tool's own that are kept, and most bytes of a line.
_MOST, _LONGEST = 10_000, 2_000
#: Lines of a failed build that the run's log gets.
_SHOWN = 20
#: Seconds within which the last output arrives after the tool has ended.
_PATIENCE = 10.0


#: What BuildKit prints of a step's output: the number of the step, and seconds since its start. The end of the step may
#: be printed right behind a line that is not complete yet.
_PRINTED = re.compile(rb"#(\d+) \d+\.\d+ (.*?)(?:#\1 DONE \d+\.\ds)?")


def printed_in_buildkit(line: bytes) -> bytes | None:
    """Return what a step has printed in this line of BuildKit's; None if the line is BuildKit's own, or the rest of a
    line that BuildKit printed in two parts, with lines of its own between them."""
    match = _PRINTED.fullmatch(line)
    return match[2] if match else None


class BuildOutput:
    """Reads a build's output from a pipe, in a thread of the kit's: outside the arm, in no measured time.

    ``lines``: those of the build tool, each after its time of arrival (Unix time). ``answer``: the timer's answer about
    the command, None if the command did not run, as with a cached step."""

    def __init__(self, output: IO[bytes], printed: Callable[[bytes], bytes | None]) -> None:
        self.lines: list[str] = []
        self.answer: bytes | None = None
        self._printed = printed
        self._inside = False
        self._pending = b""  # a newline of the command's is held back: the last one is the timer's
        self._target = os.dup(output.fileno())
        self._source, self.pipe = os.pipe2(os.O_CLOEXEC)
        self._thread = Thread(target=self._read, name="build output", daemon=True)
        self._note(b"kit-build began")

    def begin(self) -> None:
        """Read until the pipe's last writer has ended. Call it once the build has the pipe."""
        os.close(self.pipe)
        self._thread.start()

    def end(self, failed: bool = False) -> None:
        """Wait for the end of the output. Of a failed build, the tool's last lines follow the command's. Raises
        RunError if something keeps the pipe open."""
        if self._target < 0:
            return
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            raise RunError("the build has ended, but a process keeps its output open", "see with ps what it left")
        self._note(b"kit-build ended")
        for line in self.lines[-_SHOWN:] if failed else ():
            self._write(f"{line.partition(' ')[2]}\n".encode())
        os.close(self._target)
        self._target = -1

    def _read(self) -> None:
        partial = b""
        try:
            while chunk := os.read(self._source, _CHUNK):
                *lines, partial = (partial + chunk).split(b"\n")
                for line in lines:
                    self._take(line)
            if partial:
                self._take(partial)
        finally:
            os.close(self._source)

    def _take(self, line: bytes) -> None:
        payload = self._printed(line)
        if payload is not None and payload.startswith(_BEGAN):
            self._inside = True
            self._note(payload)
        elif payload is not None and payload.startswith(_ENDED):
            self._inside, self._pending = False, b""
            when, _, self.answer = payload.removeprefix(_ENDED).partition(b" ")
            self._note(_ENDED + when)
        elif self._inside and payload is not None:
            self._write(self._pending + payload)
            self._pending = b"\n"
        elif self._inside and line and not line.startswith(b"#"):
            self._write(line)  # the rest of a line: BuildKit's own lines begin with a number
        else:
            self._note(line)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._target, data) :]

    def _note(self, line: bytes) -> None:
        if len(self.lines) < _MOST:
            self.lines.append(f"{time.time():.6f} {line[:_LONGEST].decode(errors='replace').strip()}")
