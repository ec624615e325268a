"""Samples turned into columns: what was not measured, what differs from run to run, what is left out."""

from dataclasses import replace

import numpy as np

from kit.analysis.runs.run_table import FIGURES, SPINS, Runs, read_columns
from kit.model.sample import Phase, Sample

KEY = ("bare", "")


def run(round_: int, *phases: Phase, **more: object) -> Sample:
    given: dict[str, object] = {"kind": "measured", "status": "ok", "calibration_before": 0.5, **more}
    return Sample("bare", round=round_, started=0.0, phases=phases, **given)  # type: ignore[arg-type]


def build(real: float, **more: float) -> Phase:
    return Phase("build", "ok", real, **more)  # type: ignore[arg-type]


def test_runs_with_other_phases_and_without_a_figure_stand_in_the_same_columns() -> None:
    clean = Phase("clean", "ok", 5.0, flush=0.25)
    found = Runs([run(1, build(1.0)), run(3, clean, build(3.0, flush=1.0)), run(2, build(2.0), clean), run(4, clean)])
    assert found.rounds(KEY).tolist() == [1, 2, 3, 4]
    assert np.array_equal(found.values(KEY, "build", "real"), [1, 2, 3, np.nan], equal_nan=True)
    assert np.array_equal(found.values(KEY, "build", "flush"), [np.nan, np.nan, 1, np.nan], equal_nan=True)
    assert np.array_equal(found.values(KEY, "clean", "flush"), [np.nan, 0.25, 0.25, 0.25], equal_nan=True)
    assert np.isnan(found.values(KEY, "clean", "steal")).all() and np.isnan(found.attribute(KEY, SPINS[1])).all()
    assert found.attribute(KEY, SPINS[0]).tolist() == [0.5] * 4


def test_what_is_read_does_not_hang_on_where_a_slice_ends() -> None:
    """Runs that lack a figure are read another way, in the slice that holds them."""
    many = [run(round_, build(1.0 + round_), *([build(0.0)] if round_ % 7 == 0 else [])) for round_ in range(1, 4500)]
    many[2100] = run(2101, build(0.5, steal=0.125), calibration_before=None)
    found = Runs(reversed(many))
    assert np.isnan(found.attribute(KEY, SPINS[0])).nonzero()[0].tolist() == [2100]
    wanted = [1.0 + round_ for round_ in range(1, 4500)]
    wanted[2100] = 0.5
    assert found.values(KEY, "build", "real").tolist() == wanted
    assert found.values(KEY, "build", "steal")[2100] == 0.125


def test_failed_runs_warm_ups_and_what_no_machine_measures_are_left_out() -> None:
    made = read_columns(
        [run(1, build(1e300)), run(0, build(1.0), kind="warmup"), run(2, status="failed"), run(3, build(1e-300))]
    )
    assert [item.round for item in made.runs] == [1, 3]
    real = made.figures[FIGURES.index("real")]
    assert np.isnan(real[0]) and real[1] == 0.0


def test_of_two_runs_in_a_round_the_later_counts() -> None:
    hit = run(2, build(9.0), flags="steal 20%")
    runs = [run(1, build(1.0)), run(1, build(1.5)), hit, run(3, build(2.0), rerun_of=2)]
    assert Runs(runs).values(KEY, "build", "real").tolist() == [1.5, 2.0]
    assert Runs(runs, repetitions=False).values(KEY, "build", "real").tolist() == [1.5, 9.0]
    assert Runs(runs[:3]).values(KEY, "build", "real").tolist() == [1.5, 9.0]
    again = [*runs[:2], run(2, build(3.0))]  # a round by turns made again: of both arms the later runs stand together
    both = Runs([*again, *(replace(item, arm="layer:overlay2") for item in again[1:])])
    one, other = both.common([KEY, ("layer:overlay2", "")])
    assert both.values(KEY, "build", "real")[one].tolist() == [1.5, 3.0] and other.tolist() == [0, 1]
    nothing = Runs([])
    assert not nothing.has(KEY) and not nothing.rounds(KEY).size and nothing.phases([KEY]) == ()


def test_write_amplification_is_of_sums_and_of_writes_alone() -> None:
    first = build(1.0, write_bytes=20.0, flush_bytes=10.0, dirtied_bytes=10.0)
    second = Phase("clean", "ok", 1.0, write_bytes=6.0, flush_bytes=4.0, dirtied_bytes=0.0)
    found = Runs([run(1, first, second)])
    assert found.values(KEY, "build", "amplification").tolist() == [3.0]
    assert np.isnan(found.values(KEY, "clean", "amplification")).all()  # nothing was written to divide by
    assert found.values(KEY, "total", "amplification").tolist() == [4.0]


def test_peak_memory_is_the_greatest_of_the_phases_with_that_of_daemons() -> None:
    alone = Runs([run(1, build(1.0, arm_memory=30.0), Phase("clean", "ok", 1.0))])
    assert alone.values(KEY, "build", "peak_memory").tolist() == [30.0]
    assert alone.values(KEY, "total", "peak_memory").tolist() == [30.0]  # a lower one of a later phase is not known
    served = Runs([run(1, build(1.0, arm_memory=30.0, daemon_memory=5.0), Phase("clean", "ok", 1.0, arm_memory=9.0))])
    assert served.values(KEY, "total", "peak_memory").tolist() == [35.0]
    assert np.isnan(Runs([run(1, build(1.0))]).values(KEY, "build", "peak_memory")).all()
