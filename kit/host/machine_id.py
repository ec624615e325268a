"""Which machine this is: the id that its system has made for it (machine-id(5)), else one that the kit makes."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path

from kit.core.errors import MachineError
from kit.core.paths import find_paths, machine_root
from kit.core.private import make_private, passable_mode
from kit.core.regular import open_regular
from kit.host.durable import write_file

_FILE = "etc/machine-id"
#: An image's file is empty or says "uninitialized": its id would be that of all machines that run it.
_ID = re.compile(r"[0-9a-f]{32}")
_LINKS = 8


def hashed_machine_id() -> str:
    """Return a hash that tells machines apart without naming them."""
    identity = _given(machine_root()) or _kept()
    return hashlib.sha256(f"storage-driver-test-kit {identity}".encode()).hexdigest()[:12]


def _given(root: Path) -> str:
    """Return the id of the system in ``root``; '' if it has none."""
    return _read(_below(root, _FILE))


def _below(root: Path, name: str) -> Path:
    """Return the file that a name means in ``root``, where absolute links begin, too; a link if it means none."""
    for _ in range(_LINKS):
        path = root / name
        if not path.is_symlink():
            break
        name = os.path.normpath(f"/{Path(name).parent / path.readlink()}").lstrip("/")
    return root / name


def _kept() -> str:
    """Return a random id that stays in the state directory; 'unknown' if it can't stay there."""
    try:
        file = find_paths().state / "machine-id"
        if not (text := _read(file)):
            make_private(file.parent, passable_mode())
            write_file(file, f"{secrets.token_hex(16)}\n".encode())
            text = _read(file)
    except (OSError, MachineError):
        text = ""
    return text or "unknown"


def _read(file: Path) -> str:
    try:
        with open_regular(file, os.O_NOFOLLOW) as opened:
            text = opened.read(64).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return text if _ID.fullmatch(text) else ""
