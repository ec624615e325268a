"""Penalties as OpenMetrics, read by Prometheus' own parsers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kit.extra.exchange.report.openmetrics import render_openmetrics
from kit.model.session import Request, Session
from tests.nights import ladder_session, night, on

ARM = {"scenario": "mine", "arm": "layer:overlay2", "baseline": "bare", "phase": "total", "metric": "real"}


def samples(sessions: Sequence[Session]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels, as prometheus_client reads them."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="prometheus-client is not installed")
    families = parser.text_string_to_metric_families(render_openmetrics(sessions))
    listed = [sample for family in families for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in listed}
    assert len(found) == len(listed) and not [sample for sample in listed if sample.timestamp]
    return found


def test_each_penalty_has_its_interval() -> None:
    found = samples([night(1, 0.05)])
    low, ratio, high = (
        found[f"kit_penalty_{name}", frozenset(ARM.items())] for name in ("low_ratio", "ratio", "high_ratio")
    )
    assert 1.03 < low < ratio < high < 1.07 and ratio == pytest.approx(1.0455, abs=0.01)
    assert found["kit_penalty_rounds", frozenset(ARM.items())] == 4
    of_baseline = {**ARM, "arm": "bare"}
    del of_baseline["baseline"]
    assert found["kit_run_seconds", frozenset(of_baseline.items())] == pytest.approx(11, abs=0.1)
    assert found["kit_session_start_time_seconds", frozenset({("scenario", "mine")})] == night(1, 0.05).created


def test_an_arm_that_did_not_run_is_named() -> None:
    found = samples([ladder_session()])
    measured = {dict(labels)["arm"]: value for (name, labels), value in found.items() if name == "kit_arm_measured"}
    assert measured.pop("layer:aufs") == 0 and set(measured.values()) == {1} and len(measured) == 5


def test_a_series_has_the_value_of_its_newest_session() -> None:
    both = samples([night(2, 0.05), night(1, 0.5)])
    assert both == samples([night(2, 0.05)])
    assert {key for key, _ in both.items()} == set(samples([night(1, 0.5)]))  # and the same names, session by session


def test_machines_stay_apart() -> None:
    found = samples([on(1, 1, 0.05), on(2, 1, 0.05)])
    machines = {dict(labels)["machine"] for name, labels in found if name == "kit_penalty_ratio"}
    assert machines == {"builder-1", "builder-2"}


def test_figures_of_others_are_marked() -> None:
    session = night(1, 0.05)
    runs = tuple(replace(item, kind="imported") for item in session.samples)
    found = samples([replace(session, samples=runs)])
    assert {dict(labels)["imported"] for _, labels in found} == {"yes"}


def test_a_guest_and_its_host_stay_apart_whatever_the_guests_kernel() -> None:
    host = night(1, 0.05)
    guests = [
        replace(night(number, 0.5, guest="User-Mode Linux", kernel=f"6.12.{number}"), request=Request(guest="uml"))
        for number in (2, 3)
    ]
    found = samples([host, *guests])
    assert {dict(labels).get("guest", "") for _, labels in found} == {"", "uml"}
    assert found[("kit_penalty_ratio", frozenset(ARM.items()))] == pytest.approx(1.0455, abs=0.01)


TITLE = 'a "b" \\ c {d="e"} \'f # ü'


def test_any_text_is_a_label() -> None:
    found = samples([replace(night(1, 0.1), title=TITLE)])
    assert {dict(labels)["scenario"] for _, labels in found} == {TITLE.replace("#", "\uff03")}


def test_gitlab_reads_a_name_and_a_value_of_each_line() -> None:
    """As its Gitlab::Ci::Parsers::Metrics::Generic does: it cuts off comments, then splits as a shell does."""
    session = replace(night(1, 0.1), title=TITLE)
    words = [shlex.split(re.sub("#.*", "", line)) for line in render_openmetrics([session]).splitlines()]
    found = [line for line in words if line]
    assert len(found) == len(samples([session])) == len({name for name, _ in found})
    assert all(float(value) > 0 for _, value in found)


def test_one_run_has_a_penalty_without_interval() -> None:
    names = {name for name, _ in samples([night(1, 0.1, rounds=1)])}
    assert "kit_penalty_ratio" in names and not names & {"kit_penalty_low_ratio", "kit_penalty_high_ratio"}
