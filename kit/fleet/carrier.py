"""What a machine is, and how it runs a share: as a process of its own, which ends with whoever wanted it."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from signal import SIGINT, strsignal

from kit import __version__
from kit.core.codec import decode_json, encode_json
from kit.core.errors import RunError, UsageError
from kit.fleet.examined import Working
from kit.fleet.share import Assignment, Share
from kit.host.command import Process, died, talking
from kit.host.machine import read_host
from kit.host.peers import peers_environment
from kit.model.fact import stored
from kit.model.machine_class import class_of
from kit.model.member import Member
from kit.probe import probe_digest
from kit.session.facts import machine_facts
from kit.session.guest_protocol import Done, Failed, Last, Message, decode_line, encode_message


def describe(name: str, kind: str, together: bool, working: Working | None) -> Member:
    """This machine. ``kind`` '': the class that its facts give it. Raises UsageError: names are listed in facts."""
    if not re.fullmatch(r"[^\s,]+", name):
        raise UsageError(f"a worker can't be called '{name}'", "a name without spaces and commas: --name NAME")
    host = read_host()
    return Member(
        name=name,
        kind=kind or class_of(stored([*machine_facts(host)])),
        named=bool(kind),
        kit_version=__version__,
        probe=probe_digest(),
        kernel=host.kernel,
        cpu=host.cpu,
        cores=host.cores,
        memory=host.memory_bytes,
        virtualization=host.virtualization,
        root=host.root,
        machine=host.machine,
        together=together,
        drivers=working.drivers if working else None,
        filesystems=working.filesystems if working else None,
    )


@dataclass
class Carrier:
    """Runs shares, one after the other. What it began it ends when the share is no longer wanted, or with itself."""

    member: Member
    home: str = ""
    _running: dict[str, Process] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def carry(self, key: str, text: str, say: Callable[[Message], None]) -> str:
        """Run a share, as JSON, to its end; returns the last message of it as a line. ``say`` gets each other."""
        assignment = Assignment(decode_json(Share, text), self.home, self.member.together)
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **peers_environment(), **_home_of(self.home)}
        last: Last = Failed.by(RunError("its process has ended without a word", "the worker's log has more"))
        with talking([sys.executable, "-m", "kit.fleet.agent"], "a share", path) as process:
            assert process.stdin and process.stdout
            with self._lock:
                self._running[key] = process
            try:
                process.stdin.write(encode_json(assignment).encode() + b"\n")
                process.stdin.flush()
                for line in process.stdout:
                    message = decode_line(line)
                    if isinstance(message, Done | Failed):
                        last = message
                    elif message is not None:
                        say(message)
            finally:
                with self._lock:
                    del self._running[key]
        if isinstance(last, Failed) and process.returncode < 0:
            how = f"{died(process)} ({strsignal(-process.returncode)})"
            last = Failed.by(RunError(f"its process was {how}", "the worker's log has more"))
        return encode_message(last).decode().strip()

    def interrupt(self, key: str = "") -> None:
        """End a share, all where none is named: what it holds is given back first."""
        with self._lock:
            for name, process in self._running.items():
                if key in ("", name):
                    with suppress(ProcessLookupError):
                        process.send_signal(SIGINT)


def _home_of(home: str) -> dict[str, str]:
    return {"KIT_HOME": home} if home else {}
