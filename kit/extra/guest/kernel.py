"""Kernel files: the machine that boots them, and the modules that they need to find their disks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kit.arms.image.decompress import plain, usable
from kit.core.errors import UsageError
from kit.core.regular import open_regular

#: Documentation/arch/x86/boot.rst: the magic number of a bzImage, and where it is.
_MAGIC, _AT = b"HdrS", 0x202
#: Part of the release of each kernel that the kit builds.
OWN = "-kit-"
#: Modules that are needed before the root filesystem can be mounted.
_NEEDED = ("virtio_pci", "virtio_blk", "ext4", "crc32c_generic")


def machine_of(kernel: Path) -> str:
    """Return ``uml`` for a program, ``qemu`` for a bzImage. Raises UsageError for any other file."""
    try:
        with open_regular(kernel) as file:
            head = file.read(_AT + len(_MAGIC))
    except OSError as error:
        raise UsageError(
            f"kernel {kernel}: {error.strerror}", "give the path of a bzImage or a User-Mode Linux"
        ) from None
    if head[_AT:] == _MAGIC:
        return "qemu"
    if head.startswith(b"\x7fELF"):
        return "uml"
    raise UsageError(f"{kernel} is not a kernel", "give a bzImage (arch/x86/boot/bzImage) or a User-Mode Linux")


def release_of(kernel: Path) -> str:
    """Return the release of a User-Mode Linux from its banner (init/version.c); '' without a banner."""
    match = re.search(rb"Linux version (\d\S*) \(", kernel.read_bytes())
    return match[1].decode(errors="replace") if match else ""


def early_modules(directory: Path) -> list[tuple[str, bytes]]:
    """Return the modules that the root filesystem needs, in the order of loading."""
    dependencies: dict[str, tuple[str, list[str]]] = {}
    for line in (directory / "modules.dep").read_text().splitlines():
        path, _, needs = line.partition(":")
        dependencies[_name(path)] = (path, [_name(need) for need in needs.split()])
    order: list[str] = []

    def visit(name: str) -> None:
        if name in dependencies and name not in order:
            for need in dependencies[name][1]:
                visit(need)
            order.append(name)

    for name in _NEEDED:
        visit(name)
    return [(name, _content(directory / dependencies[name][0])) for name in order]


def _name(path: str) -> str:
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    with usable(path, "name the directory /lib/modules/VERSION of that kernel"), plain(path) as file:
        return file.read()


def cpio(files: Iterator[tuple[str, int, bytes]]) -> bytes:
    """Return an archive of (path, mode, content) in the format that the kernel unpacks
    (early-userspace/buffer-format.rst)."""
    out = bytearray()
    for number, (path, mode, content) in enumerate([*files, ("TRAILER!!!", 0, b"")], 1):
        name = path.encode() + b"\0"
        numbers = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        out += b"070701" + b"".join(b"%08x" % value for value in numbers) + name
        out += b"\0" * (-len(out) % 4) + content
        out += b"\0" * (-len(out) % 4)
    return bytes(out)
