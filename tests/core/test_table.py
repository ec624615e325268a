"""Tables that users write: every value is of its key's type, none is made to fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from msgspec import Meta

from kit.core.table import MissingKeyError, UnknownKeyError, WrongTypeError, read_table


@dataclass(frozen=True)
class Build:
    name: str
    run: tuple[str, ...]
    jobs: Annotated[int, Meta(ge=1, le=8)] = 1
    each: tuple[tuple[str, ...], ...] = ()
    fresh: bool = False
    source: str | None = None


class Some(TypedDict, total=False):
    run: tuple[str, ...]
    wait: str


def test_a_table_becomes_the_value_that_it_describes() -> None:
    table = {"run": ["make", "-j2"], "each": [["a"], ["b", "c"]], "jobs": 2}
    assert read_table(Build, table, name="mine") == Build("mine", ("make", "-j2"), 2, (("a",), ("b", "c")))
    assert read_table(Some, {"run": ["make"]}) == {"run": ("make",)}  # and what was not given is not there


@pytest.mark.parametrize(
    ("change", "key", "wanted"),
    [
        ({"run": "make"}, "run", "a list of strings"),
        ({"source": 0}, "source", "a string"),
        ({"run": ["make", 2]}, "run", "a list of strings"),
        ({"jobs": True}, "jobs", "a whole number"),
        ({"jobs": "2"}, "jobs", "a whole number"),
        ({"jobs": 9}, "jobs", "a whole number"),
        ({"fresh": 1}, "fresh", "true or false"),
        ({"each": "ab"}, "each", "a list of commands"),
        ({"each": ["ab"]}, "each", "a list of strings"),
    ],
)
def test_a_wrong_value_is_named_and_not_made_to_fit(change: dict[str, Any], key: str, wanted: str) -> None:
    with pytest.raises(WrongTypeError) as raised:
        read_table(Build, {"run": ["make"], **change}, name="mine")
    assert (raised.value.key, raised.value.wanted) == (key, wanted)


def test_unknown_and_missing_keys_are_named() -> None:
    with pytest.raises(UnknownKeyError) as unknown:
        read_table(Build, {"nome": "x"}, name="mine")
    assert (unknown.value.key, unknown.value.known) == ("nome", "each, fresh, jobs, run, source")
    with pytest.raises(UnknownKeyError):
        read_table(Build, {"name": "theirs", "run": ["x"]}, name="mine")  # what is given is no key
    with pytest.raises(MissingKeyError) as missing:
        read_table(Build, {}, name="mine")
    assert (missing.value.key, missing.value.wanted) == ("run", "a list of strings")
    with pytest.raises(WrongTypeError) as whole:
        read_table(Build, ["x"], name="mine")
    assert (whole.value.key, whole.value.wanted) == ("", "a table")
