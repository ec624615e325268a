"""Runs a share of a session on its machine: ``python -m kit.extra.fleet.service.agent``.

Reads the assignment as a line of its stdin, and reports events on stdout. The end of its stdin means that nobody needs
the share any more: then it is interrupted."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import replace

from kit.core.codec import decode_json
from kit.core.paths import apart, find_paths
from kit.core.private import make_directory, make_private, passable_mode
from kit.extra.fleet.share import Assignment, Share
from kit.model.event import Event, SampleTaken, SessionStarted
from kit.model.session import Session
from kit.session.launch import launch
from kit.session.prepared import StartOptions
from kit.session.start import AssignedRounds
from kit.session.wire.remote_observer import Channel
from kit.store import open_store


class _ShareChannel(Channel):
    """Run a share. If it was begun here before, report the completed part first."""

    def __init__(self, file: int, share: Share) -> None:
        super().__init__(file)
        self._rounds = share.assigned

    def take(self, event: Event) -> None:
        if not isinstance(event, SessionStarted):
            super().take(event)
            return
        for sample in event.session.samples:
            if not self._rounds or sample.round in self._rounds:
                super().take(SampleTaken(sample, earlier=True))


def main() -> None:
    assignment = decode_json(Assignment, sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    output = os.dup(1)
    os.dup2(2, 1)  # any other output
    channel = _ShareChannel(output, assignment.share)
    with suppress(KeyboardInterrupt):
        channel.conclude(lambda: _run(assignment, channel), "the session broke off", "see the worker's log")


def _run(assignment: Assignment, channel: Channel) -> Session:
    if assignment.home:
        os.environ["KIT_HOME"] = assignment.home
    paths = find_paths()
    if assignment.together:
        paths = apart(paths)
        make_private(paths.state, passable_mode())
        make_directory(paths.lock)
    # The sender may be this machine's user too, whose store and outbox have the session under the same name.
    make_private(paths.data)
    paths = replace(paths, data=paths.data / "fleet")
    store = open_store("", paths.store, tell=channel.tell)
    try:
        assigned = AssignedRounds(assignment.share.session, assignment.share.assigned)
        return launch(assigned, paths, store, channel, StartOptions(wait=True))
    finally:
        store.close()


def _end_with_input() -> None:
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have ignored it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
