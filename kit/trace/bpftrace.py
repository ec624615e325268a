"""A bpftrace program around a block: attached before it, its maps read after it. It is a child that dies with the kit,
and all that it has loaded with it: what it attaches hangs on its open files alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.core.errors import MachineError, RunError
from kit.host.command import Process, died, require, run, spawn, stop
from kit.host.interrupt import interruptible
from kit.host.mounts import read_mounts

PROGRAMS = Path(__file__).parent
TRACEFS = Path("/sys/kernel/tracing")
#: Entries of each map; what finds none free is missed, and counted by who reads the maps.
ENTRIES = 8192
#: What it reads that from: older releases, newer ones.
_ENTRIES_FROM = ("BPFTRACE_MAP_KEYS_MAX", "BPFTRACE_MAX_MAP_KEYS")
#: Seconds until a program is attached, or detached and its maps written, on a machine that is slow or busy.
_PATIENCE = 120.0
_ATTACHED = '"attached\\n"'


@dataclass
class Maps:
    """What a program's maps hold: filled when its block has ended. Keys are numbers; of several, tuples."""

    values: dict[str, dict[tuple[int, ...], int]] = field(default_factory=dict)
    histograms: dict[str, dict[tuple[int, ...], tuple[tuple[int, int], ...]]] = field(default_factory=dict)

    def of(self, name: str) -> Mapping[tuple[int, ...], int]:
        """A map by its name without ``@``, empty where nothing was put into it."""
        return self.values.get(name, {})

    def number(self, name: str) -> int:
        """The value of one without keys."""
        return self.of(name).get((), 0)


def with_tracefs() -> Path:
    """Where tracepoints are; mounted where it is not, in the session's private mount namespace. Raises MachineError."""
    for mount in read_mounts():
        if mount.type == "tracefs" and (mount.path / "events").is_dir():
            return mount.path
    if os.geteuid() != 0:
        raise MachineError("tracing needs root", "sudo kit …")
    if not TRACEFS.is_dir():
        raise MachineError("this kernel has no tracefs", "a kernel with CONFIG_FTRACE and tracepoints")
    run(["mount", "-t", "tracefs", "nodev", TRACEFS], what="mounting tracefs")
    return TRACEFS


def program(names: Sequence[str], words: Mapping[str, str]) -> str:
    """The text of these files, one after the other, with words of the kit's replaced."""
    text = "\n".join((PROGRAMS / f"{name}.bt").read_text(encoding="utf-8") for name in names)
    for word, given in words.items():
        text = text.replace(word, given)
    return text


@contextmanager
def attached(text: str, scratch: Path, procs: Sequence[Path]) -> Iterator[Maps]:
    """Run the program while the block runs. Raises RunError where it can't be attached, with what the verifier or
    bpftrace itself said in one line, and where it ended too early."""
    require("bpftrace")
    source, output, errors = (scratch / f"trace.{suffix}" for suffix in ("bt", "json", "err"))
    source.write_text(text, encoding="utf-8")
    output.write_bytes(b"")
    maps = Maps()
    with errors.open("wb") as said:
        entries = [f"{name}={ENTRIES}" for name in _ENTRIES_FROM]
        words = ["env", *entries, "bpftrace", "-f", "json", "-o", output, source]
        process = spawn([str(word) for word in words], output=said, cgroup_procs=procs)
        try:
            _wait(process, output, errors)
            yield maps
            if process.poll() is not None:
                raise RunError(f"bpftrace ended under the run: {_last_line(errors) or died(process)}", "kit doctor")
        finally:
            stop(process, _PATIENCE)
    if process.returncode != 0:
        why = f"{died(process)}; {_last_line(errors)}"
        raise RunError(f"bpftrace did not write what it had counted: {why}", "kit doctor says what can be traced here")
    read_maps(output, maps)


def _wait(process: Process, output: Path, errors: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while _ATTACHED not in output.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            why = _last_line(errors) or died(process) or f"not attached after {_PATIENCE:.0f} s"
            raise RunError(f"bpftrace: {why}", "kit doctor says what can be traced here")
        with interruptible():
            time.sleep(0.02)


def _last_line(errors: Path) -> str:
    """The error among warnings and a verifier's log."""
    lines = [line.strip() for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    lines = [line for line in lines if "RLIMIT_MEMLOCK" not in line]  # a warning, whatever it calls itself
    named = [line for line in lines if "ERROR" in line]
    return (named or lines or [""])[-1]


def read_maps(output: Path, maps: Maps | None = None) -> Maps:
    """What bpftrace has written in JSON, into ``maps``."""
    maps = maps or Maps()
    for line in output.read_text(errors="replace").splitlines():
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            continue  # cut off, or bpftrace's own words: what is missing by it is counted by who reads the maps
        data = said.get("data")
        if said.get("type") == "map" and isinstance(data, dict):
            for name, held in data.items():
                listed = held if isinstance(held, dict) else {"": held}
                maps.values[name.lstrip("@")] = {_key(key): int(value) for key, value in listed.items()}
        elif said.get("type") == "hist" and isinstance(data, dict):
            for name, held in data.items():
                listed = held if isinstance(held, dict) else {"": held}
                maps.histograms[name.lstrip("@")] = {_key(key): _powers(rows) for key, rows in listed.items()}
    return maps


def _key(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",")) if text else ()


def _powers(rows: Sequence[Mapping[str, int]]) -> tuple[tuple[int, int], ...]:
    """Log2 of each interval's beginning and how many lie in it; empty ones left out."""
    return tuple(
        (max(0, row.get("min", 0)).bit_length() - 1 if row.get("min", 0) > 0 else 0, row["count"])
        for row in rows
        if row["count"]
    )
