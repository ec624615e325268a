"""The table of metrics: what follows from it, and that one line in it makes a metric."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kit.arms.probe.client import Timing
from kit.cli.pages.parts import metrics
from kit.host.cgroup.counters import Counters
from kit.host.cgroup.memory import PeakMemory
from kit.model.metric import COUNT, GREATEST, LEVEL, MEASURED, METRICS
from kit.model.metric_source import RUN_SOURCES, SOURCES
from kit.model.sample import Phase, Sample, total
from tests.changed_kit import ChangedKit
from tests.nights import ladder_session
from tests.stores import dump

#: Worked out from two readings or more, and not read.
WORKED_OUT = {
    "outside", "flush", "flush_bytes", "flush_cpu", "slices", "frozen_write_bytes", "others_write_bytes",
}  # fmt: skip


def test_every_measured_metric_is_a_field_of_a_phase_and_is_read_once() -> None:
    assert set(MEASURED) <= {item.name for item in fields(Phase)}
    read = [item.name for kind in (Timing, Counters, PeakMemory) for item in fields(kind) if item.name in METRICS]
    assert sorted([*read, *WORKED_OUT]) == sorted(MEASURED)


def test_metrics_name_others_that_are_there() -> None:
    for metric in METRICS.values():
        for name in (*metric.parts, *metric.otherwise, *filter(None, [metric.whole_group])):
            assert METRICS[name].unit == (METRICS[metric.over].unit if metric.over else metric.unit), metric.name
        assert not metric.over or metric.unit == COUNT, metric.name  # a ratio
    assert all(METRICS[name].compared for name in METRICS if METRICS[name].column)


def test_a_total_is_the_sum_the_greatest_or_the_highest_level() -> None:
    names: dict[str, Any] = dict.fromkeys(MEASURED, 2.0)
    whole = total([Phase("a", "ok", **names), Phase("b", "ok", **names)])
    assert {name for name in MEASURED if whole.metric(name) == 2.0} == {
        name for name in MEASURED if METRICS[name].whole == GREATEST
    }
    assert {name for name in MEASURED if METRICS[name].whole == LEVEL} == {"space", "inodes"}
    removed = total(Phase(name, "ok", space=space, real=1.0) for name, space in (("a", 9.0), ("b", 3.0), ("c", -11.5)))
    assert (removed.space, removed.real, removed.inodes) == (12.0, 3.0, None)


def test_each_figure_has_a_source_or_parts_and_is_described_once() -> None:
    described = [name for source in SOURCES for name in source.names]
    assert sorted(described) == sorted(METRICS)
    for source in SOURCES:
        metrics = [METRICS[name] for name in source.names]
        assert bool(source.source) != any(metric.parts for metric in metrics), source.names
        assert len({metric.compared for metric in metrics}) == 1, source.names
    of_the_run = {item.name for item in fields(Sample)}
    assert {name for source in RUN_SOURCES for name in source.names} <= of_the_run


def test_the_page_lists_each_figure_with_its_unit() -> None:
    table = metrics()
    for row in (
        "| `space`, `inodes` | B, count | yes | statvfs",
        "| `durable` | s | yes | `real` + `flush` |",
        "| `amplification` | count | yes | `written` / `dirtied_bytes` |",
        "| `read_bytes`, `write_bytes`, `read_ops`, `write_ops` | B, count | no |",
        "| `engine_seconds` | s | no |",
    ):
        assert table.count(f"\n{row}") == 1, row


LINE = """    spilled: Annotated[Finite | None, Metric(BYTES, compared=True, column="spilled")] = None"""
USE = """
import sys
from dataclasses import replace
from pathlib import Path
from kit.analysis.session.threshold import parse_threshold
from kit.model.sample import total
from kit.store import open_store
from kit.store.exchange import load

store = open_store(sys.argv[1], Path())
(old,) = load(Path(sys.argv[2]).read_text(), "exported")
assert {phase.spilled for sample in old.samples for phase in sample.phases} == {None}

def swapping(sample):
    more = 3 if sample.arm.startswith("layer") else 1
    return replace(sample, phases=tuple(replace(p, spilled=1e6 * more + sample.round) for p in sample.phases))

new = replace(old, id=old.id + "-new", created=old.created + 1, samples=tuple(map(swapping, old.samples)))
store.add(new)
again = store.get(new.id)
assert again.samples == new.samples
print(total(again.samples[0].phases).spilled)
print(parse_threshold("layer:overlay2 spilled < 5 %"))
"""


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_metric_is_a_line_in_the_table(tmp_path: Path) -> None:
    """The store, sums, thresholds, comparisons, table, JSON and CSV know it; what measures it is a field of
    ``Counters``, and kit.model.metric_source wants a line."""
    url, session = f"sqlite:///{tmp_path}/kit.db", ladder_session()
    exported = tmp_path / "exported.json"
    exported.write_text(dump([session]))
    other = ChangedKit(tmp_path / "copy")
    other.insert("kit/model/metric.py", "steal: Annotated", LINE)
    assert other.python(USE, url, str(exported)).splitlines() == ["2000002.0", "layer:overlay2 spilled < 5 %"]

    def show(*words: str) -> str:
        return other.command("show", f"{session.id}-new", *words, "--store", url)

    table = show("--full")
    assert re.search(r"outside +flush +spilled", table)
    assert "6,000,007 B" in table and "3.000 [3.000, 3.000]" in table
    document = json.loads(show("--json"))
    assert document["samples"][0]["spilled"] == 1000001.0
    (found,) = (
        item
        for item in document["comparisons"]
        if (item["metric"], item["arm"], item["phase"]) == ("spilled", "layer:overlay2", "total")
    )
    assert found["unit"] == "B" and found["ratio"] == pytest.approx(3, rel=1e-4)
    assert "spilled" in show("--format", "csv").splitlines()[0].split(",")
    assert "spilled, B" in show("--rank", "spilled")
    assert other.touched == {"kit/model/metric.py"}
