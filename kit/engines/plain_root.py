"""An image's root filesystem in a plain directory, brought back to its first state after every run."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from kit.command import run
from kit.engines.place import CONTROL, INPUTS, TREE
from kit.image import Image, unpack

_Mark = tuple[int, int, int, int, int]


class PlainRoot:
    """A container's layer is new for each run; a plain directory is not, so what a run left in it is undone here."""

    def __init__(self, image: Image, path: Path) -> None:
        self.path = path
        self._image = image
        unpack(image, path)
        for directory in (TREE, CONTROL, INPUTS, "/dev", "/proc", "/sys", "/tmp", "/etc"):
            (path / directory.lstrip("/")).mkdir(exist_ok=True)
        # Engines mount theirs over these; where the image has none they are ours, and empty.
        names = ("etc/hosts", "etc/hostname", "etc/resolv.conf")
        self._own = tuple(name for name in names if not os.path.lexists(path / name))
        for name in self._own:
            (path / name).touch()
        self._marks = dict(self._scan())

    def restore(self) -> tuple[str, ...]:
        """Remove what a run added, bring back what it changed or removed. Returns the paths concerned."""
        now = dict(self._scan())
        added = [name for name in now if name not in self._marks]
        changed = [name for name, mark in self._marks.items() if now.get(name) != mark]
        for name in sorted(added, reverse=True):
            _remove(self.path / name)
        if changed:
            self._unpack_again(changed)
        return tuple(added + changed)

    def _unpack_again(self, names: list[str]) -> None:
        for name in names:
            if name in self._marks and not stat.S_ISDIR(self._marks[name][0]):
                _remove(self.path / name)
        for name in set(names) & set(self._own):
            (self.path / name).touch()
        names = [name for name in names if name not in self._own]
        listing = self.path.with_name("root-changed")
        listing.write_text("".join(f"./{name}\n" for name in names), encoding="utf-8", errors="surrogateescape")
        words = ["tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--no-recursion", "--overwrite", "-xpf"]
        run([*words, self._image.rootfs, "-C", self.path, "--files-from", listing], what="restoring the plain root")
        listing.unlink()
        self._marks = dict(self._scan())

    def _scan(self) -> Iterator[tuple[str, _Mark]]:
        """Every path and what tells a change: the change time cannot be set back by a program."""
        prefix = len(str(self.path)) + 1
        pending = [str(self.path)]
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(info.st_mode):
                        pending.append(entry.path)
                        yield entry.path[prefix:], (info.st_mode, info.st_uid, info.st_gid, 0, 0)
                    else:
                        yield (
                            entry.path[prefix:],
                            (info.st_mode, info.st_uid, info.st_gid, info.st_size, info.st_ctime_ns),
                        )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
