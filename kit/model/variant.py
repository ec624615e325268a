"""Variants of a workload that a session compares like arms: several commands, or revisions of the sources. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kit.core.errors import UsageError
from kit.model.arm import COMMAND, MOST_ARMS, REVISION, VARIANTS, Arm, known_arm

#: A command or a revision: its name, and what it is.
Named = Sequence[tuple[str, str]]
Options = tuple[tuple[str, str], ...]
#: What the options name on the command line.
_GIVEN = {COMMAND: "--command", REVISION: "--source-rev"}


def variant_of(arm: Arm) -> Options:
    """Return the options that say which command and revision it runs; none if the session has one of each."""
    return tuple(option for option in arm.options if option[0] in VARIANTS)


def unvaried(arm: Arm) -> Arm:
    """Return the arm without them: as a user names it who compares one command."""
    return arm.without(*VARIANTS)


def unvaried_name(text: str) -> str:
    """Return the same for an arm's name; that of an imported arm is unchanged."""
    parsed = known_arm(text)
    return str(unvaried(parsed)) if parsed else text


def of_first_variant(names: Sequence[str]) -> list[str]:
    """Return the arms with the command and revision of the first one."""
    variants = [variant_of(parsed) if (parsed := known_arm(name)) else () for name in names]
    return [name for name, variant in zip(names, variants, strict=True) if variant == variants[0]]


def with_variant(arm: Arm, variant: Options) -> Arm:
    """Return the arm with this variant, as far as it does not name one itself."""
    return replace(arm, options=tuple(sorted({**dict(variant), **dict(arm.options)}.items())))


def in_variants(arms: Sequence[Arm], commands: Named, revisions: Named) -> tuple[Arm, ...]:
    """Return each arm once for each command and each revision; an arm that names one is kept. Raises UsageError."""
    varied = list(arms)
    for option, several in ((COMMAND, commands), (REVISION, revisions)):
        names = [name for name, _ in several]
        for arm in varied:
            if arm.option(option) not in ("", *names):
                hint = f"use one of: {', '.join(names)}" if names else f"give them with {_GIVEN[option]}"
                raise UsageError(f"arm '{arm}': no {option} '{arm.option(option)}' in this session", hint)
        varied = [variant for arm in varied for variant in _each(arm, option, names)]
    for arm in varied:
        if varied.count(arm) > 1:
            raise UsageError(f"arm '{arm}' is named twice", "name it once; use --rounds for more runs")
    if len(varied) > max(MOST_ARMS, len(arms)):
        raise UsageError(f"more than {MOST_ARMS} arms, each with each command and revision", "name fewer with --arms")
    return tuple(varied)


def _each(arm: Arm, option: str, names: Sequence[str]) -> list[Arm]:
    return [with_variant(arm, ((option, name),)) for name in names] if names and not arm.option(option) else [arm]
