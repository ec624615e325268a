"""Pull to ready: pull.py PHASE SOCKET REGISTRY INPUTS. SOCKET '' means no engine: plain directories.

Every phase prints what it measured of itself as "kit: NAME = VALUE UNIT". Times begin after the start of Python."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from clients import Client, client

#: Seconds of the phases so far, and the bytes used before the pull.
STATE = Path("pull-state.json")
MIB = 1 << 20
#: Looks at the space in use, a tenth of a second apart and more.
MOST_LOOKS = 300
#: What these phases are called in figures.
FIGURES = {"exit": "exit", "remove": "remove container and image"}


def say(name: str, value: float, unit: str) -> None:
    print(f"kit: {name} = {value:.6g} {unit}")


def timed(action: Callable[[], object]) -> float:
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def load() -> dict[str, float]:
    found: dict[str, float] = json.loads(STATE.read_text())
    return found


def keep(**values: float) -> dict[str, float]:
    state = {**(load() if STATE.exists() else {}), **values}
    STATE.write_text(json.dumps(state))
    return state


def used() -> float:
    """Return the bytes used on the filesystem below, once they are the same five times: engines and btrfs free later
    what was removed. NaN if somebody else goes on writing."""
    seen: list[int] = []
    while len(seen) < 5 or len(set(seen[-5:])) > 1:
        if len(seen) == MOST_LOOKS:
            return math.nan
        time.sleep(0.1)
        subprocess.run(["sync", "-f", "."], check=True)
        found = os.statvfs(".")
        seen.append((found.f_blocks - found.f_bfree) * found.f_frsize)
    return seen[-1]


def prepare(engine: Client) -> None:
    """Empty the store: nothing of an earlier pull is left."""
    engine.clean()
    engine.ask()
    keep(ask=timed(engine.ask), used=used())


def space(inputs: str) -> None:
    """Report the pull, and the disk after it. A filesystem that has not grown by an eighth of the image does not hold
    it: the container's root then lies on a device of its own, or is fetched as it is read."""
    state = load()
    sizes = json.loads((Path(inputs) / "registry/sizes.json").read_text())
    grown = used() - state["used"]
    say("pull", state["pull"] * 1e3, "ms")
    say("an empty request to the engine", state["ask"] * 1e3, "ms")
    say("image, packed", sizes["packed"] / MIB, "MiB")
    say("image, unpacked", sizes["unpacked"] / MIB, "MiB")
    if grown > sizes["unpacked"] / 8:
        say("disk used by the pulled image", grown / MIB, "MiB")
    else:
        print("disk used is not known: this filesystem does not hold the image, or not yet")


def start(engine: Client) -> None:
    begin = time.monotonic()
    if engine.create():
        created = time.monotonic() - begin
        say("create", created * 1e3, "ms")
        say("start to first output", timed(engine.start) * 1e3, "ms")
    else:
        engine.start()
    pull, both = load()["pull"], time.monotonic() - begin
    say("create to first output", both * 1e3, "ms")
    say("pull to first output", (pull + both) * 1e3, "ms")
    say("share of the pull in it", 100 * pull / (pull + both), "%")


def main(name: str, socket: str, registry: str, inputs: str) -> None:
    if name == "space":
        space(inputs)
        return
    engine = client(socket, registry)
    if name == "prepare":
        prepare(engine)
    elif name == "pull":
        keep(pull=timed(engine.pull))
    elif name == "start":
        start(engine)
    else:
        say(FIGURES[name], timed(getattr(engine, name)) * 1e3, "ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
