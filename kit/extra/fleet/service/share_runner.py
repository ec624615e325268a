"""Describes a machine, and runs a share as a process of its own, which ends with its client."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from signal import SIGINT, strsignal

from kit import __version__
from kit.arms.engines.installed import installed_docker
from kit.arms.probe import probe_digest
from kit.core.codec import decode_json, encode_json
from kit.core.errors import RunError, UsageError
from kit.extra.fleet.service.capabilities import Working
from kit.extra.fleet.share import Assignment, Share
from kit.host.command import Process, died, python_module, python_path, talking
from kit.host.lock import WAITING
from kit.host.machine import read_host
from kit.host.remote_cache import peers_environment
from kit.model.event import Event, Told
from kit.model.fact import stored
from kit.model.machine import Member, class_of
from kit.session.setup.facts import machine_facts
from kit.session.wire.messages import Done, Failed, Last, decode_line, encode_message

#: What an idle worker reports.
NEXT = "waits for the next session"


def describe(name: str, kind: str, together: bool, working: Working | None) -> Member:
    """Return this machine. ``kind`` '': the class from its facts. Raises UsageError for a name with commas."""
    if not re.fullmatch(r"[^\s,]+", name):
        raise UsageError(f"a worker cannot have the name '{name}'", "use --name NAME, without spaces and commas")
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
        docker=installed_docker(),
    )


@dataclass
class ShareRunner:
    """Runs shares, one after the other. It ends a running share when the share is no longer wanted, or with itself."""

    member: Member
    home: str = ""
    tell: Callable[[str], None] = lambda text: None  # reports to whoever watches this worker
    _running: dict[str, Process] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def carry(self, key: str, text: str, say: Callable[[Event], None]) -> str:
        """Run a share, as JSON, to its end; return its last message as a line. ``say`` gets each event."""
        assignment = Assignment(decode_json(Share, text), self.home, self.member.together)
        self.tell(f"runs {assignment.share.name}")
        path = {**python_path(), **peers_environment(), **_home_of(self.home)}
        last: Last = Failed.by(RunError("its process ended without a message", "see the worker's log"))
        with talking(python_module("kit.extra.fleet.service.agent"), "a share", path) as process:
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
                    elif isinstance(message, Event):
                        if isinstance(message, Told) and message.text.startswith(WAITING):
                            self.tell(f"{assignment.share.name} is {message.text}")
                        say(message)
            finally:
                with self._lock:
                    del self._running[key]
                self.tell(NEXT)
        if isinstance(last, Failed) and process.returncode < 0:
            how = f"{died(process)} ({strsignal(-process.returncode)})"
            last = Failed.by(RunError(f"its process was {how}", "see the worker's log"))
        return encode_message(last).decode().strip()

    def interrupt(self, key: str = "") -> None:
        """End a share, or all without a name: the share releases its resources first."""
        with self._lock:
            for name, process in self._running.items():
                if key in ("", name):
                    with suppress(ProcessLookupError):
                        process.send_signal(SIGINT)


def _home_of(home: str) -> dict[str, str]:
    return {"KIT_HOME": home} if home else {}
