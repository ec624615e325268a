"""Runs a bpftrace program around a block: attached before it, its maps read after it. The program is a child that dies
with the kit. Its probes end with it, since they depend on its open files alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kit.core.errors import MachineError, RunError
from kit.host.command import Process, died, require, run, spawn, stop
from kit.host.interrupt import interruptible
from kit.host.mounts import read_mounts

T = TypeVar("T")
PROGRAMS = Path(__file__).parent
TRACEFS = Path("/sys/kernel/tracing")
#: Entries of each map. The reader of the maps counts the entries that find no free slot.
ENTRIES = 8192
#: The variables for that limit: in older releases, in newer ones.
_ENTRIES_FROM = ("BPFTRACE_MAP_KEYS_MAX", "BPFTRACE_MAX_MAP_KEYS")
#: Seconds until a program is attached, or detached and its maps written, on a slow or busy machine.
_PATIENCE = 120.0
#: Limits: bytes of all maps, digits of a number, commas of a key. The kit's programs write far less.
_LONGEST, _DIGITS, _PARTS = 64 << 20, 20, 8
_DAMAGED = "run it again; kit doctor says what can be traced here"
_ATTACHED = '"attached\\n"'


@dataclass
class Maps:
    """The maps of a program, filled at the end of its block. Keys are numbers; multiple keys are tuples."""

    values: dict[str, dict[tuple[int, ...], int]] = field(default_factory=dict)
    histograms: dict[str, dict[tuple[int, ...], tuple[tuple[int, int], ...]]] = field(default_factory=dict)

    def of(self, name: str, parts: int = 1) -> Mapping[tuple[int, ...], int]:
        """Return a map by its name without ``@``, empty if it has no entries. Raises RunError if its keys have another
        number of parts than ``parts``."""
        return _of_parts(self.values.get(name, {}), name, parts)

    def histogram(self, name: str) -> Mapping[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Return a map of intervals likewise."""
        return _of_parts(self.histograms.get(name, {}), name, 1)

    def number(self, name: str) -> int:
        """Return the value of a map without keys."""
        return self.values.get(name, {}).get((), 0)


def _of_parts(held: Mapping[tuple[int, ...], T], name: str, parts: int) -> Mapping[tuple[int, ...], T]:
    if any(len(key) != parts for key in held):
        raise RunError(f"bpftrace wrote a map {name[:60]!r} whose keys are not of {parts} parts", _DAMAGED)
    return held


def with_tracefs() -> Path:
    """Return the directory of tracepoints; mount it if missing, in the session's private mount namespace. Raises
    MachineError."""
    for mount in read_mounts():
        if mount.type == "tracefs" and (mount.path / "events").is_dir():
            return mount.path
    if os.geteuid() != 0:
        raise MachineError("tracing needs root", "run as root: sudo kit …")
    if not TRACEFS.is_dir():
        raise MachineError("this kernel has no tracefs", "use a kernel with CONFIG_FTRACE and tracepoints")
    run(["mount", "-t", "tracefs", "nodev", TRACEFS], what="mounting tracefs")
    return TRACEFS


def program(names: Sequence[str], words: Mapping[str, str]) -> str:
    """Return the text of these files, one after the other, with the kit's words replaced."""
    text = "\n".join((PROGRAMS / f"{name}.bt").read_text(encoding="utf-8") for name in names)
    for word, replacement in words.items():
        text = text.replace(word, replacement)
    return text


@contextmanager
def attached(text: str, scratch: Path, procs: Sequence[Path]) -> Iterator[Maps]:
    """Run the program during the block. Raises RunError if it can't be attached, with the message of the verifier or
    bpftrace in one line, and if it ended too early."""
    require("bpftrace")
    source, output, errors = (scratch / f"trace.{suffix}" for suffix in ("bt", "json", "err"))
    source.write_text(text, encoding="utf-8")
    output.write_bytes(b"")
    maps = Maps()
    with errors.open("wb") as error_file:
        entries = [f"{name}={ENTRIES}" for name in _ENTRIES_FROM]
        words = ["env", *entries, "bpftrace", "-f", "json", "-o", output, source]
        process = spawn([str(word) for word in words], output=error_file, cgroup_procs=procs)
        try:
            _wait(process, output, errors)
            yield maps
            if process.poll() is not None:
                raise RunError(f"bpftrace ended under the run: {_last_line(errors) or died(process)}", "run kit doctor")
        finally:
            stop(process, _PATIENCE)
    if process.returncode != 0:
        why = f"{died(process)}; {_last_line(errors)}"
        raise RunError(
            f"bpftrace did not write what it had counted: {why}", "see with kit doctor what can be traced here"
        )
    read_maps(output, maps)


def _wait(process: Process, output: Path, errors: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while _ATTACHED not in output.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            why = _last_line(errors) or died(process) or f"not attached after {_PATIENCE:.0f} s"
            raise RunError(f"bpftrace: {why}", "see with kit doctor what can be traced here")
        with interruptible():
            time.sleep(0.02)


def _last_line(errors: Path) -> str:
    """Return the error among warnings and a verifier's log."""
    lines = [line.strip() for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    lines = [line for line in lines if "RLIMIT_MEMLOCK" not in line]  # a warning, whatever it calls itself
    errors_named = [line for line in lines if "ERROR" in line]
    return (errors_named or lines or [""])[-1]


def read_maps(output: Path, maps: Maps | None = None) -> Maps:
    """Add bpftrace's JSON output to ``maps``. Other lines are skipped: cut-off lines, or bpftrace's own messages. The
    reader of the maps counts what is missing. Raises RunError for an unreadable map."""
    maps = maps or Maps()
    with output.open("rb") as file:
        text = file.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise RunError(f"bpftrace wrote more than {_LONGEST >> 20} MiB of maps", _DAMAGED)
    for line in text.splitlines():
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            continue
        data = message.get("data") if isinstance(message, dict) else None
        if not isinstance(data, dict) or message.get("type") not in ("map", "hist"):
            continue
        for name, content in data.items():
            listed = content if isinstance(content, dict) else {"": content}
            try:
                if message["type"] == "map":
                    maps.values[name.lstrip("@")] = {_key(key): _number(value) for key, value in listed.items()}
                else:
                    maps.histograms[name.lstrip("@")] = {_key(key): _powers(rows) for key, rows in listed.items()}
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                raise RunError(f"bpftrace wrote a map {name[:60]!r} that can't be read: {error}", _DAMAGED) from None
    return maps


def _number(value: object) -> int:
    """Raises ValueError, TypeError."""
    if (isinstance(value, str) and len(value) > _DIGITS) or not isinstance(value, str | int):
        raise TypeError("no number")
    number = int(value)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError("a number out of range")
    return number


def _key(text: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in text.split(",", _PARTS)) if text else ()


def _powers(rows: Sequence[Mapping[str, object]]) -> tuple[tuple[int, int], ...]:
    """Return log2 of each interval's beginning and its count; empty intervals are left out."""
    powers = ((_number(row.get("min", 0)), _number(row["count"])) for row in rows)
    return tuple((least.bit_length() - 1 if least > 0 else 0, count) for least, count in powers if count)
