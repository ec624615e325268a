"""The options of a session, each declared in one place: for the command line, night files, settings and pytest. Pure:
the pytest plugin imports it at each start of pytest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kit.core import quantity
from kit.core.errors import KitError, UsageError
from kit.core.quantity import cpu_list, duration, named, pairs, percentage, table_pairs
from kit.model.default import AUTO, AUTO_ROUNDS, CACHES, DEFAULT_ENGINE, DEFAULT_IMAGE, OFF
from kit.model.fact import LABEL
from kit.model.option import Option, check_numbers, option, options_of

#: Texts by name.
Pairs = tuple[tuple[str, str], ...]


def _rounds(text: str, option: str) -> int:
    """Return a number of rounds, AUTO_ROUNDS for ``auto``."""
    if text != "auto" and not (text.isdecimal() and int(text)):
        raise UsageError(f"{option} {text}: not a number of rounds", "use auto, or a number from 1 on")
    return AUTO_ROUNDS if text == "auto" else int(text)


def _labels(source: Any, option: str) -> Pairs:
    """Return labels from a table, or from texts of the form KEY=VALUE."""
    labels = dict(table_pairs(source, option) if isinstance(source, Mapping) else pairs(tuple(source), option))
    for key, text in labels.items():
        if not re.fullmatch(LABEL.of, key):
            raise UsageError(f"{option} {key}: not a label's name", "use letters, digits, '_', '.' and '-'")
        if not text.isprintable() or len(text) > _LONGEST_LABEL:
            raise UsageError(f"{option} {key}: not one line", f"use {_LONGEST_LABEL} printable characters at most")
    return tuple(labels.items())


def _revisions(source: Any, option: str) -> Pairs:
    """Return revisions by name from a table, or from texts of the form REV,NAME=REV."""
    return named(source if isinstance(source, Mapping) else ",".join(source).split(",") if source else (), option)


def slice_of(text: str, option: str = "--interleave") -> float | None:
    """Return the length of a time slice in seconds; None for ``off``, and for ``auto``, which is decided once the
    session has the machine. Raises UsageError."""
    if text in (AUTO, OFF):
        return None
    match = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,3})?)s", text)
    if not match or not 0.1 <= float(match[1]) <= 10:
        raise UsageError(
            f"{option} {text}: unknown mode", "use auto, off, or a slice length from 0.1s to 10s, such as 0.5s"
        )
    return float(match[1])


def _interleave(text: str, option: str) -> str:
    slice_of(text, option)
    return text


def _cpuset(text: str, option: str) -> str:
    if text:
        cpu_list(text, option)
    return text


_LONGEST_LABEL = 200
_MOST_ROUNDS = 2**31 - 1  # as a database holds it
#: The groups of the help of kit compare.
COMMON, MEASUREMENT, PLACES = "Common", "Measurement", "Filesystems, images and engines"
TRACING, GUEST, OUTPUT = "Tracing", "Guest kernel", "Output and store"


@dataclass(frozen=True, kw_only=True)
class RoundOptions:
    """How rounds are run, and when they stop: what a request asks for and its plan does."""

    rounds: int = option(
        "Number of rounds.  [auto: until each arm is decided]", "N|auto", default="auto", kind=int, read=_rounds,
        most=_MOST_ROUNDS, group=COMMON, in_pytest=True,
    )  # fmt: skip
    budget: float | None = option(  # seconds: no round begins that would not end within it
        "Stop after this long.  [10m with --rounds auto]", "DURATION", default=None, read=duration, group=COMMON,
        in_pytest=True,
    )  # fmt: skip
    margin: float = option(  # 0.03 for 3 %
        "Treat differences below this as equivalent.  [3%]", "P%", default="3%", read=percentage, group=COMMON,
        in_pytest=True, in_suite=True,
    )  # fmt: skip
    cache: str = option(
        "State of the page cache before each run.  [warm]", default="warm", choices=CACHES, group=MEASUREMENT,
        in_pytest=True, in_suite=True,
    )  # fmt: skip
    precision: float | None = option(  # 0.02 for 2 %
        "Continue until the half-width of each ratio is this, up to 100 rounds.", "P%", default=None, read=percentage,
        group=MEASUREMENT, in_pytest=True,
    )  # fmt: skip
    timeout: float | None = option(  # seconds. A night that hangs would block the machine forever
        "End a longer run, its preparation included: it failed.", "DURATION", default=None, read=duration, night="2h",
        group=MEASUREMENT, in_pytest=True, in_suite=True,
    )  # fmt: skip
    rerun: bool = option(
        "Do not rerun disturbed runs.", kind=bool, default=False, flag="--no-rerun", group=MEASUREMENT,
        in_settings=False, in_pytest=True,
    )  # fmt: skip
    fresh: bool = option(
        "Make a new filesystem for each run.", kind=bool, default=False, group=MEASUREMENT, in_settings=False
    )
    seed: int = option(  # of a request, 0: a random one
        "Order of the runs.  [random, recorded]", kind=int, default=None, group=MEASUREMENT, in_settings=False,
        in_pytest=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_numbers(self)

    def of_rounds(self) -> dict[str, Any]:
        """Return these options by name, without those that a subclass adds."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(RoundOptions)}


