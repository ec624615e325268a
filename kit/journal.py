"""What a session acquires on the host, written down before it is acquired, so that ``clean`` can undo it after any
death. What the kernel frees by itself (mounts of a private namespace, loop devices) needs no entry."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kit.errors import RunError
from kit.mounts import mounts_below

#: How to undo each kind of entry, in the order in which kinds are undone: first what runs, then what it used.
UNDO = {
    "cgroup": "kit.journal:_undo_cgroup",
    "container": "kit.engines.system:remove_container",
    "volume": "kit.engines.system:remove_named_volume",
    "image": "kit.engines.system:remove_image",
    "zpool": "kit.filesystem.zfs:destroy_pool",
    "mapped device": "kit.filesystem.thin_pool:remove_mapped",
    "directory": "kit.journal:remove_tree",
    "empty directory": "kit.journal:_undo_empty",
    "file": "kit.journal:_undo_file",
}


class Journal:
    """An append-only file of one session: a line per thing acquired or released, durable before the act."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def acquire(self, kind: str, value: str | Path) -> None:
        if kind not in UNDO:
            raise ValueError(kind)
        self._write("+", kind, str(value))

    def release(self, kind: str, value: str | Path) -> None:
        self._write("-", kind, str(value))

    @contextmanager
    def holding(self, kind: str, value: str | Path) -> Iterator[None]:
        """Hold a thing for the length of the block and undo it at the end, whatever happens."""
        self.acquire(kind, value)
        try:
            yield
        finally:
            _undo(kind, str(value))
            self.release(kind, value)

    def close(self) -> None:
        """End of a session that has released everything: nothing is left to undo, the file goes."""
        self._file.close()
        if not pending(self.path):
            self.path.unlink()

    def _write(self, sign: str, kind: str, value: str) -> None:
        self._file.write(json.dumps([sign, kind, value]) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def pending(path: Path) -> list[tuple[str, str]]:
    """Entries acquired and not released. A last line cut short by a crash was not acted on yet and is left out."""
    entries: list[tuple[str, str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            sign, kind, value = json.loads(line)
        except ValueError:
            continue
        if sign == "+":
            entries.append((kind, value))
        elif (kind, value) in entries:
            entries.remove((kind, value))
    return entries


def clean(directory: Path) -> list[str]:
    """Undo what dead sessions left behind; call it with the machine lock held. Returns a line for each thing."""
    done = []
    for path in sorted(directory.glob("*.jsonl")):
        entries = pending(path)
        for kind in UNDO:
            for value in [value for entry, value in reversed(entries) if entry == kind]:
                _undo(kind, value)
                done.append(f"{path.stem}: removed {kind} {value}")
        path.unlink()
    return done


def _undo(kind: str, value: str) -> None:
    module, _, name = UNDO[kind].partition(":")
    undo: Callable[[str], None] = getattr(importlib.import_module(module), name)
    undo(value)


def _undo_cgroup(name: str) -> None:
    from kit.cgroup import Cgroup

    Cgroup.named(name).remove()


def _undo_file(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _undo_empty(path: str) -> None:
    """Remove a directory only where nobody has put anything into it since."""
    with suppress(OSError):
        Path(path).rmdir()


def remove_tree(path: str) -> None:
    """Remove a directory of ours; refuse if something is still mounted below it."""
    target = Path(path)
    if not target.exists():
        return
    for mount in mounts_below(target):
        raise RunError(
            f"{mount.path} is still mounted; {target} is left alone",
            f"umount {shlex.quote(str(mount.path))}; kit clean",
        )
    shutil.rmtree(target)
