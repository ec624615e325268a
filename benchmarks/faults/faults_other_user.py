"""Another user of the machine, beside root's kit: finds what it may write to, or may read and must not."""

from __future__ import annotations

import multiprocessing
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FORK = multiprocessing.get_context("fork")
USER = 4321


def become_user(groups: Iterable[int] = ()) -> None:
    """Give this process the rights of an ordinary user alone."""
    os.setgroups(list(groups))
    os.setgid(USER)
    os.setuid(USER)


@contextmanager
def beside(found: Path, work: Callable[[], Iterable[str]], groups: Iterable[int] = ()) -> Iterator[None]:
    """Let another user call ``work`` again and again during the block. What it returns is written to ``found``."""

    parent = os.getpid()

    def run() -> None:
        with found.open("w", encoding="utf-8", errors="backslashreplace") as file:
            become_user(groups)
            while os.getppid() == parent:
                with suppress(OSError):
                    for problem in work():
                        file.write(f"{problem}\n")
                        file.flush()
                time.sleep(0.005)

    process = FORK.Process(target=run, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def said(found: Path) -> list[str]:
    """Return what the other user has found, each thing once."""
    return sorted(set(found.read_text(encoding="utf-8").splitlines()))


def reached(places: Iterable[Path], readable: bool = False) -> Iterator[str]:
    """Yield what this process may write to below places, programs that would make it root, and, if ``readable`` is a
    fault, files that it may read."""
    for place in places:
        for directory, names, files in os.walk(place):
            for name in (".", *names, *files):
                path = Path(directory, name)
                with suppress(OSError):
                    mode = path.lstat().st_mode
                    if stat.S_ISLNK(mode):
                        continue
                    if os.access(path, os.W_OK):
                        yield f"another user may write to {path}"
                    if mode & stat.S_ISUID and stat.S_ISREG(mode) and os.access(path, os.X_OK):
                        yield f"another user may run {path} as root"
                    if readable and stat.S_ISREG(mode) and os.access(path, os.R_OK):
                        yield f"another user may read {path}"