@dataclass(frozen=True, kw_only=True)
class SessionOptions(RoundOptions):
    """All options of a session that the command line, night files, settings and pytest have in common."""

    source: str = option("Source tree for COMMAND.", "DIR", group=COMMON, in_settings=False)
    image: str = option(
        "Root filesystem: recipe, FILE[:NAME], OCI layout or registry reference.  [the scenario's; of "
        f"COMMAND the recipe {DEFAULT_IMAGE}]", "REF", group=COMMON, in_settings=False,
    )  # fmt: skip
    interleave: str = option(  # the arms of a round in time slices: auto, off, or the length of one
        "Interleave the arms of a round: auto, off, or a slice length such as 0.5s.  [auto]", "MODE", default=AUTO,
        read=_interleave, group=MEASUREMENT, in_pytest=True, in_suite=True,
    )  # fmt: skip
    baseline: str = option("Compare with this arm.  [bare on the same filesystem]", "ARM", group=MEASUREMENT)
    control: bool | None = option(  # None: from CONTROL_FROM rounds on
        "Run the baseline twice in each round, to show the noise.  [unless --rounds is below 4]", default=None,
        kind=bool, flag="--control/--no-control", group=MEASUREMENT,
    )  # fmt: skip
    cpuset: str = option(
        "Run the programs of all arms on these CPUs alone.", "0-3,6", read=_cpuset, group=MEASUREMENT, in_pytest=True,
        in_suite=True,
    )  # fmt: skip
    prepare: str = option(
        "Shell command before each run of COMMAND, not timed.", "CMD", group=MEASUREMENT, in_settings=False
    )
    commands: Pairs = option(  # several instead of one, compared like arms
        "Compare this shell command with others like it (repeatable).", "[NAME=]CMD", default=(), kind=dict,
        read=named, flag="--command", group=MEASUREMENT, in_settings=False,
    )  # fmt: skip
    revisions: Pairs = option(  # stored ones are commits
        "Compare these revisions of --source, a Git repository.", "REV,REV", default=(), kind=dict, read=_revisions,
        flag="--source-rev", group=MEASUREMENT, in_settings=False,
    )  # fmt: skip
    load: str = option(
        "Run this beside each run: niced, on the same filesystem.", "SCENARIO", group=MEASUREMENT, in_pytest=True
    )
    size: int = option(
        "Size of each (sparse) loop filesystem.  [20G]", default="20G", read=quantity.size, group=PLACES, in_suite=True
    )
    directory: str = option("Directory for arms on @dir.", "DIR", flag="--dir", group=PLACES, on_fleet=False)
    rootfs: str = option("Root filesystem from a directory.", "DIR", group=PLACES, in_settings=False, on_fleet=False)
    engine: str = option(
        f"Use this engine where an arm names none: docker, docker@VERSION, or system.  [{DEFAULT_ENGINE}]", "ENGINE",
        default=DEFAULT_ENGINE, group=PLACES, in_pytest=True, in_suite=True,
    )  # fmt: skip
    docker: str = option(
        "Use this dockerd, its directory, or docker-VERSION.tgz.", "PATH", group=PLACES, in_suite=True, on_fleet=False
    )
    explain_calls: bool = option(
        "Trace system calls in three more rounds; see kit show --calls.", kind=bool, default=False, group=TRACING,
        in_settings=False, in_pytest=True,
    )  # fmt: skip
    profile: bool = option(
        "Sample stacks in three more rounds; see kit show --profile.", kind=bool, default=False, group=TRACING,
        in_settings=False, in_pytest=True,
    )  # fmt: skip
    guest: str = option(  # the machine that the session runs in, one of kit.extra.guest.MACHINES; '': the host itself
        "Boot a guest kernel and run everything in it.", "[qemu|uml]", choices=("", "auto", "qemu", "uml"),
        alone="auto", group=GUEST, in_pytest=True, in_suite=True,
    )  # fmt: skip
    kernel: str = option("The guest's kernel: a bzImage, or a User-Mode Linux.", "PATH", group=GUEST, in_suite=True)
    modules: str = option("Modules for --kernel: its /lib/modules/VERSION.", "DIR", group=GUEST)
    title: str = option(
        "Title of the session.  [the scenario, or the command's first words]", group=OUTPUT, in_settings=False
    )
    labels: Pairs = option(
        "Label the session, for histories (repeatable).", "K=V", default=(), kind=dict, read=_labels, flag="--label",
        group=OUTPUT, in_pytest=True,
    )  # fmt: skip

    @property
    def until_decided(self) -> bool:
        """Return whether the session stops when each arm is decided."""
        return self.rounds == AUTO_ROUNDS and self.precision is None

    @property
    def traced(self) -> bool:
        """Return whether traced rounds are requested."""
        return self.explain_calls or self.profile


