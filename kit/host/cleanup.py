"""How what a session acquires is undone, one kind of thing each: whoever makes such things says it of theirs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import RunError
from kit.host.beneath import remove
from kit.host.cgroup import Cgroup


def bears_name(value: str, journal: Path) -> bool:
    """Whether a name is one that the journal's session gives."""
    return value.startswith("kit-") and journal.stem in value and "/" not in value


@dataclass(frozen=True)
class Cleanup:
    """``undo`` raises RunError or OSError. ``is_there`` says whether there is one of that name; None where names are
    given by others, or it is made only if there is none. ``ours``: whether a session may have acquired it, by its value
    and the path of the session's journal. ``at_rest``: what is left of it takes room
    and nothing else, so that sessions go on beside it."""

    undo: Callable[[str], object]
    is_there: Callable[[str], bool] | None = None
    ours: Callable[[str, Path], bool] = bears_name
    at_rest: bool = False

    def taken(self, value: str) -> bool:
        return self.is_there is not None and self.is_there(value)

    def gone(self, value: str) -> bool:
        """The session died before it was made, or it is gone with the machine's last start."""
        return self.is_there is not None and not self.is_there(value)

    def undo_one(self, name: str, value: str) -> None:
        """``name``: of the kind. Raises RunError where it can't be undone."""
        try:
            self.undo(value)
        except OSError as error:
            raise RunError(f"{name} {value} can't be removed: {error.strerror}", "remove it, then kit clean") from None


#: Each by its name in a journal, in the order in which they are undone.
Cleanups = Mapping[str, Cleanup]


def _remove_cgroup(name: str) -> None:
    Cgroup.named(name).remove()


def _is_cgroup(name: str) -> bool:
    return any(path.exists() for path in Cgroup.named(name).paths.values())


def _remove_path(path: str) -> None:
    remove(Path(path), real=True)  # as it was resolved when it was made


def _is_path(path: str) -> bool:
    return os.path.lexists(path)


def _is_our_path(value: str, journal: Path) -> bool:
    """It bears the session's name, or lies in the directory in which the journals are, but among them."""
    path, journals, state = Path(value), journal.parent.resolve(), journal.parent.parent.resolve()
    ours = state in path.parents or any(journal.stem in part for part in path.parts)
    return ours and journals not in (path, *path.parents) and path.is_absolute() and ".." not in path.parts


def _remove_empty(path: str) -> None:
    """Remove a directory only where nobody has put anything into it since."""
    with suppress(OSError):
        Path(path).rmdir()


CGROUP = Cleanup(_remove_cgroup, _is_cgroup)
#: Directories and files, with all that is in them.
PATH = Cleanup(_remove_path, _is_path, _is_our_path, at_rest=True)


def empty_directory(where: Path) -> Cleanup:
    """A directory of the host's that sessions make where it is lacking."""
    return Cleanup(_remove_empty, _is_path, lambda value, journal: value == str(where))
