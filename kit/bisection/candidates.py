"""The candidates of a bisection: the commits between two of a Git repository, or the versions of an engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kit.analysis.bisection.bisection import Candidate
from kit.core.errors import UsageError
from kit.engines.root import check_version, versions
from kit.host.git import Commit, opened
from kit.model.arm import CONTROL, REVISION, Arm
from kit.model.drivers import VERSIONED
from kit.model.variant import unvaried, variant_of

#: The good commit's name in arms: ``layer:overlay2+rev=good``.
GOOD = "good"


@dataclass(frozen=True)
class BisectionRange:
    """What a bisection searches: ``candidates`` after the ``good`` one, oldest first. ``source``: the repository; '' if
    they are versions of an engine."""

    good: Candidate
    candidates: tuple[Candidate, ...]
    source: str = ""

    @property
    def revisions(self) -> bool:
        return bool(self.source)


def find_range(good: str, bad: str, source: str) -> BisectionRange:
    """Return the range between two revisions of the repository ``source``, or between two ENGINE@VERSION. Raises
    UsageError."""
    engines = [name.partition("@")[0] in VERSIONED and "@" in name for name in (good, bad)]
    if any(engines):
        if not all(engines):
            raise UsageError(f"--good {good} --bad {bad}: a version and a revision", "use two of either kind")
        return _versions(good, bad)
    return _commits(good, bad, source)


def _versions(good: str, bad: str) -> BisectionRange:
    engine, _, first = good.partition("@")
    other, _, last = bad.partition("@")
    if engine != other:
        raise UsageError(f"--good {good} --bad {bad}: two engines", "use two versions of one engine")
    if first == last:
        raise UsageError(f"--good and --bad are both {good}", "name two versions")
    check_version(good, "--good: ")
    check_version(bad, "--bad: ")
    plain = (version for version in versions(engine) if version in (first, last) or re.fullmatch(r"[\d.]+", version))
    known = sorted(dict.fromkeys(plain), key=_by_number)  # another build of a version only if it is named
    between = known[known.index(first) : known.index(last) + 1]
    if len(between) < 2:
        raise UsageError(
            f"--good {good} --bad {bad}: the bad version is not the later one",
            "name the earlier version as --good: a bisection finds slowdowns alone",
        )
    old, *new = (Candidate(f"{engine}@{version}", f"{engine}@{version}") for version in between)
    return BisectionRange(old, tuple(new))


def _by_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _commits(good: str, bad: str, source: str) -> BisectionRange:
    with opened(source, "--good") as repository:
        first, last = repository.find_revision(good, "--good"), repository.find_revision(bad, "--bad")
        if first == last:
            raise UsageError(f"--good {good} and --bad {bad} are the same commit {first[:12]}", "name two")
        if not repository.is_ancestor(first, last):
            raise UsageError(
                f"--good {good} is not an ancestor of --bad {bad}", f"use the common one: git merge-base {good} {bad}"
            )
        commits, start = repository.first_parents(first, last), repository.one_commit(first)
    if commits and first not in commits[0].parents:
        # The line of first parents passes it by: its commits may lack what --good has.
        raise UsageError(
            f"--good {good} was merged into the line of --bad {bad}, and is no commit of it",
            f"use the commit of that line before: --good {commits[0].parents[0][:12]}",
        )
    return BisectionRange(_candidate(start), tuple(map(_candidate, commits)), source)


def _candidate(commit: Commit) -> Candidate:
    created = max(commit.created, 0.0)
    return Candidate(commit.short, commit.id, commit.subject, commit.author, created, len(commit.parents) > 1)


def arms_of_step(arm: Arm, range_: BisectionRange, candidate: Candidate) -> tuple[tuple[Arm, ...], Arm]:
    """Return the arms of a step as its request names them, and the one that the candidate is compared with."""
    if range_.revisions:
        base = replace(arm, options=tuple(sorted({*arm.options, (REVISION, GOOD)})))
        return (arm,), base
    base, other = (replace(arm, engine=item.id) for item in (range_.good, candidate))
    return (base, other), base


def named_revisions(range_: BisectionRange, candidate: Candidate) -> Sequence[tuple[str, str]]:
    """Return the revisions of a step as its request has them."""
    return ((GOOD, range_.good.id), (candidate.name, candidate.id)) if range_.revisions else ()


def check_arm(arm: Arm, range_: BisectionRange) -> None:
    """Check that candidates can differ on the arm. Raises UsageError."""
    if variant_of(arm) or arm.control:
        raise UsageError(
            f"--arm {arm}: a step chooses its own revisions and control", f"use --arm {unvaried(arm).without(CONTROL)}"
        )
    engine = range_.good.id.partition("@")[0]
    if not range_.revisions and (arm.engine.partition("@")[0] != engine or arm.outer):
        raise UsageError(f"--arm {arm}: {engine} does not run it", f"use an arm of {engine}; see kit help arms")
