"""Runs a share of a session on its machine: ``python -m kit.fleet.agent``. It is given the assignment as a line of its
stdin, and says on stdout what goes on. Where its stdin ends, whoever wanted it is gone: it is interrupted."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kit.core.codec import decode_json
from kit.core.paths import Paths, find_paths
from kit.core.private import make_private, passable_mode
from kit.fleet.share import Assignment, Share
from kit.model.session import Session
from kit.session.channel import Channel
from kit.session.guest_protocol import Measured
from kit.session.start import take_up
from kit.store import open_store


class _ShareChannel(Channel):
    """Of a share that was begun here before, what is done already is said first."""

    def __init__(self, file: int, share: Share) -> None:
        super().__init__(file)
        self._blocks = share.blocks

    def began(self, session: Session) -> None:
        for sample in session.samples:
            if not self._blocks or sample.block in self._blocks:
                self.say(Measured(sample))


def main() -> None:
    assignment = decode_json(Assignment, sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    said = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed
    channel = _ShareChannel(said, assignment.share)
    with suppress(KeyboardInterrupt):
        channel.conclude(
            lambda: replace(_run(assignment, channel), samples=()), "the session broke off", "the worker's log has more"
        )


def _run(assignment: Assignment, channel: Channel) -> Session:
    if assignment.home:
        os.environ["KIT_HOME"] = assignment.home
    paths = _apart(find_paths()) if assignment.together else find_paths()
    # Who asked may be this machine's user too, whose store and outbox have the session under the same name.
    make_private(paths.data)
    paths = replace(paths, data=paths.data / "fleet")
    store = open_store("", paths.store, tell=channel.tell)
    try:
        return take_up(assignment.share.session, assignment.share.blocks, paths, store, channel)
    finally:
        store.close()


def _apart(paths: Paths) -> Paths:
    """With a lock and a run directory that no other worker of this machine has."""
    lock = paths.state / "lock" / "machine"
    make_private(paths.state, passable_mode())
    lock.mkdir(parents=True, exist_ok=True)
    label = hashlib.sha256(str(paths.state).encode()).hexdigest()[:6]
    return replace(paths, lock=lock, run=Path(f"{paths.run}-{label}"))


def _end_with_input() -> None:
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
