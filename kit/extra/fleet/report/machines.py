"""The machines of a fleet: for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from kit.core.quantity import shown_duration
from kit.model.machine import Member, MemberStatus, ShareStatus, count_machines, shared_machines

_HEADERS = ("machine", "class", "kit", "can", "runs")
_ABILITIES = ("machines", "cores", "memory", "kernel", "docker", "drivers", "filesystems")


@dataclass(frozen=True)
class MembersView:
    """Machines of a fleet. ``rows``: a line for each machine, with its activity in lines of its own; classes are below,
    since they are long. ``abilities``: one row for machines with equal abilities."""

    headline: str
    rows: Sequence[Sequence[str]]
    lines: Sequence[str]
    abilities: Sequence[Sequence[str]]
    headers: Sequence[str] = _HEADERS
    ability_headers: Sequence[str] = _ABILITIES


def view_members(statuses: Sequence[MemberStatus]) -> MembersView:
    if not statuses:
        return MembersView("no machine yet: run kit fleet worker SCHEDULER on each", (), (), ())
    running = sum(bool(status.runs) for status in statuses)
    kinds: dict[str, list[Member]] = {}
    for status in statuses:
        kinds.setdefault(status.member.kind, []).append(status.member)
    letters = {kind: _letter(number) for number, kind in enumerate(sorted(kinds))}
    rows = [
        (status.member.name, letters[status.member.kind], status.member.kit_version, _can(status.member),
         "\n".join(map(_run, status.runs)) or "idle")
        for status in statuses
    ]  # fmt: skip
    members = [status.member for status in statuses]
    lines = [
        f"class {letters[kind]}: {kind}; {_machines(class_members)}" for kind, class_members in sorted(kinds.items())
    ]
    for names in shared_machines(members):
        lines.append(f"{', '.join(names)}: workers of one machine, which counts once")
    together = [member.name for member in members if member.together]
    if together:
        lines.append(f"{', '.join(together)}: separate locks: workers on one machine disturb each other")
    headline = f"{_machines(members)} of {_classes(len(kinds))}, {running} at work"
    return MembersView(headline, rows, lines, _abilities(members))


def render_members(statuses: Sequence[MemberStatus]) -> str:
    view = view_members(statuses)
    parts = [view.headline]
    if view.rows:
        parts += ["", tabulate(view.rows, view.headers), "", *view.lines]
    return "\n".join(parts) + "\n"


def _run(run: ShareStatus) -> str:
    what, _, _ = run.share.rpartition(" ")  # of the key the last word tells clients apart
    if run.progress is None:
        return f"{what}\nsets up"
    remaining = "" if run.progress.left is None else f", {shown_duration(run.progress.left)} left"
    return f"{what}\n{run.progress.done} of {run.progress.runs} runs{remaining}"


def _abilities(members: Sequence[Member]) -> list[Sequence[str]]:
    names_by_ability: dict[Sequence[str], list[str]] = {}
    for member in members:
        names_by_ability.setdefault(_ability(member), []).append(member.name)
    return [(", ".join(names), *ability) for ability, names in names_by_ability.items()]


def _ability(member: Member) -> Sequence[str]:
    drivers, filesystems = (
        "not checked" if names is None else ", ".join(names) or "none" for names in (member.drivers, member.filesystems)
    )
    docker = f"{member.docker.version}, {member.docker.driver}" if member.docker.version else "none"
    memory, kernel = f"{member.memory / 2**30:.0f} GiB", member.kernel.split(" ")[0]
    return str(member.cores), memory, kernel, docker, drivers, filesystems


def _machines(members: Sequence[Member]) -> str:
    """Return ``2 machines``, or ``1 machine (2 workers)`` if one has several workers."""
    count = count_machines(members)
    workers = f" ({len(members)} workers)" if len(members) > count else ""
    return f"{_several(count, 'machine')}{workers}"


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _classes(count: int) -> str:
    return f"{count} class{'es' if count != 1 else ''}"


def _letter(number: int) -> str:
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def _can(member: Member) -> str:
    root = "root" if member.root else "no root"
    docker = f"\nDocker {member.docker.version}" if member.docker.version else ""
    if member.drivers is None:
        return f"{root}, not checked{docker}"
    counts = f"{_several(len(member.drivers), 'driver')}, {_several(len(member.filesystems or ()), 'filesystem')}"
    return f"{root}, {counts}{docker}"
