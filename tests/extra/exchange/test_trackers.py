"""Penalties in the formats of programs that track benchmarks. The schemas are what the programs themselves check."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kit.extra.exchange.analysis.tracked import TRACKED
from kit.extra.exchange.report.bencher import render_bencher
from kit.extra.exchange.report.benchmark_action import render_benchmark_action
from kit.extra.exchange.report.hyperfine import render_hyperfine, render_hyperfine_1
from kit.model.metric import METRICS
from kit.model.session import Request, Session
from kit.parsers.figure import MORE, Reported
from tests.nights import ladder_session, night

COMMIT = {"source commit": "a" * 40}
NUMBER = {"type": "number"}
TEXT = {"type": "string", "minLength": 1}
#: BenchmarkResults of src/extract.ts, 1.22: a chart of a null would be one of zero.
ACTION = {
    "type": "array",
    "minItems": 1,
    "items": {
        "properties": {"name": TEXT, "value": NUMBER, "unit": TEXT, "range": TEXT, "extra": TEXT},
        "required": ["name", "value", "unit"],
        "additionalProperties": False,
    },
}
#: The BMF JSON Schema of Bencher's documentation, with the limits of its bencher_valid.
BENCHER = {
    "type": "object",
    "propertyNames": {"minLength": 1, "maxLength": 1024},
    "additionalProperties": {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 64},
        "additionalProperties": {
            "type": "object",
            "properties": {"value": NUMBER, "lower_value": NUMBER, "upper_value": NUMBER},
            "required": ["value"],
            "additionalProperties": False,
        },
    },
}
SECONDS = {"properties": {"value": NUMBER, "unit": {"const": "second"}}, "required": ["value", "unit"]}
BYTES = {"properties": {"value": NUMBER, "unit": {"const": "byte"}}, "required": ["value", "unit"]}
#: HyperfineSummary of hyperfine's src/export/json.rs, 2.0.0, with what its scripts need; the rest is never null.
HYPERFINE = {
    "type": "object",
    "properties": {
        "schema_version": {"const": 2},
        "metadata": {"type": "object"},
        "primary_metric": {"const": "time_wall_clock"},
        "results": {
            "type": "array",
            "items": {
                "properties": {
                    "command": TEXT,
                    "measurements": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "properties": {
                                **dict.fromkeys(("time_wall_clock", "time_cpu", "time_user", "time_system"), SECONDS),
                                "memory_peak_resident": BYTES,
                                "exit_code": {"type": ["integer", "null"]},
                            },
                            "additionalProperties": False,
                            "required": ["time_wall_clock", "exit_code"],
                        },
                    },
                    "summary": {
                        "additionalProperties": {
                            "properties": {
                                "unit": {"enum": ["second", "byte"]},
                                "count": {"type": "integer"},
                                "stddev": {"type": ["number", "null"]},
                                **dict.fromkeys(("mean", "median", "min", "max"), NUMBER),
                            },
                            "additionalProperties": False,
                            "required": ["unit", "count", "mean", "stddev", "median", "min", "max"],
                        },
                        "required": ["time_wall_clock"],
                    },
                    "parameters": {
                        "additionalProperties": {"properties": {"value": {"type": "string"}}, "required": ["value"]}
                    },
                },
                "required": ["command", "measurements", "summary"],
            },
        },
    },
    "required": ["schema_version", "metadata", "primary_metric", "results"],
}
#: BenchmarkResult of hyperfine's src/benchmark/benchmark_result.rs, 1.20.
HYPERFINE_1 = {
    "type": "object",
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "properties": {
                    "command": TEXT,
                    "stddev": {"type": ["number", "null"]},
                    **dict.fromkeys(("mean", "median", "user", "system", "min", "max"), NUMBER),
                    "times": {"type": "array", "items": NUMBER},
                    "exit_codes": {"type": "array", "items": {"type": ["integer", "null"]}},
                    "parameters": {"type": "object", "additionalProperties": {"type": "string"}},
                },
                "required": ["command", "mean", "stddev", "median", "user", "system", "min", "max", "exit_codes"],
            },
        }
    },
    "required": ["results"],
}


def checked(text: str, schema: dict[str, Any]) -> Any:
    """The document, if it is valid."""
    validator = pytest.importorskip("jsonschema", reason="jsonschema comes with check-jsonschema").Draft202012Validator
    document = json.loads(text)
    assert list(map(str, validator(schema).iter_errors(document))) == []
    return document


def with_bandwidth() -> Session:
    """A night whose workload reports a figure of which more is better: half of bare's."""
    session = night(1, 0.05)
    samples = []
    for item in session.samples:
        said = Reported("read bandwidth", 100.0 if item.arm == "bare" else 50.0 + item.round / 10, "MB/s", MORE)
        samples.append(replace(item, phases=(replace(item.phases[0], reported=(said,)), *item.phases[1:])))
    return replace(session, samples=tuple(samples))


def test_github_action_benchmark_gets_ratios() -> None:
    session = night(1, 0.05)
    document = checked(render_benchmark_action([replace(session, facts={**session.facts, **COMMIT})]), ACTION)
    (row,) = document
    assert row["name"] == "mine: layer:overlay2 / bare, real" and row["value"] == pytest.approx(1.0455, abs=0.01)
    assert row["range"] == "[1.042, 1.049], 95 %" and f"commit {'a' * 40}" in row["extra"]
    assert row["extra"].startswith("session 2026-0001, 4 rounds\nslower\nlayer:overlay2: 11.49 s\nbare: 10.99 s")
    assert "imported" not in row["extra"]


