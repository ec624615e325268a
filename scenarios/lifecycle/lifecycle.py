"""What an engine does around a build: lifecycle.py PHASE SOCKET [NUMBER]. SOCKET '' means no engine: plain directories.

Every phase prints what it measured of itself as "kit: NAME = VALUE UNIT". All that is made is named kit-life-….
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from engine import READ_LARGE, Docker, Engine, Plain, cached, in_gvisor

IMAGE_TAR = Path("image.tar")
LARGE = 16 << 20  # the file of which a container changes one byte
NEIGHBOUR = 64 << 20  # bytes that the neighbour keeps dirty
REWRITES = 20
TURNS = 5  # containers started and stopped beside the neighbour
READERS = 5  # containers that read the large file after the first one
FREED = 60  # seconds until the space of a removed container is given up


def say(name: str, value: float, unit: str, more: bool = False) -> None:
    print(f"kit: {name} = {value:.6g} {unit}{', more is better' if more else ''}")


def say_times(what: str, seconds: list[float]) -> None:
    """The first and the last of many tell whether the engine becomes slower with the number of its containers."""
    ordered = sorted(seconds)
    say(f"{what}, the first", seconds[0] * 1e3, "ms")
    say(f"{what}, the last of {len(seconds)}", seconds[-1] * 1e3, "ms")
    say(f"{what}, median", ordered[len(ordered) // 2] * 1e3, "ms")


def timed(action: Callable[[], object]) -> float:
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def names(count: int) -> list[str]:
    return [f"kit-life-{number}" for number in range(count)]


def prepare(engine: Engine) -> None:
    """The image: a static busybox, Python's library as a real tree of files, and one large file."""
    engine.clean()
    root = Path("image-root")
    for directory in ("bin", "etc", "proc", "dev", "sys", "tmp", "usr/lib"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    shutil.copy2("/bin/busybox", root / "bin/busybox")
    library = next(Path("/usr/lib").glob("python3.*"))
    shutil.copytree(library, root / "usr/lib" / library.name, symlinks=True)
    (root / "large").write_bytes(os.urandom(1 << 20) * (LARGE >> 20))
    with tarfile.open(IMAGE_TAR, "w") as tar:
        tar.add(root, ".")
    shutil.rmtree(root)


def create(engine: Engine, count: int) -> None:
    say_times("create", [timed(lambda name=name: engine.create(name)) for name in names(count)])  # type: ignore[misc]


def start(engine: Engine, count: int) -> None:
    say_times("start", [timed(lambda name=name: engine.start(name)) for name in names(count)])  # type: ignore[misc]


def stop(engine: Engine, count: int) -> None:
    say_times("stop", [timed(lambda name=name: engine.stop(name)) for name in names(count)])  # type: ignore[misc]


def remove(engine: Engine, count: int) -> None:
    say_times("remove", [timed(lambda name=name: engine.remove(name)) for name in names(count)])  # type: ignore[misc]


def commit(engine: Engine) -> None:
    """Of a container that has copied Python's library: some thousand new files."""
    engine.create("kit-life-commit", "cp -r /usr/lib /copy")
    engine.start("kit-life-commit")
    engine.wait("kit-life-commit")
    say("commit", timed(lambda: engine.commit("kit-life-commit", "kit-life-committed")) * 1e3, "ms")
    engine.remove("kit-life-commit")


def used() -> int:
    """Bytes used on the filesystem below, once everything is written."""
    subprocess.run(["sync", "-f", "."], check=True)
    found = os.statvfs(".")
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def space(engine: Engine) -> None:
    """Disk that each container takes: idle, and when it has changed one byte of a file of 16 MiB."""
    for what, command in (("idle", "true"), ("one byte of 16 MiB changed", "echo x >> /large")):
        before = used()
        for name in names(4):
            engine.create(name, command)
            engine.start(name)
            engine.wait(name)
        say(f"disk used per container, {what}", (used() - before) / 4 / 1024, "KiB")
        for name in names(4):
            engine.remove(name)


def free(engine: Engine) -> None:
    """Time to remove a container that has written some thousand files and 64 MiB, and until its space is free: some
    filesystems free it later."""
    before = used()
    engine.create("kit-life-free", "cp -r /usr/lib /copy; for i in 1 2 3 4; do cp /large /copy/$i; done")
    engine.start("kit-life-free")
    engine.wait("kit-life-free")
    taken = used() - before
    begin = time.monotonic()
    say(
        "remove a container with 64 MiB and thousands of files",
        timed(lambda: engine.remove("kit-life-free")) * 1e3,
        "ms",
    )
    if taken < 4 * LARGE:
        return  # it has a device of its own: nothing here shows what is free there
    while used() - before > taken / 10:
        if time.monotonic() - begin > FREED:
            raise SystemExit(f"{taken} bytes of a removed container are not free after {FREED} s")
        time.sleep(0.01)
    say("remove it, until its space is free", (time.monotonic() - begin) * 1e3, "ms")


def page_cache(engine: Engine) -> None:
    """Time and page cache that each further container of an image takes, made and run to read 16 MiB of it."""
    taken, seconds = [], []
    for name in names(1 + READERS):
        begin, before = time.monotonic(), cached()
        engine.create(name, READ_LARGE)
        taken.append(cached() - before + engine.read(name))
        seconds.append(time.monotonic() - begin)
    for name in names(1 + READERS):
        engine.remove(name)
    say("create a further container and read 16 MiB", sorted(seconds[1:])[READERS // 2] * 1e3, "ms")
    if in_gvisor():
        print("page cache is not known: gVisor does not show the machine's")
        return
    further = sorted(taken[1:])  # others use the page cache too: the median leaves out most of that
    say("page cache per further container that reads 16 MiB", further[READERS // 2], "KiB")


def rewrite(seconds: list[float], enough: threading.Event) -> None:
    """A neighbour that writes the same file over and over and asks for no sync: memory alone, on a quiet disk."""
    round_ = os.urandom(1 << 20)
    with open("neighbour", "wb", buffering=0) as file:
        while len(seconds) < REWRITES or not enough.is_set():
            begin = time.monotonic()
            file.seek(0)
            for _ in range(NEIGHBOUR >> 20):
                file.write(round_)
            seconds.append(time.monotonic() - begin)


def neighbour(engine: Engine) -> None:
    """What starting and stopping containers costs a neighbour with dirty data on the same filesystem (moby 47630), and
    what its dirty data costs them."""
    quiet: list[float] = []
    enough = threading.Event()
    enough.set()
    rewrite(quiet, enough)
    subprocess.run(["sync", "-f", "."], check=True)
    alone = cycle(engine)
    beside: list[float] = []
    enough.clear()
    thread = threading.Thread(target=rewrite, args=(beside, enough))
    thread.start()
    starting = cycle(engine)
    enough.set()
    thread.join()
    for what, seconds in (("alone", quiet), ("while containers start and stop", beside)):
        say(f"neighbour writes, {what}", NEIGHBOUR * len(seconds) / sum(seconds) / 1e6, "MB/s", more=True)
        say(f"neighbour, its slowest 64 MiB, {what}", max(seconds) * 1e3, "ms")
    say("start, run and remove, on a quiet filesystem", alone * 1e3, "ms")
    say("start, run and remove, beside the neighbour", starting * 1e3, "ms")


def once(engine: Engine) -> None:
    """One container, from its creation to its removal."""
    engine.create("kit-life-cycle", "true")
    engine.start("kit-life-cycle")
    engine.wait("kit-life-cycle")
    engine.remove("kit-life-cycle")


def cycle(engine: Engine) -> float:
    """Seconds that one container takes from its creation to its removal."""
    return timed(lambda: [once(engine) for _ in range(TURNS)]) / TURNS


def first(engine: Engine) -> None:
    """An engine that maps users may copy the image for its first container, to change the owners of files."""
    for what in ("first", "second"):
        say(f"{what} container of the image, from create to remove", timed(lambda: once(engine)) * 1e3, "ms")


def dockerfile(steps: int) -> bytes:
    """A build context with nothing but a Dockerfile; each step makes files and changes one that is there."""
    lines = ["FROM kit-life"]
    for number in range(steps):
        script = f"mkdir /step{number}; cp /bin/busybox /step{number}/; echo {number} >> /etc/steps"
        lines.append("RUN " + json.dumps(["/bin/busybox", "sh", "-c", script]))
    text = "\n".join(lines).encode()
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(text)
        tar.addfile(entry, BytesIO(text))
    return buffer.getvalue()


def main(phase: str, socket: str, number: str = "0") -> None:
    engine: Engine = Docker(socket) if socket else Plain()
    actions: dict[str, Callable[[], object]] = {
        "prepare": lambda: prepare(engine),
        "import": lambda: engine.import_image(IMAGE_TAR),
        "save": lambda: engine.save(Path("saved.tar")),
        "load": lambda: engine.load(Path("saved.tar")),
        "first": lambda: first(engine),
        "create": lambda: create(engine, int(number)),
        "start": lambda: start(engine, int(number)),
        "stop": lambda: stop(engine, int(number)),
        "remove": lambda: remove(engine, int(number)),
        "commit": lambda: commit(engine),
        "build": lambda: engine.build(dockerfile(int(number))),
        "space": lambda: space(engine),
        "free": lambda: free(engine),
        "page-cache": lambda: page_cache(engine),
        "neighbour": lambda: neighbour(engine),
        "clean": lambda: engine.clean(),
    }
    actions[phase]()


if __name__ == "__main__":
    main(*sys.argv[1:])
