"""Images of recipes that the collected machine tests need, built in the background while others run.

A test says what it needs by ``@pytest.mark.images("kernel")``, or by a fixture that needs one. What measures waits
until all are there, and until unit tests are done that another pytest runs meanwhile (as tox does), so that it has the
machine for itself. An image that could not be built is tried again, and
explained, by the test that needs it (kit.arms.image.ImageCache makes each once, whoever else wants it).
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.arms.image import ImageCache, recipes
from kit.core.paths import find_paths

FIXTURES = {"uml": ("guest", "uml")}
#: Images that take minutes of CPU: they count as many, so that what needs them comes last of its stage.
SLOW = {"containerd-2.1-nydus": 10, "docker-29": 10}
#: Programs that are nicer while they build.
BUILDERS = ("mmdebstrap", "go", "cargo")
AT_ONCE = 2  # each waits for a mirror and for the disk half of its time
PATIENCE = 1200.0  # seconds; what is not built then, the tests build themselves
_BUILD = """
import sys
from kit.arms.image import ImageCache
from kit.core.paths import find_paths
ImageCache(find_paths().cache).from_recipe(sys.argv[1])
"""
#: Tests go first; but what is built for them soon is waited for, so that unit tests (tox.ini) are nicer still.
NICENESS = 5
#: A niceness counts within one session only (sched(7), CONFIG_SCHED_AUTOGROUP), and each command of the kit's has one.
_NICED = """#!/bin/sh
{{ echo {niceness} > /proc/self/autogroup; }} 2>/dev/null
exec nice -n {niceness} {program} "$@"
"""

#: Stages: from which on unit tests are done, from which on images are there, and the last.
UNIT_TESTS_DONE, MEASURED, LAST = 2, 3, 4


def stage(item: pytest.Item) -> int:
    """Tests without a machine come first, then those beside which images may be built and unit tests run, then those
    beside which images may be built, then those that measure; last the one that looks what all have left."""
    if item.get_closest_marker("machine") is None:
        return 0
    if item.get_closest_marker("last"):
        return LAST
    if mark := item.get_closest_marker("unmeasured"):
        return 2 if mark.kwargs.get("clean") else 1
    return MEASURED


def order(item: pytest.Item) -> tuple[int, int]:
    """Of the first, while images are built, those that need few; of the later ones those that need most: they are dear,
    and one that is begun last is waited for by all workers."""
    needs = sum(SLOW.get(name, 1) for name in images_of([item]))
    return stage(item), needs if stage(item) < UNIT_TESTS_DONE else -needs


def images_of(items: Iterable[pytest.Item]) -> list[str]:
    """What they need, in the order in which they need it."""
    found: dict[str, None] = {}
    for item in items:
        if stage(item) == 0:
            continue
        for mark in item.iter_markers("images"):
            found |= dict.fromkeys(mark.args)
        for name in getattr(item, "fixturenames", ()):
            found |= dict.fromkeys(FIXTURES.get(name, ()))
    return list(found)


def built() -> set[str]:
    return {image.name for image in ImageCache(find_paths().cache).list()} & set(recipes())


@dataclass(frozen=True)
class Builder:
    """``known``: what need not be built by a test, since it is there, or is being built."""

    process: subprocess.Popen[str]
    known: frozenset[str]

    def wait(self, stage: int) -> None:
        """For what may not go on beside tests of that stage."""
        if stage >= MEASURED:
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if stage >= UNIT_TESTS_DONE:
            with _tests_locked(fcntl.LOCK_EX):
                pass

    def undeclared(self) -> set[str]:
        return built() - self.known


def _tests_locked(how: int) -> AbstractContextManager[None]:
    """The directory of the tests itself is what is locked: there is one for all environments of a checkout."""
    return locked(Path(__file__).parent, how)


@contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Lock a directory (flock(2)) for the length of the round."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, how)
        yield
    finally:
        os.close(directory)


def unit_tests() -> AbstractContextManager[None]:
    """While they run, what measures waits; once it has begun to, they don't wait for it."""
    return _tests_locked(fcntl.LOCK_SH)


@contextmanager
def building(names: Sequence[str], directory: Path) -> Iterator[Builder]:
    """Build them one after the other; all ends with this process, whatever ends it: in namespaces of their own,
    processes and mounts go with the first of them, and that goes with its parent."""
    for name in BUILDERS:
        if program := shutil.which(name):
            (directory / name).write_text(_NICED.format(niceness=NICENESS, program=program))
            (directory / name).chmod(0o755)
    words = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--",
             "xargs", "--max-procs", str(AT_ONCE), "--max-args", "1", "--no-run-if-empty",
             sys.executable, "-c", _BUILD]  # fmt: skip
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            words if names else ["true"], stdin=subprocess.PIPE, stdout=log, stderr=log, text=True,
            env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"},
        )  # fmt: skip
    known = frozenset(built() | set(names))
    assert process.stdin
    process.stdin.write("\n".join(names))
    process.stdin.close()
    try:
        yield Builder(process, known)
    finally:
        process.kill()
        process.wait()
