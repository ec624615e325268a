"""Unpacks archives below a directory: whole by tar, or single members by a walker. No other module does."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO

from kit.core.errors import RunError
from kit.host.command import run
from kit.host.interrupt import interruptible
from kit.host.safe_fs.dir_walker import CAPABILITY, DirWalker, is_policys, open_directory
from kit.host.safe_fs.tree import NEW, write_new
from kit.host.tarball import local_name, members, plain_name, read_tarball

_OTHER_IMAGE = "use an image, or sources, without it"


def unpack(archive: Path, directory: Path, *, what: str, options: Sequence[str] = ()) -> None:
    """Unpack an archive below a directory; all but the last name of its path is trusted. ``options``: further options
    of tar, names last. Raises RunError, also if the directory is a symlink, or a symlink in it would lead a member
    outside."""
    try:
        top = open_directory(directory)
    except OSError as error:
        reason = "it is a symlink" if directory.is_symlink() else error.strerror
        raise RunError(f"{what}: {directory} can't be filled: {reason}", _OTHER_IMAGE) from None
    try:
        detour = _detour(archive, top)
        if detour:
            raise RunError(f"{what}: {directory}/{detour} is a symlink, and there is more below it", _OTHER_IMAGE)
        words: list[str | Path] = ["tar", "--force-local", "-xpf", archive, "-C", f"/proc/self/fd/{top}", *options]
        with interruptible():
            run(words, what=what, pass_fds=(top,))
    finally:
        os.close(top)


def _detour(archive: Path, top: int) -> str:
    """Return the first existing symlink on the path of a member, or ''. tar creates the archive's own symlinks last if
    they are absolute or lead upwards."""
    with os.scandir(top) as entries:
        if not any(True for _ in entries):
            return ""
    plain = {""}
    with read_tarball(archive) as tar:
        for member in members(tar):
            for name in (member.name, member.linkname if member.islnk() else ""):
                above = plain_name(local_name(name)).split("/")[:-1]
                for depth in range(len(above)):
                    path = "/".join(above[: depth + 1])
                    if path not in plain and _is_symlink(path, top):
                        return path
                    plain.add(path)
    return ""


def _is_symlink(path: str, top: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(path, dir_fd=top, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


_XATTR = "SCHILY.xattr."


@dataclass(frozen=True)
class Owned:
    """Mode (with the file type) and owner that a member must have."""

    mode: int
    uid: int
    gid: int


class Members:
    """An uncompressed archive with a list of each member's offset, for use in a ``with`` block."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._begin: dict[str, int] = {}
        with read_tarball(archive) as tar:
            for member in members(tar):
                self._begin[plain_name(local_name(member.name))] = member.offset

    def __enter__(self) -> Members:
        self._tar = read_tarball(self._archive)
        return self

    def __exit__(self, *error: object) -> None:
        self._tar.close()

    def position(self, name: str) -> int:
        """Return members in this order, so that hard links find their targets. Raises RunError for an unknown name."""
        if name not in self._begin:
            raise RunError(
                f"{self._archive} has no {name!r}", "use an archive that has each file once, not behind a symlink"
            )
        return self._begin[name]

    def make(self, name: str, at: DirWalker, owned: Owned, links: DirWalker) -> None:
        """Create a member other than a directory under an unused name. ``links``: a cursor of the same top, for the
        target of a hard link. Raises OSError, RunError."""
        member = self._read(name)
        last = name.rpartition("/")[2]
        if member.islnk():
            *above, source = plain_name(local_name(member.linkname)).split("/")
            links.go(above)
            os.link(source, last, src_dir_fd=links.descriptor, dst_dir_fd=at.descriptor, follow_symlinks=False)
            return
        if member.issym():
            os.symlink(local_name(member.linkname), last, dir_fd=at.descriptor)
        elif member.isreg():
            self._write(member, last, at)
        else:
            os.mkfifo(last, 0o600, dir_fd=at.descriptor)  # devices are not unpacked
        self._dress(member, last, at, owned)

    def make_empty(self, name: str, at: DirWalker, owned: Owned) -> None:
        """Create a file that is not in the archive. Raises OSError."""
        last = name.rpartition("/")[2]
        write_new(at, last)
        self._dress(None, last, at, owned)

    def _read(self, name: str) -> tarfile.TarInfo:
        assert self._tar.fileobj
        self._tar.fileobj.seek(self.position(name))
        return self._tar.tarinfo.fromtarfile(self._tar)

    def _write(self, member: tarfile.TarInfo, name: str, at: DirWalker) -> None:
        source = self._tar.extractfile(member)
        assert source
        with open(os.open(name, NEW, 0o600, dir_fd=at.descriptor), "wb", buffering=0) as target:
            parts: Sequence[tuple[int, int]] = member.sparse or ((0, member.size),)  # type: ignore[assignment]
            for start, length in parts:
                source.seek(start)
                target.seek(start)
                _copy(source, target, length)
            target.truncate(member.size)

    def _dress(self, member: tarfile.TarInfo | None, name: str, at: DirWalker, owned: Owned) -> None:
        path = f"/proc/self/fd/{at.descriptor}/{name}"
        os.chown(path, owned.uid, owned.gid, follow_symlinks=False)
        headers = member.pax_headers if member else {}
        for key, value in headers.items():
            if key.startswith(_XATTR):
                _note(path, key.removeprefix(_XATTR), value)
        if not stat.S_ISLNK(owned.mode):
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                Path(f"/proc/self/fd/{descriptor}").chmod(stat.S_IMODE(owned.mode))
            finally:
                os.close(descriptor)
        if member:
            moment = int(Decimal(headers.get("mtime", member.mtime)) * 10**9)
            os.utime(path, ns=(moment, moment), follow_symlinks=False)


def _copy(source: IO[bytes], target: IO[bytes], length: int) -> None:
    while length:
        data = source.read(min(length, 1 << 20))
        if not data:
            raise RunError(f"{source.name} is cut short", "run kit image rm, then try again")
        target.write(data)
        length -= len(data)


def _note(path: str, key: str, value: str) -> None:
    """Set an extended attribute if it is an image's, and if it is possible here: tar also leaves out others. Programs
    need their capabilities. Raises OSError if those are refused."""
    if is_policys(key):
        return
    try:
        os.setxattr(path, key, value.encode(errors="surrogateescape"), follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.ENOTSUP and (error.errno != errno.EPERM or key == CAPABILITY):
            raise
