"""Clean-ups: how each kind of acquired thing is undone. The module that makes such things declares theirs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import RunError
from kit.core.flock import try_lock
from kit.core.paths import is_run_directory
from kit.host.cgroup.cgroup import Cgroup
from kit.host.safe_fs import remove


def bears_name(value: str, journal: Path) -> bool:
    """Return whether the journal's session gives names of this form."""
    return value.startswith("kit-") and journal.stem in value and "/" not in value


@dataclass(frozen=True)
class Cleanup:
    """How one kind of thing is undone."""

    undo: Callable[[str], object]  # raises RunError or OSError
    # Whether a thing with that name exists; None if others give the names, or if only a missing thing is made
    is_there: Callable[[str], bool] | None = None
    # Whether a session may have acquired it, by its value and the path of the session's journal
    ours: Callable[[str, Path], bool] = bears_name
    at_rest: bool = False  # leftovers only take space, so later sessions may run beside them

    def taken(self, value: str) -> bool:
        return self.is_there is not None and self.is_there(value)

    def gone(self, value: str) -> bool:
        """Return whether the thing is missing: the session died before it was made, or the machine restarted."""
        return self.is_there is not None and not self.is_there(value)

    def undo_one(self, name: str, value: str) -> None:
        """Undo the thing with this name. Raises RunError if that fails."""
        try:
            self.undo(value)
        except OSError as error:
            raise RunError(
                f"{name} {value} can't be removed: {error.strerror}", "remove it, then run kit clean"
            ) from None


#: Clean-ups by their names in a journal, in the order of undoing.
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
    """Return whether the path bears the session's name, or lies beside the journals without being one."""
    path, journals, state = Path(value), journal.parent.resolve(), journal.parent.parent.resolve()
    ours = state in path.parents or any(journal.stem in part for part in path.parts)
    return ours and journals not in (path, *path.parents) and path.is_absolute() and ".." not in path.parts


def remove_unused(path: str) -> None:
    """Remove a directory only if it is empty and no session has locked it. A removal would also end all mounts on it in
    other mount namespaces."""
    with suppress(OSError):
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if try_lock(opened):
                Path(path).rmdir()
        finally:
            os.close(opened)


CGROUP = Cleanup(_remove_cgroup, _is_cgroup)
#: Clean-up of directories and files, with all their content.
PATH = Cleanup(_remove_path, _is_path, _is_our_path, at_rest=True)


def empty_directory(places: Collection[Path]) -> Cleanup:
    """Clean-up of directories that sessions make if missing: ``places`` of the host, and the kit's run directory."""
    return Cleanup(remove_unused, _is_path, lambda value, journal: Path(value) in places or is_run_directory(value))