OPTIONS: Mapping[str, Option] = options_of(SessionOptions)
#: Of each option of pytest's command line.
PYTEST_PREFIX = "--kit-"
#: Those that pytest has too.
SHARED = tuple(name for name, option in OPTIONS.items() if option.in_pytest)


def read_text_as(option: Option, text: str, where: str) -> Any:
    """Return text of a file without types as a nightly file would have it; errors name ``where``. Raises UsageError."""
    if option.choices and text not in option.choices:
        raise UsageError(f"{where}: unknown value '{text}'", f"use one of: {', '.join(filter(None, option.choices))}")
    if option.kind is dict:
        return text.splitlines()
    if option.kind is bool:
        if text.lower() not in _TRUTH:
            raise UsageError(f"{where}: '{text}' is not true or false", "use true or false")
        return _TRUTH[text.lower()]
    if option.kind is int and not option.read:
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise UsageError(f"{where}: '{text}' is not a whole number", "use digits")
        return int(text)
    return text


_TRUTH = {"true": True, "false": False}


def read_options(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the given options as fields; sizes, times and percentages, for example, may be text. ``prefix``: precedes
    an option's name in errors. Raises UsageError."""
    return {name: option.read_value(values[name], prefix) for name, option in OPTIONS.items() if name in values}


def read_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among the parameters of kit compare as fields. Raises UsageError."""
    values = {name: parameters[option.parameter] for name, option in OPTIONS.items()}
    negated = {name: not value for name, value in values.items() if OPTIONS[name].negated}
    return read_options({**values, **negated}, "--")


def in_words_of_pytest(error: KitError) -> str:
    """Return an error's text with options as pytest has them: --margin is --kit-margin, and --fresh, which is a keyword
    of the fixture alone, is fresh. Commands of the kit stay as they are."""
    return "\n".join(
        line if "kit compare" in line else _OPTION.sub(_spelled_in_pytest, line) for line in str(error).splitlines()
    )


def _spelled_in_pytest(match: re.Match[str]) -> str:
    option = _WORDS.get(match[0])
    return match[0] if option is None else option.spelled(PYTEST_PREFIX if option.in_pytest else "")


_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_WORDS = {word: option for option in OPTIONS.values() for word in option.words.split("/")}
