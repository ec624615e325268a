"""The directory of a site: complete files, and a list of them, which says what is the kit's to replace or remove."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kit.core.codec import UnreadableError, decode_json, encode_json
from kit.core.errors import UsageError, said_by_system
from kit.core.regular import open_regular
from kit.host.durable import sync_filesystem
from kit.host.output_file import make_output_directory, write_output

_LIST = "kit-site.json"
#: Names that the kit gives: at most one directory, never a parent.
_OURS = re.compile(r"(?:[a-z]+/)?[A-Za-z0-9][A-Za-z0-9._-]*\.(?:html|csv)")
_FIX = "name a directory that you may write to"


@dataclass(frozen=True)
class SiteList:
    """``files``: what each file was made of, as a digest; '' for one that every run makes."""

    files: Mapping[str, str] = field(default_factory=dict)


def open_site(directory: Path) -> SiteList:
    """Return the list of the last run, an empty one for a new or empty directory. Raises UsageError for a directory
    with files of something else."""
    try:
        if not directory.exists() or not any(directory.iterdir()):
            return SiteList()
        with open_regular(directory / _LIST) as file:
            return decode_json(SiteList, file.read())
    except UnreadableError as error:
        what = f"{directory / _LIST} is damaged: {error.message}"
    except FileNotFoundError:
        what = f"{directory} has other files"
    except OSError as error:
        raise UsageError(said_by_system(error), _FIX) from None
    raise UsageError(what, "name an empty directory, or that of an earlier kit site")


def is_kept(directory: Path, before: SiteList, file: str, digest: str) -> bool:
    """Return whether the file is there, made of the same."""
    return bool(digest) and before.files.get(file) == digest and (directory / file).is_file()


def begin_site(directory: Path, before: SiteList, files: Collection[str]) -> None:
    """Make the directory and those of ``files``, and list these, so that a later run knows them even if this one is
    killed. Raises UsageError, also for a link in the place of a directory and for a file of something else."""
    listed = SiteList({**dict.fromkeys(files, ""), **before.files})
    try:
        make_output_directory(directory)
        for path in {(directory / file).parent for file in listed.files if _OURS.fullmatch(file)} - {directory}:
            make_output_directory(path)
        for file in files:
            if file not in before.files and os.path.lexists(directory / file):
                raise UsageError(f"{directory / file} is not of kit site", "move it, or name another directory")
        put_file(directory, _LIST, encode_json(listed))
    except OSError as error:
        raise UsageError(said_by_system(error), _FIX) from None


def put_file(directory: Path, file: str, text: str) -> None:
    """Write a file beside and rename it: a reader finds the old one or the new one, and no link is followed. Raises
    OSError."""
    write_output(directory / file, text)


def close_site(directory: Path, before: SiteList, made: SiteList) -> None:
    """Remove the files of the last run that this one has not, such as pages of removed sessions, and write the list.
    Raises UsageError, RunError."""
    try:
        for file in before.files.keys() - made.files.keys():
            if _OURS.fullmatch(file):
                with suppress(FileNotFoundError):
                    (directory / file).unlink()
        sync_filesystem(directory)  # what is listed as complete stays so, whatever ends the machine
        put_file(directory, _LIST, encode_json(made))
    except OSError as error:
        raise UsageError(said_by_system(error), _FIX) from None