def test_where_more_is_better_the_ratio_is_turned() -> None:
    """An alert of that tool would come where the figure got better."""
    rows = {row["name"]: row for row in checked(render_benchmark_action([with_bandwidth()]), ACTION)}
    row = rows["mine: layer:overlay2 / bare, build, read bandwidth (baseline / arm)"]
    assert row["value"] == pytest.approx(1.99, abs=0.01) and row["range"].startswith("[1.9")
    assert "layer:overlay2: 50.25 MB/s" in row["extra"]


def test_bencher_gets_measures_with_limits() -> None:
    document = checked(render_bencher([ladder_session(), with_bandwidth()]), BENCHER)
    assert "penalty-read-bandwidth" in document["mine: layer:overlay2 / bare, build"]
    found = document["mine & <yours>: layer:vfs / bare"]
    assert set(found) == {"penalty-real", "penalty-durable", "penalty-cpu-total"}
    for value in found.values():
        assert value["lower_value"] < value["value"] < value["upper_value"]


def test_hyperfine_has_every_run() -> None:
    session = ladder_session()
    rows = {row["command"]: row for row in checked(render_hyperfine([session]), HYPERFINE)["results"]}
    assert list(rows) == ["bare", "runtime:overlay2", "bind:overlay2", "layer:overlay2", "layer:vfs"]
    row = rows["layer:vfs"]
    times = [run["time_wall_clock"]["value"] for run in row["measurements"]]
    summary = row["summary"]
    assert len(times) == summary["time_wall_clock"]["count"] == 6
    assert summary["time_wall_clock"]["mean"] == pytest.approx(sum(times) / 6)
    assert summary["time_user"]["mean"] == pytest.approx(8.1)
    assert summary["time_cpu"]["mean"] == pytest.approx(8.1 + summary["time_system"]["mean"])
    assert row["kit"]["baseline"] == "bare" and row["kit"]["ratio_low"] < row["kit"]["ratio"] < row["kit"]["ratio_high"]
    assert rows["bare"]["kit"]["ratio"] is None
    first = replace(session, samples=tuple(item for item in session.samples if item.round == 1))
    (one, *_) = checked(render_hyperfine([first]), HYPERFINE)["results"]
    assert one["summary"]["time_wall_clock"]["stddev"] is None and len(one["measurements"]) == 1


def test_hyperfine_leaves_out_what_nobody_measured() -> None:
    session = night(1, 0.05)
    phases = [(item, tuple(replace(phase, user=None) for phase in item.phases)) for item in session.samples]
    samples = tuple(replace(item, phases=without_user) for item, without_user in phases)
    (row, *_) = checked(render_hyperfine([replace(session, samples=samples)]), HYPERFINE)["results"]
    assert not {"time_user", "time_cpu"} & {*row["summary"], *row["measurements"][0]}


def test_hyperfine_1_has_every_run() -> None:
    session = ladder_session()
    rows = {row["command"]: row for row in checked(render_hyperfine_1([session]), HYPERFINE_1)["results"]}
    row = rows["layer:vfs"]
    assert len(row["times"]) == len(row["exit_codes"]) == 6 and row["mean"] == pytest.approx(sum(row["times"]) / 6)
    assert row["user"] == pytest.approx(8.1) and row["kit"]["baseline"] == "bare"
    first = replace(session, samples=tuple(item for item in session.samples if item.round == 1))
    (one, *_) = checked(render_hyperfine_1([first]), HYPERFINE_1)["results"]
    assert one["stddev"] is None and len(one["times"]) == 1


def test_hyperfine_tells_scenarios_and_points_apart() -> None:
    session = night(1, 0.05)
    swept = replace(session, samples=tuple(replace(item, point="jobs=2") for item in session.samples))
    rows = checked(render_hyperfine([swept, ladder_session()]), HYPERFINE)["results"]
    assert rows[0]["command"] == "mine: bare,jobs=2" and rows[0]["parameters"] == {"jobs": {"value": "2"}}
    rows = json.loads(render_hyperfine_1([swept, ladder_session()]))["results"]
    assert rows[0]["command"] == "mine: bare,jobs=2" and rows[0]["parameters"] == {"jobs": "2"}


@pytest.mark.parametrize("render", [render_benchmark_action, render_bencher, render_hyperfine, render_hyperfine_1])
def test_imported_and_emulated_figures_are_marked(render: Any) -> None:
    session = night(1, 0.05)
    others = replace(session, samples=tuple(replace(item, kind="imported") for item in session.samples))
    facts = {**session.facts, "guest": "QEMU 7.2", "accelerator": "tcg"}
    emulated = replace(session, facts=facts, request=Request(guest="qemu"))
    emulated_word = "(qemu)" if render is render_bencher else "accelerator: tcg"  # a name without versions
    text = render([session])
    for other, word in ((others, "imported"), (emulated, emulated_word)):
        assert word in render([other]) and render([other]) != text


@pytest.mark.parametrize("render", [render_benchmark_action, render_bencher])
def test_a_guest_has_a_series_of_its_own_whatever_its_kernel(render: Any) -> None:
    host = night(1, 0.05)
    old, new = (
        replace(night(number, 0.5, guest=f"QEMU {kernel}", kernel=kernel), request=Request(guest="qemu"))
        for number, kernel in ((2, "6.12.1"), (3, "6.12.2"))
    )
    both = render([host, new])
    assert both.count("mine: layer:overlay2 / bare (qemu)") == both.count("mine: layer:overlay2 / bare") / 2 > 0
    assert both == render([host, old, new]) and "6.12.2 / bare" not in both


def test_every_tracked_metric_exists() -> None:
    assert set(TRACKED) <= set(METRICS)
