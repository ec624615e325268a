"""Runs a session in a guest: ``python3 -m kit.extra.guest.agent CHANNEL``.

Reads the job from the disk that the host wrote, and reports events to the host on the channel."""

from __future__ import annotations

import json
import os
import sys
import threading
import tty

from kit.core.codec import decode
from kit.core.errors import MachineError
from kit.core.paths import find_paths
from kit.extra.guest.kernel_check import lacking
from kit.host.cgroup.cgroup import Cgroup
from kit.host.cgroup.freezer import Freezer
from kit.host.machine import read_host
from kit.model.default import OFF
from kit.model.fact import KERNEL, RUN_ORDER, RUN_ORDER_WHY
from kit.model.sample import SEQUENTIAL
from kit.model.session import Session
from kit.session.execute.session_loop import held_machine
from kit.session.launch import measure
from kit.session.plan.planning import profiles
from kit.session.prepared import Prepared, SessionContext
from kit.session.setup.resumable import check_kernel
from kit.session.wire.messages import GuestJob
from kit.session.wire.remote_observer import Channel


def main(device: str) -> None:
    file = os.open(device, os.O_WRONLY | os.O_NOCTTY)
    tty.setraw(file)
    channel = Channel(file)
    channel.tell(f"the guest runs {read_host().kernel}")
    threading.Thread(target=channel.beat, daemon=True).start()
    # The host adds where the guest's console is.
    channel.conclude(lambda: _session(channel), "the session broke off in the guest")


def _session(channel: Channel) -> Session:
    paths = find_paths()
    job = decode(GuestJob, json.loads((paths.data / "job.json").read_text()))
    session = job.session
    host = read_host()
    check_kernel(session, KERNEL, host.kernel)  # the kit's own may have been rebuilt since
    prepared = Prepared(session.request, job.scenarios, session.kept_plan(), profiles(session.request))
    for line in lacking(prepared.plan.arms, paths):
        channel.tell(line)
    context = SessionContext(prepared, host, paths, channel)
    with held_machine(session.id, paths, False, channel) as lease:
        session = as_kernel_can(session, Cgroup.named(lease.setting.cgroup), host.kernel)
        return measure(session, context, lease, job.materials)


def as_kernel_can(session: Session, group: Cgroup, kernel: str) -> Session:
    """Return the session as a sequential one, with the reason, if the guest's kernel cannot freeze ``group``."""
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
