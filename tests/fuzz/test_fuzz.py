"""Whatever is fed to a parser, it answers or raises a KitError, in bounded time and memory.

Two hundred cases of each, the same every time; ten thousand new ones with ``--hypothesis-profile=long``.
"""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.analysis.threshold import parse_threshold
from kit.cli.timeoutput import parse_time_output
from kit.core.codec import decode, encode
from kit.core.errors import KitError
from kit.core.quantity import duration, pairs, percentage, size
from kit.filesystem import BackingOptions, Profile, bundled, find_profile
from kit.filesystem.profile import parse_profiles, recorded
from kit.model.arm import parse_arm, parse_arms
from kit.model.scenariofile import parse_scenario
from kit.model.sweep import parse_point, points
from kit.nightly.file import parse_nightly
from kit.parsers import parse_report
from kit.parsers.task import BuildTask
from tests import strategies as odd

#: CPU seconds and bytes that a single case may take: far more than any does, far less than one that has no bound.
SECONDS, BYTES = 10, 1 << 30


def _scenario(case: tuple[str, str, dict[str, str]]) -> None:
    text, variant, given = case
    scenario = parse_scenario(text, "demo.toml", variant).bind(given, 2)
    names = {"tree": "/build", "inputs": "/in", "lower": "/low", "engine": "/e"}
    assert all(step.render(names) for step in (*scenario.prepare, *scenario.phases)) and scenario.digest
    uid, gid = map(int, scenario.user.split(":"))
    assert max(uid, gid) < 1 << 32
    assert all("/" not in item.name and not item.name.startswith(".") for item in scenario.inputs)


def _profiles(text: str) -> None:
    profiles = {**bundled(), **parse_profiles(text, "mine.toml")}
    for name in profiles:
        find_profile(name, BackingOptions(profiles=profiles))
    assert recorded(tuple((name, profile.text) for name, profile in profiles.items())) == profiles


def _points(params: list[tuple[str, str]]) -> None:
    found = points(params)
    for label, values in found.items():
        assert parse_point(label).items() <= dict(values).items()


def _report(name: str) -> Callable[[str], None]:
    def call(text: str) -> None:
        report = parse_report(name, text)
        for item in report.figures:
            assert item.value is None or abs(item.value) < float("inf")
            assert 0 < len(item.name) <= 100 and len(item.unit) <= 40 and (item.name + item.unit).isprintable()
        for task in report.tasks:
            assert decode(BuildTask, encode(task)) == task
            assert 0 < len(task.recipe) <= 100 and 0 < len(task.kind) <= 100 and (task.recipe + task.kind).isprintable()

    return call


def _mkfs(text: str) -> None:
    BackingOptions(mkfs=(("ext4", text),), mount=(("ext4", text),)).mkfs_words(Profile("ext4", "ext4"))


_scenario_texts = odd.toml_texts(odd.SCENARIO, *(path.read_text() for path in odd.SCENARIOS))
#: Each parser: what it is given, and what is called with it.
PARSERS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], object]]] = {
    "arm": (
        st.tuples(odd.mutated(odd.ARMS), st.lists(odd.mutated(["xfs", "ext4"]), max_size=2).map(tuple)),
        lambda case: parse_arms(case[0], "docker", case[1]),
    ),
    "size": (odd.mutated(odd.QUANTITIES), lambda text: size(text).to_bytes(8)),
    "percentage": (odd.mutated(odd.QUANTITIES), lambda text: percentage(text, "--precision")),
    "duration": (odd.mutated(odd.QUANTITIES), lambda text: duration(text, "--budget")),
    "pairs": (st.lists(odd.mutated(odd.QUANTITIES), max_size=3).map(tuple), lambda texts: pairs(texts, "--param")),
    "sweep": (st.lists(st.tuples(st.sampled_from("abcdef"), odd.mutated([v for _, v in odd.PARAMS]))), _points),
    "point": (odd.mutated(odd.LABELS), parse_point),
    "threshold": (odd.mutated(odd.THRESHOLDS), lambda text: str(parse_threshold(text))),
    "scenario": (
        st.tuples(
            _scenario_texts,
            st.sampled_from(("", "tiny", "python2", "short", "x")),
            st.dictionaries(st.sampled_from(("jobs", "targets", "size", "x")), odd.mutated(["4", "a 'b c'"])),
        ),
        _scenario,
    ),
    "nightfile": (
        odd.toml_texts(odd.NIGHT),
        lambda text: [task.name for task in parse_nightly(text, "night.toml", "night").tasks],
    ),
    "profile": (odd.toml_texts(odd.PROFILES), _profiles),
    "mkfs words": (odd.mutated(["-O ^has_journal -E 'a=b,c'", 'x "y z"']), _mkfs),
    "time output": (odd.mutated(odd.TIMES), lambda text: parse_time_output(text, "time.txt")),
    "lines": (odd.mutated(odd.LINES), _report("lines")),
    "bonnie": (odd.mutated([odd.BONNIE]), _report("bonnie")),
    "buildstats": (odd.mutated([odd.BUILDSTATS]), _report("buildstats")),
    "fio": (
        st.one_of(
            odd.documents([odd.FIO]).map(lambda document: json.dumps(document, indent=2)),
            odd.mutated([json.dumps(odd.FIO, indent=2), f"kit: x = 1\n{json.dumps(odd.FIO, indent=1)}\nend"]),
        ),
        _report("fio"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def bounds() -> Iterator[None]:
    """Memory of the process, and CPU time of each case, which ``_bounded`` counts."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, before[1]))
    handler = signal.signal(signal.SIGVTALRM, _too_long)
    yield
    signal.signal(signal.SIGVTALRM, handler)
    resource.setrlimit(resource.RLIMIT_AS, before)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise AssertionError(f"a case took more than {SECONDS} s of CPU")


def _bounded(call: Callable[[Any], object], case: Any) -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        call(case)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_a_parser_answers_or_raises_a_kit_error(name: str, data: st.DataObject) -> None:
    strategy, call = PARSERS[name]
    case = data.draw(strategy)
    with suppress(KitError):
        _bounded(call, case)


_names = st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True)
_values = st.text(st.characters(exclude_characters="\\"), max_size=5)  # a backslash before a comma means the comma


@given(st.dictionaries(_names, st.lists(_values, min_size=1, max_size=4), max_size=3))
def test_a_points_label_gives_its_values_back(listed: dict[str, list[str]]) -> None:
    params = [(name, ",".join(value.replace(",", r"\,") for value in values)) for name, values in listed.items()]
    with suppress(KitError):
        for label, values in points(params).items():
            assert parse_point(label) == {key: dict(values)[key] for key in parse_point(label)}
            assert set(parse_point(label)) == {name for name, values in listed.items() if len(values) > 1}


@given(odd.mutated(odd.ARMS))
def test_an_arm_is_read_as_it_is_printed(text: str) -> None:
    with suppress(KitError):
        for arm in parse_arms(text):
            assert parse_arm(str(arm)) == arm
