"""What an arm's runs took, of figures made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kit.analysis.runs.arm_runs import PointRuns, TimeRange, runs_by_point
from kit.analysis.runs.run_table import Runs
from kit.analysis.stats.description import describe
from kit.model.sample import TOTAL, Phase, Sample
from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask


def sample(arm: str, round_: int, *phases: Phase, flags: str = "", point: str = "") -> Sample:
    return Sample(arm, round_, "measured", "ok", 0.0, phases, flags=flags, point=point)


def runs(figures: Sequence[dict[str, Any]], arm: str = "bare") -> list[Sample]:
    return [sample(arm, i, Phase("build", "ok", **found)) for i, found in enumerate(figures, 1)]


def at_one_point(samples: Sequence[Sample], arms: Sequence[str] = ("bare",)) -> PointRuns:
    (found,) = runs_by_point(Runs(samples), arms)
    return found


def test_arms_are_listed_as_the_session_has_them_and_points_by_their_value() -> None:
    build = Phase("build", "ok", real=1.0)
    samples = [sample(arm, 1, build, point=f"jobs={jobs}") for jobs in (10, 2) for arm in ("b", "a")]
    found = runs_by_point(Runs([*samples, sample("c", 1, build, point="jobs=2")]), ["a", "missing", "b", "c"])
    assert [(item.point, [arm.arm for arm in item.arms]) for item in found] == [
        ("jobs=2", ["a", "b", "c"]), ("jobs=10", ["a", "b"]),
    ]  # fmt: skip


def test_a_mean_is_over_the_runs_that_measured_it() -> None:
    (bare,) = at_one_point(runs([{"real": 1.0, "minor_faults": 3.0, "major_faults": 1.0}, {"real": 3.0}])).arms
    assert bare.mean("build", "real") == 2.0 and bare.measured("build", "real") == 2
    assert bare.mean("build", "minor_faults", "major_faults") == 4.0 and bare.measured("build", "minor_faults") == 1
    assert bare.mean("build", "flush") is None and bare.measured("build", "flush") == 0


def test_a_run_of_several_phases_is_their_sum() -> None:
    both = [sample("bare", i, Phase("build", "ok", real=9.0 + i), Phase("clean", "ok", real=1.0)) for i in (1, 2)]
    (bare,) = at_one_point(both).arms
    assert bare.phases == ("build", "clean", TOTAL) and bare.whole == TOTAL
    assert bare.time_range == TimeRange(11.5, 11.0, 12.0)


def test_the_space_of_a_run_that_cleans_up_is_what_it_needed() -> None:
    both = [
        sample(
            "bare", i, *(Phase(name, "ok", space=space * i) for name, space in (("a", 9.0), ("b", 3.0), ("c", -11.5)))
        )
        for i in (1, 2)
    ]
    assert Runs(both).values(("bare", ""), TOTAL, "space").tolist() == [12.0, 24.0]


def test_runs_that_took_no_time_are_not_drawn() -> None:
    samples = runs([{"real": 2.0}, {"real": 0.0}, {"real": 4.0}, {}, {"real": 3.0}])
    samples[2] = sample("bare", 3, *samples[2].phases, flags="steal 9 %")
    (bare,) = at_one_point(samples).arms
    assert bare.count == 5 and bare.time_range == TimeRange(3.0, 2.0, 4.0)
    assert [(item.place, item.round, item.seconds) for item in bare.times(1)] == [(0, 1, 2.0), (2, 3, 4.0), (4, 5, 3.0)]
    assert [item.flags for item in bare.times(2)] == ["", "steal 9 %", ""]
    assert at_one_point(runs([{"real": 0.0}])).arms[0].time_range is None


def test_the_share_written_while_frozen_is_of_all_that_the_arm_wrote() -> None:
    found = {"real": 1.0, "frozen_write_bytes": 20.0, "write_bytes": 60.0, "flush_bytes": 40.0}
    (bare,) = at_one_point(runs([found, {**found, "frozen_write_bytes": 40.0}])).arms
    assert (bare.frozen_writes.bytes, bare.frozen_writes.share) == (30.0, 0.3)
    (nothing,) = at_one_point(runs([{"real": 1.0}])).arms
    assert (nothing.frozen_writes.bytes, nothing.frozen_writes.share) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("group", "leaves"),
    [(None, False), (10.01, False), (10.15, False), (10.5, True), (0.0, True)],
    ids=["unknown", "the same", "within two percent", "more", "less"],
)
def test_processes_left_the_tree_where_the_cgroup_counts_other_cpu(group: float | None, leaves: bool) -> None:
    same = {"user": 9.0, "sys": 1.0, "cgroup_user": 9.0, "cgroup_sys": 1.0}
    other = {**same, "cgroup_user": None if group is None else group - 1.0 if group else 0.0}
    found = at_one_point([*runs([same, other if group else {**other, "cgroup_sys": 0.0}]), *runs([same], "b")], "b")
    assert not found.leaves_tree("build")  # of b alone
    assert at_one_point([*runs([same, other])], ["bare"]).leaves_tree("build") == leaves


def test_the_typical_run_is_nearest_the_mean_of_those_with_tasks() -> None:
    def with_tasks(real: float, *starts: float) -> dict[str, Any]:
        return {"real": real, "tasks": tuple(BuildTask("compile", "zip", start, 1.0) for start in starts)}

    (bare,) = at_one_point(
        runs([with_tasks(1.0, 0.0), with_tasks(3.0, 2.0, 1.0), with_tasks(4.0, 0.0), {"real": 90}])
    ).arms
    typical = bare.typical_run("build")
    assert typical and typical.seconds == 3.0 and [task.started for task in typical.tasks] == [1.0, 2.0]
    assert at_one_point(runs([{"real": 1.0}])).arms[0].typical_run("build") is None


def test_what_workloads_report_is_known_by_arm() -> None:
    said = {"real": 1.0, "reported": (Reported("bandwidth", 12.0, "MB/s", "more"),)}
    found = at_one_point([*runs([said]), *runs([{"real": 1.0}], "other")], ["bare", "other"])
    assert list(found.reported("build")) == ["bandwidth"]
    assert [item.reports("build", "bandwidth") for item in found.arms] == [True, False]
    assert [item.mean("build", "bandwidth") for item in found.arms] == [12.0, None]


def test_a_metric_is_the_kits_own_whatever_a_workload_reports() -> None:
    said = (Reported("flush", 180.0, "ms", "more"), Reported("speed", 7.0, "MB/s", "more"))
    found = at_one_point(runs([{"real": 10.0, "flush": 0.05, "reported": said}]))
    (bare,) = found.arms
    assert (bare.mean("build", "flush"), bare.mean("build", "durable")) == pytest.approx((0.05, 10.05))
    assert list(found.reported("build")) == ["speed"]


def test_a_description_agrees_with_numpy_and_counts_what_lies_far_out() -> None:
    values = [*np.linspace(9.0, 11.0, 40).tolist(), 30.0]
    found = describe(values)
    assert found.quartiles == pytest.approx(tuple(np.quantile(values, (0.25, 0.75))))
    assert (found.mean, found.deviation) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert found.outside_near == 1 and found.near[1] < 30.0 == found.most
    assert found.outside_deviation == sum(abs(value - found.mean) > found.deviation for value in values)
    alone = describe([2.0])
    assert (alone.quartiles, alone.deviation, alone.per_second) == ((2.0, 2.0), 0.0, 0.5)
