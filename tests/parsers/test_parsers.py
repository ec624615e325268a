import json

import pytest

from kit.core.errors import RunError
from kit.parsers import PARSERS, parse_report
from kit.parsers.figure import MORE, Reported


def values(name: str, text: str) -> dict[str, float | None]:
    return {item.name: item.value for item in parse_report(name, text).figures}


def test_lines_of_the_kits_own_form() -> None:
    text = "noise\nkit: cycles = 12.5 per s, more is better\nkit: latency p99 = 3e-3 ms\nkit: fragments = 7\n"
    assert parse_report("lines", text).figures == (
        Reported("cycles", 12.5, "per s", MORE),
        Reported("latency p99", 0.003, "ms"),
        Reported("fragments", 7.0, ""),
    )


@pytest.mark.parametrize("text", ["kit: cycles 12", "kit: cycles = many", "kit: cycles = nan s"])
def test_a_line_that_begins_like_one_and_is_none_is_an_error(text: str) -> None:
    with pytest.raises(RunError, match=r"kit: cycles|could not convert"):
        parse_report("lines", text)


@pytest.mark.parametrize("name", PARSERS)
def test_no_figures_are_an_error(name: str) -> None:
    with pytest.raises(RunError, match=r"no figures|no JSON|no CSV line"):
        parse_report(name, "nothing here\n")


def test_what_is_said_of_a_wrong_report_has_a_bound() -> None:
    document = json.dumps({"jobs": [{"jobname": "x" * 1_000_000, "error": 1}]}, indent=2)
    for name, text in (("fio", document), ("lines", "kit: " + "x" * 1_000_000)):
        with pytest.raises(RunError) as failure:
            parse_report(name, text)
        assert len(failure.value.message) < 400
