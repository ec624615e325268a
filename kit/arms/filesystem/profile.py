"""Filesystem profiles: a named filesystem with its options for mkfs and mount."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from kit.core.errors import UsageError
from kit.core.regular import read_text
from kit.core.table import MissingKeyError, UnknownKeyError, WrongTypeError, read_table
from kit.core.toml import parse_toml

#: The form of a name in an arm.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
_DAY = 86_400
#: Seconds as they were written: whole numbers stay whole in a session's record.
_Seconds = Annotated[int, Meta(gt=0, le=_DAY)] | Annotated[float, Meta(gt=0, le=_DAY)]
_Milliseconds = Annotated[int, Meta(ge=0, le=1000)] | Annotated[float, Meta(ge=0, le=1000)]


@dataclass(frozen=True)
class Profile:
    """A named filesystem with its options. Without ``source``, an NFS export is the disk of profile ``server``, which
    the kit's own server exports."""

    name: str
    type: str
    summary: str = ""
    mkfs: tuple[str, ...] = ()  # options of mkfs
    mount: tuple[str, ...] = ()  # mount options
    expect: tuple[str, ...] = ()  # further options that the kernel must show
    write_back: str = ""  # profile of the disk to which a tmpfs is copied
    every: _Seconds = 30.0  # seconds between two such copies
    source: str = ""  # NFS export
    server: str = ""
    delay: _Milliseconds = 0  # milliseconds between the kit's own server and its client

    @property
    def text(self) -> str:
        """Return the whole profile as one string, for the record of a session."""
        return json.dumps({key: value for key, value in asdict(self).items() if key != "name"})


@cache
def bundled() -> Mapping[str, Profile]:
    path = Path(__file__).with_name("profiles.toml")
    return parse_profiles(path.read_text(encoding="utf-8"), str(path))


def read_profiles(path: Path) -> Mapping[str, Profile]:
    """Return a user's own profiles. Raises UsageError with file and key."""
    return parse_profiles(read_text(path, "name a TOML file with filesystem profiles"), str(path))


def parse_profiles(text: str, path: str) -> Mapping[str, Profile]:
    return {name: _profile(name, table, path) for name, table in parse_toml(text, path).items()}


def recorded(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, Profile]:
    """Return the profiles that ``Profile.text`` wrote."""
    return {name: _profile(name, json.loads(text), f"profile {name}") for name, text in pairs}


def _profile(name: str, table: Any, path: str) -> Profile:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{path}: {name!r} is not a name of a filesystem", "use letters, digits, _ and -, as in @NAME")
    lacking = UsageError(f"{path}: {name} lacks the key 'type'", 'use for example type = "ext4"')
    try:
        profile = read_table(Profile, table, name=name)
    except MissingKeyError:
        raise lacking from None
    except UnknownKeyError as error:
        raise UsageError(f"{path}: {name}.{error.key} is not usable", f"use one of: {error.known}") from None
    except WrongTypeError as error:
        if not error.key:
            raise UsageError(f"{path}: {name} is not a table", f'write [{name}] and below it type = "ext4"') from None
        raise UsageError(f"{path}: {name}.{error.key} is not usable", f"use {error.wanted}") from None
    if not profile.type:
        raise lacking
    if profile.write_back == name:
        raise UsageError(f"{path}: {name}.write_back names itself", "name the profile of a disk")
    return profile
