"""Combines the layers of an image into one root filesystem as the OCI Image Format Specification says, whiteouts
included."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from kit.arms.image.decompress import decompressed, usable
from kit.host.tarball import Holes, members, plain_name, read_tarball, write_tarball

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
#: Headers that tarfile writes again, or that describe a sparse file which is written whole.
_OWN_HEADERS = ("path", "linkpath", "size", "uid", "gid", "uname", "gname")
_SPARSE = "GNU.sparse."


@dataclass
class _Hidden:
    """The names of lower layers that upper layers hide."""

    names: set[str] = field(default_factory=set)  # that they hold themselves, or have removed
    below: set[str] = field(default_factory=set)  # below which nothing of a lower layer is seen

    def hides(self, name: str) -> bool:
        return name in self.names or any(parent in self.below for parent in _parents(name))


def flatten(layers: list[Path], rootfs: Path) -> None:
    """Write the visible content of all layers, lowest first, as one tarball whose names begin with ``./``."""
    hidden = _Hidden()
    visible_names: list[dict[str, int]] = []
    for layer in reversed(layers):
        layer_names, above = _read(layer, hidden)
        visible_names.insert(0, layer_names)
        hidden.names |= above.names
        hidden.below |= above.below
    with write_tarball(rootfs) as target:
        output = _Output(target)
        for layer, layer_names in zip(layers, visible_names, strict=True):
            _copy(layer, layer_names, output)


def _read(layer: Path, hidden: _Hidden) -> tuple[dict[str, int], _Hidden]:
    """Return the visible names of a layer, each with the number of its last entry; and what this layer hides."""
    names: dict[str, int] = {}
    above = _Hidden()
    with read_tarball(layer) as tar:
        for number, member in enumerate(members(tar)):
            name = _name(member.name)
            parent, _, last = name.rpartition("/")
            if last == _OPAQUE:
                above.below.add(parent)
            elif last.startswith(_WHITEOUT):
                gone = f"{parent}/{last.removeprefix(_WHITEOUT)}".lstrip("/")
                above.names.add(gone)
                above.below.add(gone)
            elif name:
                names[name] = number
                above.names.add(name)
                if not member.isdir():
                    above.below.add(name)
    return {name: number for name, number in names.items() if not hidden.hides(name)}, above


@dataclass
class _Links:
    """Files of a layer that upper layers hide, and hard links to them that they do not hide."""

    files: dict[str, int] = field(default_factory=dict)  # position of the hidden entry in the layer
    links: dict[str, str] = field(default_factory=dict)  # a hidden hard link: its file
    moved: dict[str, str] = field(default_factory=dict)  # a hidden file: the visible name that replaced it

    def hide(self, member: tarfile.TarInfo, name: str) -> None:
        self.files.pop(name, None)
        self.links.pop(name, None)
        self.moved.pop(name, None)
        if member.islnk():
            self.links[name] = self.file(member)
        elif member.isreg():
            self.files[name] = member.offset

    def file(self, member: tarfile.TarInfo) -> str:
        first = _name(member.linkname)
        return self.links.get(first, first)


@dataclass
class _Output:
    """The root filesystem so far, the names in it, and the holes that all layers may still have."""

    tar: tarfile.TarFile
    written: set[str] = field(default_factory=set)
    holes: Holes = field(default_factory=Holes)

    def add(self, member: tarfile.TarInfo, name: str, source: IO[bytes] | None) -> None:
        member.name = f"./{name}"
        member.pax_headers = {
            key: text
            for key, text in member.pax_headers.items()
            if key not in _OWN_HEADERS and not key.startswith(_SPARSE)
        }
        self.tar.addfile(member, source)
        self.tar.members = []  # type: ignore[attr-defined]  # or it keeps them all
        self.written.add(name)


def _copy(layer: Path, names: dict[str, int], output: _Output) -> None:
    """Add the visible entries of a layer. ``names``: of these, each with the number of its entry."""
    with read_tarball(layer) as tar, read_tarball(layer) as again:
        links = _Links()
        for number, member in enumerate(members(tar, holes=output.holes)):
            name = _name(member.name)
            if names.get(name) != number:
                links.hide(member, name)
                continue
            source: IO[bytes] | None = tar.extractfile(member) if member.isreg() else None
            if member.islnk():
                first = links.file(member)
                first = links.moved.get(first, first)
                if first in output.written:
                    member.linkname = f"./{first}"
                else:
                    file = _hidden_file(again, links, first)
                    links.moved[first] = name
                    member.type, member.linkname, member.size = tarfile.REGTYPE, "", file.size
                    source = again.extractfile(file)
            elif member.isreg():
                member.type = tarfile.REGTYPE  # a sparse one is written whole
            output.add(member, name, source)


def _hidden_file(tar: tarfile.TarFile, links: _Links, name: str) -> tarfile.TarInfo:
    if name not in links.files:
        raise ValueError(f"a hard link points to the missing file {name[:60]}")
    assert tar.fileobj
    tar.fileobj.seek(links.files[name])
    return tar.tarinfo.fromtarfile(tar)


def _name(text: str) -> str:
    name = plain_name(text)
    if ".." in name.split("/"):
        raise ValueError(f"the file name {text[:60]} is not allowed")
    return name


def _parents(name: str) -> Iterator[str]:
    """Yield all directories that contain a name, the root as '' among them, and the name itself."""
    yield ""
    for index, letter in enumerate(name):
        if letter == "/":
            yield name[:index]


def copy_tarball(path: Path, rootfs: Path) -> None:
    """Write the entries of a tarball with any compression that ``decompress`` knows, one of each name. Raises
    UsageError."""
    whole = rootfs.with_name("whole.tar")
    try:
        with usable(path):
            flatten([decompressed(path, whole)], rootfs)
    finally:
        whole.unlink(missing_ok=True)
