"""Runs a session in a guest: ``python3 -m kit.session.guest_agent CHANNEL``. Reads the errand from the disk that the
host wrote, and tells the host on the channel what goes on."""

from __future__ import annotations

import json
import os
import sys
import threading
import tty
from dataclasses import replace

from kit.core.codec import decode
from kit.core.errors import MachineError
from kit.core.paths import find_paths
from kit.guest.needs import lacking
from kit.host.cgroup import Cgroup
from kit.host.freezer import Freezer
from kit.host.machine import read_host
from kit.model.fact import KERNEL, RUN_ORDER, RUN_ORDER_WHY
from kit.model.plan import OFF
from kit.model.sample import SEQUENTIAL
from kit.model.session import Session
from kit.session.channel import Channel
from kit.session.freeze import kept_plan
from kit.session.guest_protocol import Errand, Hello
from kit.session.local import SessionContext, check_kernel, perform
from kit.session.loop import held_machine


def main(device: str) -> None:
    file = os.open(device, os.O_WRONLY | os.O_NOCTTY)
    tty.setraw(file)
    channel = _GuestChannel(file)
    channel.say(Hello(read_host().kernel))
    threading.Thread(target=channel.beat, daemon=True).start()
    # The host adds where the guest's console is.
    channel.conclude(lambda: replace(_session(channel), samples=()), "the session broke off in the guest")


class _GuestChannel(Channel):
    """The host has each run since it was over: sessions are said without them, so that a line stays short."""

    def update(self, session: Session) -> None:
        super().update(replace(session, samples=()))


def _session(channel: Channel) -> Session:
    paths = find_paths()
    errand = decode(Errand, json.loads((paths.data / "errand.json").read_text()))
    session = errand.session
    host = read_host()
    check_kernel(session, KERNEL, host.kernel)  # the kit's own may have been built anew since
    plan = kept_plan(session)
    for line in lacking(plan.arms):
        channel.tell(line)
    context = SessionContext(plan, errand.scenarios, host, paths, channel, channel)
    with held_machine(session.id, paths, False, channel) as bench:
        session = as_kernel_can(session, Cgroup.named(bench.setting.cgroup), host.kernel)
        return perform(session, context, bench, errand.materials)


def as_kernel_can(session: Session, group: Cgroup, kernel: str) -> Session:
    """Return the session as one that runs sequentially, and why, where the guest's kernel cannot freeze ``group``."""
    if session.request.interleave == OFF or RUN_ORDER.text(session.facts):
        return session
    try:
        Freezer.of(group)
    except MachineError:
        why = f"the guest's kernel {kernel.split()[0]} cannot freeze control groups; Linux 5.2 and later can"
        return session.with_facts([RUN_ORDER.fact(SEQUENTIAL), RUN_ORDER_WHY.fact(why)])
    return session


if __name__ == "__main__":
    main(sys.argv[1])
