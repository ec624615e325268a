"""The machines of a fleet as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tabulate import tabulate

from kit.model.member import Member, Progress
from kit.report.progress import clock

#: A share's key, and how far it is.
_Running = tuple[str, Progress | None]


def render_members(rows: Sequence[tuple[Member, Sequence[_Running]]]) -> str:
    """Each machine with what runs on it; classes below, since they are long."""
    if not rows:
        return "no machine: kit fleet worker SCHEDULER on each\n"
    running = sum(bool(runs) for _, runs in rows)
    kinds = Counter(member.kind for member, _ in rows)
    letters = {kind: _letter(number) for number, kind in enumerate(sorted(kinds))}
    table = [
        [member.name, letters[member.kind], member.kit_version, _can(member), "\n".join(map(_runs, runs)) or "idle"]
        for member, runs in rows
    ]
    lines = [f"{_machines(len(rows))} of {_classes(len(kinds))}, {running} at work", ""]
    lines += [tabulate(table, ["machine", "class", "kit", "can", "runs"]), ""]
    lines += [f"class {letters[kind]}: {kind}; {_machines(count)}" for kind, count in sorted(kinds.items())]
    together = [member.name for member, _ in rows if member.together]
    if together:
        lines += [f"{', '.join(together)}: each with a lock of its own: on one machine they disturb each other"]
    return "\n".join(lines) + "\n"


def _runs(share: _Running) -> str:
    key, progress = share
    if progress is None:
        return f"{key}\nmakes ready"
    left = "" if progress.left is None else f", {clock(progress.left)} left"
    return f"{key}\n{progress.done} of {progress.runs} runs{left}"


def _machines(count: int) -> str:
    return _several(count, "machine")


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _classes(count: int) -> str:
    return f"{count} class{'es' if count != 1 else ''}"


def _letter(number: int) -> str:
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def _can(member: Member) -> str:
    root = "root" if member.root else "no root"
    if member.drivers is None:
        return f"{root}, not examined"
    return f"{root}, {_several(len(member.drivers), 'driver')}, {_several(len(member.filesystems or ()), 'filesystem')}"
