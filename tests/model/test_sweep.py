from dataclasses import replace

import pytest

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.analyse import growths
from kit.core.errors import UsageError
from kit.model.sample import Phase, Sample
from kit.model.scenario import copies_at, parse_point, points, with_copies


def test_lists_of_values_span_a_grid_and_only_they_are_in_the_label() -> None:
    found = points((("jobs", "1,2"), ("config", "tiny"), ("cc", "gcc,clang")))
    assert list(found) == ["jobs=1; cc=gcc", "jobs=1; cc=clang", "jobs=2; cc=gcc", "jobs=2; cc=clang"]
    assert found["jobs=2; cc=gcc"] == (("jobs", "2"), ("config", "tiny"), ("cc", "gcc"))
    assert parse_point("jobs=2; cc=gcc") == {"jobs": "2", "cc": "gcc"}


def test_copies_are_those_of_the_point_else_of_all_points() -> None:
    assert [copies_at(label, (("copies", "1,2,4"),)) for label in ("copies=1", "copies=4; jobs=2")] == [1, 4]
    assert [copies_at(label, (("copies", "4"), ("jobs", "1,2"))) for label in ("", "jobs=2")] == [4, 4]
    assert copies_at("") == 1
    odd = ("copies=many", "copies", "copies=-1", "copies=0", "copies=1e3", f"copies={'9' * 5000}")
    assert [copies_at(label) for label in odd] == [1] * len(odd)  # an imported session's


def test_nothing_swept_is_one_point_without_a_label() -> None:
    assert points(()) == {"": ()}
    assert points((("targets", "a b"),)) == {"": (("targets", "a b"),)}


def test_a_point_names_its_copies_swept_or_not_unless_there_is_one() -> None:
    four, several = (("jobs", "1,2"), ("copies", "4")), (("copies", "1,2"),)
    for label, params, said, copies in (
        ("", (), "", 1), ("", (("copies", "1"),), "", 1), ("jobs=2", four, "jobs=2; copies=4", 4),
        ("copies=1", several, "", 1), ("copies=2; jobs=1", several, "copies=2; jobs=1", 2), ("word", (), "word", 1),
        ("", (("copies", "x"),), "copies=x", 1),
    ):  # fmt: skip
        found = with_copies(label, params)
        assert (found, copies_at(found)) == (said, copies)


def test_a_comma_can_belong_to_a_value() -> None:
    assert [dict(values)["flags"] for values in points((("flags", r"-Wl\,-z,-O2"),)).values()] == ["-Wl,-z", "-O2"]


def test_values_that_would_confuse_are_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        points((("jobs", "1,1"),))
    with pytest.raises(UsageError, match="can't be swept"):
        points((("flags", "a=b,c"),))


def samples(growing: float) -> list[Sample]:
    """Three rounds; the layer's penalty is 5 % and grows by the factor with each doubling of jobs."""
    made = []
    for round_ in (1, 2, 3):
        for power, jobs in enumerate((1, 2, 4)):
            speed = (1 + round_ / 10) / jobs
            for arm, factor in (("bare", 1.0), ("layer:overlay2", 1.05 * growing**power * (1 + round_ / 1000))):
                phase = Phase("build", "ok", speed * factor)
                made.append(Sample(arm, round_, "measured", "ok", 0.0, (phase,), point=f"jobs={jobs}"))
    return made


def test_growth_is_the_slope_over_doublings() -> None:
    (found,) = growths(Runs(samples(1.1)), [("layer:overlay2", "bare")])
    assert found.parameter == "jobs"
    assert found.factor.estimate == pytest.approx(1.1)
    assert found.factor.leaves_out(1.0)
    (level,) = growths(Runs(samples(1.0)), [("layer:overlay2", "bare")])
    assert level.factor.estimate == pytest.approx(1.0)


def test_values_that_are_no_numbers_have_no_slope() -> None:
    named = [replace(item, point=item.point.replace("=", "=x")) for item in samples(1.1)]
    assert growths(Runs(named), [("layer:overlay2", "bare")]) == ()


def test_points_are_in_the_order_of_their_numbers() -> None:
    made = [
        Sample("bare", 1, "measured", "ok", 0.0, (Phase("p", "ok", 1.0),), point=f"jobs={jobs}")
        for jobs in (16, 2, 128, 1)
    ]
    assert Runs(made).points == ("jobs=1", "jobs=2", "jobs=16", "jobs=128")
