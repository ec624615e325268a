"""Reads one program's JSON, and tells it from another's. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from kit.core.codec import decode_json
from kit.core.errors import UsageError

T = TypeVar("T")


@dataclass(frozen=True)
class Version:
    """Where a program's files state the version of their form, and a pattern of those that are read. Files without a
    version are read: older ones have none."""

    keys: tuple[str, ...]
    pattern: str

    def check(self, text: str, where: str, program: str) -> None:
        """Raises UsageError for a version that is not read."""
        stated = msgspec.json.decode(text)
        for key in self.keys:
            stated = stated.get(key, "") if isinstance(stated, dict) else ""
        check_version(str(stated), self.pattern, where, program)


def check_version(version: str, pattern: str, where: str, program: str) -> None:
    """Raises UsageError for the version of a program's form that is not read; '' is the form of files without one."""
    if version and not re.fullmatch(pattern, version):
        raise UsageError(
            f"{where}: {program}'s form {version[:40]} is unknown", "update the kit, or export an older form"
        )


def read_document(
    kind: type[T], text: str, head: tuple[str, str], where: str, program: str, version: Version
) -> T | None:
    """Return the document; None if it is another program's. ``head``: the key of its list, and a key that the first
    item of the list has. ``where``: the file's name. Raises UsageError."""
    if not _has_list(text, *head):
        return None
    version.check(text, where, program)
    try:
        return decode_json(kind, text)
    except UsageError as error:
        raise UsageError(f"{where}: not JSON of {program}: {error.message}", "export it again") from None


def _has_list(text: str, key: str, of: str) -> bool:
    """Return whether the text is an object with a list ``key`` whose first item has the key ``of``."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        entries = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get(key, b"")
        first, *_ = msgspec.json.decode(entries, type=list[dict[str, msgspec.Raw]])
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError):
        return False
    return of in first
