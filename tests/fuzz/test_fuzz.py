"""Whatever is fed to a parser, it answers or raises a KitError, in bounded time and memory.

Two hundred cases of each, the same every time; ten thousand new ones with ``--hypothesis-profile=long``.
"""

from __future__ import annotations

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

from kit.core.errors import KitError
from kit.model.arm import parse_arm, parse_arms
from kit.model.scenario import parse_point, points
from tests import strategies as odd
from tests.fuzz.inputs import BOMBS, INPUTS

#: CPU seconds and bytes that a single case may take, and characters of an error.
SECONDS, BYTES, LONGEST = 5, 256 << 20, 400


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return {name: make() for name, (make, _) in BOMBS.items()}


@pytest.fixture(scope="module", autouse=True)
def bounds(made: dict[str, Any]) -> Iterator[None]:
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


@pytest.mark.promise("what others wrote", "Odd input ends in an answer, or in an error of one line with its fix.")
@pytest.mark.parametrize("name", INPUTS)
@given(data=st.data())
def test_a_parser_answers_or_raises_a_kit_error(name: str, data: st.DataObject) -> None:
    strategy, call = INPUTS[name]
    _answers(call, data.draw(strategy))


@pytest.mark.promise("what others wrote", "A few kilobytes of input take neither gigabytes nor minutes.")
@pytest.mark.parametrize("name", BOMBS)
def test_a_few_kilobytes_do_not_become_gigabytes(name: str, made: dict[str, Any]) -> None:
    _answers(BOMBS[name][1], made[name])


def _answers(call: Callable[[Any], object], case: Any) -> None:
    try:
        _bounded(call, case)
    except KitError as error:
        assert len(error.message) <= LONGEST and len(error.message.splitlines()) <= 1


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
