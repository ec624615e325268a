"""Runs a session in a guest: ``python3 -m kit.session.guest_agent CHANNEL``. Reads the errand from the disk that the
host wrote, and tells the host on the channel what goes on."""

from __future__ import annotations

import json
import os
import sys
import threading
import tty

from kit.core.codec import decode
from kit.core.paths import find_paths
from kit.guest.needs import lacking
from kit.host.machine import read_host
from kit.model.fact import KERNEL
from kit.model.session import Session
from kit.session.channel import Channel
from kit.session.freeze import kept_plan
from kit.session.guest_protocol import Errand, Hello
from kit.session.local import SessionContext, check_kernel, perform
from kit.session.loop import held_machine


def main(device: str) -> None:
    file = os.open(device, os.O_WRONLY | os.O_NOCTTY)
    tty.setraw(file)
    channel = Channel(file)
    channel.say(Hello(read_host().kernel))
    threading.Thread(target=channel.beat, daemon=True).start()
    # The host adds where the guest's console is.
    channel.conclude(lambda: _session(channel), "the session broke off in the guest")


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
        return perform(session, context, bench, errand.materials)


if __name__ == "__main__":
    main(sys.argv[1])
