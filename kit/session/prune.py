"""Removal of what is old: sessions of the store, their logs, and entries of the caches that no session has used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kit.core.paths import Paths
from kit.host.cache_use import last_used
from kit.host.safe_fs import remove, scratch
from kit.store import Store
from kit.store.retention import Expired, Retention, find_expired, remove_expired

#: Directories of the cache, each with entries that are made again when they are needed.
_CACHES = ("images", "engines", "kernels", "inputs")
#: Written beside an entry of ``inputs``.
_FACTS = ".json"


@dataclass(frozen=True)
class Pruning:
    """What a rule removes on this machine and in the store. ``logs``: directories, by session. ``caches``: entries."""

    expired: Expired
    logs: tuple[Path, ...]
    caches: tuple[Path, ...]

    def __str__(self) -> str:
        older = f"; {len(self.expired.kept)} older stay" if self.expired.kept else ""
        counts = ((self.expired.sessions, "session"), (self.logs, "log"), (self.caches, "cache entry"))
        sessions, *others = (_counted(len(removed), name) for removed, name in counts)
        return ", ".join((f"{sessions}{older}", *others))


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name[:-1]}ies" if name[-1] == "y" else f"{count} {name}s"


def plan_pruning(store: Store, paths: Paths, rule: Retention, now: float) -> Pruning:
    """Return what the rule removes. Raises KitError."""
    expired = find_expired(store, rule, now)
    gone = {session.id for session in expired.sessions}
    if rule.titles is not None:  # logs and caches of other sessions are not this rule's
        return Pruning(expired, tuple(path for path in _logs(paths) if path.name in gone), ())
    logs = (path for path in _logs(paths) if path.name in gone or _is_orphan(path, store, rule.before))
    return Pruning(expired, tuple(logs), tuple(_unused(paths.cache, rule.before)))


def prune(store: Store, paths: Paths, pruning: Pruning) -> None:
    """Remove it. The caller holds the machine lock, so no session uses the caches. Raises KitError."""
    remove_expired(store, pruning.expired)
    for session in pruning.expired.sessions:
        (paths.data / "begun" / session.id).unlink(missing_ok=True)
    for path in pruning.logs:
        remove(path)
    for path in pruning.caches:
        _remove_entry(path)


def _remove_entry(path: Path) -> None:
    """Remove an entry of a cache: first its facts, then all of it at once, since a half would be used as a whole."""
    remove(path.with_name(f"{path.name}{_FACTS}"))
    with scratch(path.parent) as directory:
        path.rename(directory / path.name)


def _logs(paths: Paths) -> list[Path]:
    return sorted(path for path in paths.logs("x").parent.glob("*") if path.is_dir() and not path.is_symlink())


def _is_orphan(path: Path, store: Store, before: float) -> bool:
    """Return whether a log is old and its session is missing in the store."""
    return path.lstat().st_mtime < before and path.name not in store.names(path.name)


def _unused(cache: Path, before: float) -> Iterator[Path]:
    for directory in (cache / name for name in _CACHES):
        for path in sorted(directory.glob("[!.]*")):
            with suppress(FileNotFoundError):
                if path.suffix not in (_FACTS, ".log") and last_used(path) < before:
                    yield path
