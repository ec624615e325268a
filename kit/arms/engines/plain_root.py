"""An image's root filesystem in a plain directory, restored to its first state after every run."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from kit.arms.image import Image, unpack
from kit.arms.image.layout import DIRECTORIES, misplaced
from kit.core.errors import RunError
from kit.core.regular import open_regular
from kit.host.page_cache import stores_move_times
from kit.host.safe_fs import (
    Attributes,
    DirWalker,
    Mark,
    Members,
    Owned,
    marks,
    open_directory,
    read_attributes,
    remove_at,
    write_attributes,
    write_new,
)


class PlainRoot:
    """A restorable root filesystem. A container's layer is new for each run; in a plain directory the run's changes are
    undone here. A run may leave anything, so all work uses descriptors of directories and follows no symlink."""

    def __init__(self, image: Image, path: Path) -> None:
        self.path = path
        self._image = image
        unpack(image, path)
        self._soiled = False
        with self._top() as cursor:
            for directory in (*DIRECTORIES, "/tmp"):
                self._directory(cursor, directory)
            self._own = tuple(self._add_files(cursor))
            self._marks = dict(marks(cursor.descriptor))
            self._attributes = dict(self._read_attributes(cursor))
            self._digests = {} if stores_move_times(path) else dict(_digests(cursor, self._marks))

    def _read_attributes(self, cursor: DirWalker) -> Iterator[tuple[str, Attributes]]:
        for name in self._directories(self._marks):
            cursor.go(_parts(name))
            yield name, read_attributes(cursor.descriptor)
        cursor.go([])

    def _directories(self, names: Iterable[str]) -> list[str]:
        """Return the directories among these names, each after its parent."""
        return sorted((name for name in names if stat.S_ISDIR(self._marks[name][0])), key=_parts)

    def _directory(self, cursor: DirWalker, directory: str) -> None:
        name = directory.lstrip("/")
        try:
            os.mkdir(name, dir_fd=cursor.descriptor)
            os.chmod(name, 0o1777 if directory == "/tmp" else 0o755, dir_fd=cursor.descriptor)
        except FileExistsError:
            mode = os.stat(name, dir_fd=cursor.descriptor, follow_symlinks=False).st_mode
            if directory in DIRECTORIES and not stat.S_ISDIR(mode):
                raise misplaced(directory, self._image.name, stat.S_ISLNK(mode)) from None

    def _add_files(self, cursor: DirWalker) -> Iterator[str]:
        """Make the missing files over which engines mount their own, empty; yield their names."""
        cursor.go(["etc"])
        for name in ("hosts", "hostname", "resolv.conf"):
            try:
                write_new(cursor, name)
            except FileExistsError:
                continue
            yield f"etc/{name}"
        cursor.go([])

    @contextmanager
    def _top(self) -> Iterator[DirWalker]:
        descriptor = open_directory(self.path)
        try:
            with DirWalker(descriptor, str(self.path)) as cursor:
                yield cursor
        finally:
            os.close(descriptor)

    @cached_property
    def _members(self) -> Members:
        return Members(self._image.rootfs)

    def restore(self) -> tuple[str, ...]:
        """Remove what a run added, and restore what it changed or removed. Returns the affected paths. Raises RunError,
        also if something is mounted in the root: the next run tries again."""
        self._soiled = True
        with self._top() as cursor:
            now = dict(marks(cursor.descriptor))
            added = [name for name in now if name not in self._marks]
            changed = [name for name, mark in self._marks.items() if now.get(name) != mark]
            try:
                changed += self._stored_into(cursor, set(now).difference(added, changed))
                # First: new files in a directory inherit its access control list and flags.
                still = [name for name in changed if name in now and self._is_directory_still(name, now)]
                self._reset(cursor, self._directories(still))
                _remove(cursor, [*added, *(name for name in changed if not self._is_directory_still(name, now))])
                if changed:
                    self._bring_back(cursor, changed)
            except OSError as error:
                raise RunError(f"{cursor.path()} can't be restored: {error}", "see dmesg and mount") from None
        self._soiled = False
        return tuple(added + changed)

    def _stored_into(self, cursor: DirWalker, unmoved: Set[str]) -> list[str]:
        """Return the files whose content a run changed without moving their times, as tmpfs permits."""
        names = {name: self._marks[name] for name in sorted(unmoved & self._digests.keys())}
        return [name for name, digest in _digests(cursor, names) if digest != self._digests[name]]

    def check(self) -> None:
        """Check that nothing of the last run is left. Raises RunError as ``restore`` does."""
        if self._soiled:
            self.restore()

    def _is_directory_still(self, name: str, now: dict[str, Mark]) -> bool:
        return name not in now or (stat.S_ISDIR(now[name][0]) and stat.S_ISDIR(self._marks[name][0]))

    def _bring_back(self, cursor: DirWalker, names: Sequence[str]) -> None:
        directories = self._directories(names)
        others = [name for name in names if not stat.S_ISDIR(self._marks[name][0])]
        with self._members as members, self._top() as links:
            for name in directories:
                _make_directory(cursor, name)
                self._reset(cursor, [name])
            for name in set(others) & set(self._own):
                cursor.go(_parts(name)[:-1])
                members.make_empty(name, cursor, self._owned(name))
            for name in sorted(set(others) - set(self._own), key=members.position):
                cursor.go(_parts(name)[:-1])
                members.make(name, cursor, self._owned(name), links)
            self._reset(cursor, directories)  # again: new entries have changed its time
        cursor.go([])
        now = dict(marks(cursor.descriptor))
        for name in names:
            if now.get(name, ())[:4] != self._marks[name][:4]:
                raise RunError(
                    f"{cursor.path(name)} is not what it was, restored", "run kit image rm, and build it again"
                )
        self._marks = now

    def _reset(self, cursor: DirWalker, directories: Iterable[str]) -> None:
        """Restore the owner, mode, attributes, flags and times of directories."""
        for name in directories:
            cursor.go(_parts(name))
            mode, uid, gid, *_ = self._marks[name]
            write_attributes(cursor.descriptor, self._attributes[name], stat.S_IMODE(mode), uid, gid)

    def _owned(self, name: str) -> Owned:
        return Owned(*self._marks[name][:3])


def _parts(name: str) -> list[str]:
    return name.split("/") if name else []


def _digests(cursor: DirWalker, names: Mapping[str, Mark]) -> Iterator[tuple[str, bytes]]:
    """Yield the digest of each regular file among these names that this user may read."""
    for name, mark in names.items():
        if stat.S_ISREG(mark[0]):
            *above, last = _parts(name)
            cursor.go(above)
            with suppress(PermissionError), open_regular(Path(last), os.O_NOFOLLOW, cursor.descriptor) as file:
                digest = hashlib.sha256()
                while part := file.read(1 << 20):
                    digest.update(part)
                yield name, digest.digest()
    cursor.go([])


def _remove(cursor: DirWalker, names: Sequence[str]) -> None:
    """Remove these names, parents first: a directory's removal includes its entries."""
    gone = ""
    for name in sorted(names, key=_parts):
        if gone and name.startswith(f"{gone}/"):
            continue
        *above, last = _parts(name)
        cursor.go(above)
        remove_at(cursor, last)
        gone = name


def _make_directory(cursor: DirWalker, name: str) -> None:
    if name:
        *above, last = _parts(name)
        cursor.go(above)
        with suppress(FileExistsError):
            os.mkdir(last, 0o700, dir_fd=cursor.descriptor)
