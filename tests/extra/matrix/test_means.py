"""The matrix of known costs: cells, means, weights, the choice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from kit.analysis.runs.compare import compare
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.analyse import analyse
from kit.analysis.session.footprint import SPACE, WRITTEN
from kit.analysis.session.ranking import DURABLE
from kit.analysis.stats.estimate import EQUIVALENT, FASTER, INCONCLUSIVE, NOT_RUN, REFERENCE, SLOWER, Interval
from kit.analysis.stats.estimators import Centre, log_centre, student_quantile
from kit.core.errors import UsageError
from kit.extra.matrix.analysis.cell import MatrixCell, more_than
from kit.extra.matrix.analysis.matrix import Matrix, counting, make_matrix
from kit.extra.matrix.analysis.mean import parse_weights, weighted_half, weighted_mean
from kit.extra.matrix.analysis.pooled import pooled_rows
from kit.extra.matrix.analysis.row import rows_of
from kit.model.default import AUTO_ROUNDS
from tests.matrices import COSTS, in_copies, made, on_machine, suite
from tests.matrices import REFERENCE as ARM


def matrix(weights: Mapping[str, float] | None = None, arms: tuple[str, ...] = ()) -> Matrix:
    rows = [row for session in suite() for row in rows_of([session], ARM, "", 0.03)]
    return make_matrix("large", rows, ARM, 0.03, weights or {}, arms)


def test_a_weighted_mean_of_known_errors_is_that_of_the_textbook() -> None:
    found = weighted_mean([(3, Centre(0.1, 0.02, 10, 5)), (1, Centre(0.3, 0.04, 4, 5))])
    assert found and found.estimate == pytest.approx(0.15)
    assert found.error == pytest.approx(math.hypot(0.75 * 0.02, 0.25 * 0.04))
    a, b = (0.75 * 0.02) ** 2, (0.25 * 0.04) ** 2
    assert found.degrees == int((a + b) / (a / 10 + b / 4)) and found.n == 2
    half = math.hypot(*(share * error * student_quantile(0.975, degrees)
                        for share, error, degrees in ((0.75, 0.02, 10), (0.25, 0.04, 4))))  # fmt: skip
    high = found.interval().high
    assert high and high - found.estimate == pytest.approx(half, rel=0.03)  # Zou and Donner's


def test_what_points_of_a_session_share_is_not_averaged_away() -> None:
    floor, one = 0.006, Centre(0.1, 0.006, 1000, 5)
    many = [(1.0, one)] * 100
    alone, apart, together = (
        weighted_mean(many, common) for common in ((), [(str(i), floor) for i in range(100)], [("same", floor)] * 100)
    )
    assert alone and apart and together and together.error
    assert alone == apart and alone.error == pytest.approx(0.0006)
    assert together.error == pytest.approx(0.006, rel=0.01)
    assert weighted_half([(1.0, 0.02)] * 4, [("same", 0.02)] * 4) == pytest.approx(0.02)
    assert weighted_half([(1.0, 0.02)] * 4) == pytest.approx(0.01)
    rows = rows_of([made("git:short", COSTS["git:short"])], ARM, "", 0.03)
    cells = tuple(replace(cell, floor=floor) for cell in rows[0].cells)
    swept = [replace(rows[0], point=f"jobs={jobs}", cells=cells) for jobs in range(64)]
    found = make_matrix("large", swept, ARM, 0.03, {}).mean("layer:btrfs")
    assert found.ratio and found.ratio.high and found.ratio.high / found.ratio.estimate > math.exp(1.9 * floor)
    wide = found.ratio.together
    assert wide.high and wide.high / found.ratio.estimate > math.exp(2.3 * floor)


def test_a_weighted_mean_keeps_to_what_counts() -> None:
    one = Centre(0.1, 0.02, 3, 5)
    assert weighted_mean([(2, one), (0, Centre(9.0, 9.0, 1, 1))]) == replace(one, n=1)
    without = weighted_mean([(1, one), (1, Centre(0.3, None, 0, 1))])
    assert without and without.error is None and without.estimate == pytest.approx(0.2)
    exact = weighted_mean([(1, Centre(0.1, 0.0, 3, 5)), (1, Centre(0.3, 0.0, 2, 5))])
    assert exact and (exact.error, exact.degrees) == (0.0, 2)
    assert weighted_mean([]) is None and weighted_mean([(0, one)]) is None


def test_the_error_of_an_interval_gives_the_interval_back() -> None:
    found = log_centre(Interval(1.1, 1.05, 1.1**2 / 1.05, 4), 7)
    assert found and found.error
    assert math.exp(found.estimate + student_quantile(0.975, 7) * found.error) == pytest.approx(1.1**2 / 1.05)
    assert log_centre(None, 3) is None
    alone = log_centre(Interval(1.1, None, None, 1), 0)
    assert alone and alone.error is None


def test_cells_are_those_of_the_sessions_own_ranking() -> None:
    found = matrix()
    for session in suite():
        (row,) = (row for row in found.rows if row.scenario == session.title)
        (ranking,) = analyse(session).rankings
        assert row.metric == ranking.metric == DURABLE
        for theirs in ranking.picks:
            cell = row.cell(theirs.arm)
            assert cell and (cell.session, cell.verdict) == (session.id, theirs.verdict)
            if theirs.against and cell and cell.ratio:
                mine = (cell.ratio.estimate, cell.ratio.low, cell.ratio.high)
                item = theirs.against.ratio
                assert mine == pytest.approx((item.estimate, item.low, item.high)) and cell.together == item.together


def test_verdicts_are_those_of_the_costs() -> None:
    found = {(row.scenario, cell.arm): cell for row in matrix().rows for cell in row.cells}
    assert found["kernel:short", "layer:btrfs"].verdict == EQUIVALENT
    assert found["git:short", "layer:btrfs"].verdict == FASTER
    assert found["fsync:short", "layer:btrfs"].verdict == SLOWER
    missing = found["git:short", "layer:zfs"]
    assert (missing.verdict, missing.reason, missing.measured) == (NOT_RUN, "the kernel has no zfs", False)
    assert "bare" not in {arm for _, arm in found} and not any("runtime" in arm for _, arm in found)


def test_a_mean_holds_the_true_geometric_mean() -> None:
    for item in matrix().means:
        if item.verdict != REFERENCE and item.ratio:
            truth = math.prod(costs[item.arm] for costs in COSTS.values()) ** (1 / 3)
            together = item.ratio.together
            assert together.low and together.high and together.low < truth < together.high, item
            assert item.ratio.low and item.ratio.high and item.ratio.high / item.ratio.low < 1.02
            assert item.complete and item.ratio.low > together.low and item.ratio.high < together.high
        if item.scenarios:
            bare = math.prod(costs[item.arm] / costs["bare"] for costs in COSTS.values()) ** (1 / 3)
            assert item.bare and item.bare.estimate == pytest.approx(bare, rel=0.01)
        else:
            assert item.arm == "layer:zfs" and item.bare is None and item.ratio is None


def test_space_and_writes_are_beside_time() -> None:
    found = matrix().mean("layer:vfs")
    assert found.ratio and found.space and found.written
    assert found.space.estimate == pytest.approx(found.ratio.estimate, rel=0.01)
    assert found.written.estimate == pytest.approx(found.ratio.estimate, rel=0.01) and found.written.n == 3


def test_a_mean_of_one_scenario_decides_no_more_than_its_cell() -> None:
    """Intervals of sessions that chose their end are widened, and so are those of means."""
    fixed = made("noisy", {"bare": 1.0, ARM: 1.0, "layer:btrfs": 0.95}, noise=0.02, rounds=5)
    open_ = replace(fixed, request=replace(fixed.request, rounds=AUTO_ROUNDS))
    widths = []
    for session in (fixed, open_):
        (row,) = rows_of([session], ARM, "", 0.03)
        cell, mean = row.cell("layer:btrfs"), make_matrix("large", [row], ARM, 0.03, {}).mean("layer:btrfs")
        one, whole = cell and cell.together, mean.ratio and mean.ratio.together
        assert cell and one and whole and one.low and one.high and whole.low and whole.high
        assert whole.low <= one.low * 1.000001 and whole.high >= one.high / 1.000001
        assert cell.verdict != INCONCLUSIVE or mean.verdict == INCONCLUSIVE
        widths.append(math.log(whole.high / whole.low))
    assert widths[1] > 1.2 * widths[0]


def test_weights_move_the_mean_by_scenario_or_by_variant() -> None:
    plain, heavy = (matrix(weights).mean("layer:btrfs").ratio for weights in ({}, {"git": 8}))
    assert plain and heavy and heavy.estimate < 0.9 < plain.estimate
    (alone,) = (matrix({"fsync:short": 0, "kernel": 0}).mean("layer:btrfs"),)
    assert alone.ratio and alone.of == 1 and alone.ratio.estimate == pytest.approx(0.8, rel=0.01)
    with pytest.raises(UsageError, match="--weight gti: no scenario"):
        matrix({"gti": 1})


def test_the_weight_of_a_scenario_counts_before_that_of_all_its_variants() -> None:
    for order in (("git", "git:short"), ("git:short", "git")):
        given = {name: {"git": 0.0, "git:short": 3.0}[name] for name in order}
        assert {row.weight for row in matrix(given).rows if row.scenario == "git:short"} == {3.0}


def test_points_of_a_sweep_share_the_weight_of_their_scenario() -> None:
    rows = [row for session in suite() for row in rows_of([session], ARM, "", 0.03)]
    swept = [replace(rows[0], point=f"jobs={jobs}") for jobs in (1, 2)]
    found = make_matrix("large", [*swept, *rows[1:]], ARM, 0.03, {"kernel": 3})
    assert [row.weight for row in found.rows] == [1.5, 1.5, 1, 1]
    cells = tuple(MatrixCell(cell.arm, cell.verdict) for cell in swept[0].cells)
    found = make_matrix("large", [replace(swept[0], cells=cells), swept[1], *rows[1:]], ARM, 0.03, {"kernel": 3})
    assert [row.weight for row in found.rows][1:] == [3, 1, 1]  # a point without a figure takes no share


def test_a_scenario_of_the_reference_alone_takes_no_choice_away() -> None:
    """The newest session of a scenario had bare and the reference; every other arm has all scenarios but that one."""
    alone = made("smoke", {"bare": 0.5, ARM: 1.0}, 2)
    rows = [row for session in (*suite(), alone) for row in rows_of([session], ARM, "", 0.03)]
    found = make_matrix("large", rows, ARM, 0.03, {})
    assert [row.scenario for row in found.rows if not row.counts] == ["smoke"]
    assert found.choice == matrix().choice and found.means == matrix().means
    swept = [replace(row, scenario="git:short", point="jobs=64") if row.scenario == "smoke" else row for row in rows]
    counted = counting(make_matrix("large", swept, ARM, 0.03, {"git": 4}).rows)
    assert {row.scenario: row.weight for row in counted} == {"kernel:short": 1, "git:short": 4, "fsync:short": 1}
    found = make_matrix("large", [row for row in rows if row.scenario == "smoke"], ARM, 0.03, {})
    assert found.mean(ARM).of == 1 and found.mean(ARM).bare  # without any other arm it is all there is to say


def test_the_choice_is_the_reference_where_no_mean_is_faster() -> None:
    choice = matrix().choice
    assert choice.take == ARM
    assert [(item.scenario, item.faster) for item in choice.wrong] == [("git:short", "layer:btrfs")]


def test_the_choice_is_a_faster_driver_and_says_where_it_is_wrong() -> None:
    choice = matrix({"git": 8}).choice
    assert choice.take == "layer:btrfs"
    assert [(item.scenario, item.faster) for item in choice.wrong] == [("fsync:short", ARM)]


def test_space_of_fewer_scenarios_says_of_how_many() -> None:
    """A driver whose space is 0 in one round has no ratio there."""
    session = made("git:short", COSTS["git:short"])
    samples = tuple(
        replace(item, phases=tuple(replace(phase, space=0.0) for phase in item.phases))
        if (item.arm, item.round) == ("layer:btrfs", 3) else item
        for item in session.samples
    )  # fmt: skip
    rows = [row for one in (replace(session, samples=samples), *suite()[::2]) for row in rows_of([one], ARM, "", 0.03)]
    found = make_matrix("large", rows, ARM, 0.03, {}).mean("layer:btrfs")
    assert found.complete and found.space and found.written and (found.space.n, found.written.n) == (2, 3)


def test_another_placement_is_no_driver() -> None:
    """A bind mount is faster in every scenario, and is no choice of a driver."""
    found = matrix(arms=("bind:overlay2",))
    assert found.mean("bind:overlay2").verdict == FASTER and found.choice.take == ""
    assert found.arms == (ARM, "bind:overlay2")
    with pytest.raises(UsageError, match="--arm layer:aufs: no session"):
        matrix(arms=("layer:aufs",))


def test_an_arm_that_lacks_a_scenario_is_no_choice() -> None:
    few = {arm: cost for arm, cost in COSTS["git:short"].items() if arm != "layer:btrfs"}
    sessions = [made("git:short", few), *suite()[::2]]
    rows = [row for session in sessions for row in rows_of([session], ARM, "", 0.03)]
    found = make_matrix("large", rows, ARM, 0.03, {"fsync": 0})
    mean = found.mean("layer:btrfs")
    assert (mean.scenarios, mean.of, mean.complete) == (1, 2, False) and found.arms[-2:] == ("layer:btrfs", "layer:zfs")
    assert "layer:btrfs" not in (*found.choice.alike, found.choice.take)


def test_an_older_session_adds_the_arms_that_the_newest_lacks() -> None:
    old = made("git:short", COSTS["git:short"], 1)
    few = {arm: COSTS["git:short"][arm] for arm in ("bare", ARM, "layer:vfs")}
    (row,) = rows_of([made("git:short", few, 2), old], ARM, "", 0.03)
    assert {cell.arm: cell.session for cell in row.cells} == {
        ARM: "git-short-002", "layer:vfs": "git-short-002", "layer:btrfs": old.id, "bind:overlay2": old.id,
    }  # fmt: skip
    assert rows_of([old], "layer:zfs", "", 0.03) == []


def test_an_older_sessions_seconds_rest_on_the_newest_reference() -> None:
    """The machine is twice as fast since: what the arm takes more is added to what the reference takes now."""
    old = made("git:short", COSTS["git:short"], 1)
    few = {arm: COSTS["git:short"][arm] / 2 for arm in ("bare", ARM, "layer:btrfs")}
    (row,) = rows_of([made("git:short", few, 2), old], ARM, "", 0.03)
    own, cell = row.cell(ARM), row.cell("layer:vfs")
    assert own and own.seconds and own.seconds.error and cell and cell.seconds and cell.more and cell.more.error
    assert cell.seconds.estimate == pytest.approx(own.seconds.estimate + cell.more.estimate)
    assert cell.seconds.error == pytest.approx(math.hypot(own.seconds.error, cell.more.error))
    (alone,) = rows_of([made("git:short", few, 2, rounds=1), old], ARM, "", 0.03)
    filled = alone.cell("layer:vfs")
    assert filled and filled.seconds and filled.seconds.error is None


def test_one_round_is_no_figure_of_a_mean() -> None:
    (row,) = rows_of([made("git:short", COSTS["git:short"], rounds=1)], ARM, "", 0.03)
    found = make_matrix("large", [row], ARM, 0.03, {})
    assert not any(cell.measured for cell in row.cells) and found.choice.take == ""


def test_machines_of_a_class_are_pooled() -> None:
    title = "git:short"
    sessions = [on_machine(made(title, COSTS[title], number), number) for number in range(5)]
    (row,), left = pooled_rows(title, sessions, ARM, "", 0.03)
    cell = row.cell("layer:btrfs")
    assert not left and row.machines == 5 and row.metric == DURABLE
    assert cell and cell.verdict == FASTER and cell.n == 5 and cell.ratio and cell.seconds and cell.more
    assert cell.ratio.estimate == pytest.approx(0.8, rel=0.01) and cell.space and cell.written and cell.bare
    assert cell.seconds.estimate == pytest.approx(8.0, rel=0.01) and cell.more.estimate == pytest.approx(-2.0, rel=0.05)
    own = row.cell(ARM)
    assert own and own.verdict == REFERENCE and own.seconds and own.seconds.estimate == pytest.approx(10, rel=0.01)
    odd = replace(on_machine(made(title, COSTS[title], 9), 9), kit_version="0")
    _, left = pooled_rows(title, [*sessions, odd], ARM, "", 0.03)
    assert [(item.machine, item.why) for item in left] == [("builder-9", "kit: 1 → 0")]


def test_more_seconds_are_those_of_pairs_of_runs() -> None:
    """The reference's noise is in the difference whole: not half of it where the arm takes half the time."""
    plain = made("git:short", {"bare": 0.5, ARM: 1.0, "layer:btrfs": 0.5}, noise=0.0005, rounds=8)
    factor = {round_: 1.05 if round_ % 2 else 0.95 for round_ in range(1, 9)}
    samples = tuple(
        replace(
            item, phases=tuple(replace(phase, real=(phase.real or 0.0) * factor[item.round]) for phase in item.phases)
        )
        if item.arm == ARM and item.phases[0].real
        else item
        for item in plain.samples
    )
    (row,) = rows_of([replace(plain, samples=samples)], ARM, "", 0.03)
    cell = row.cell("layer:btrfs")
    assert cell and cell.more and cell.more.error and cell.more.estimate == pytest.approx(-5, abs=0.05)
    assert cell.more.error > 0.45 / math.sqrt(8)
    pairs = [(arm, ARM) for arm in plain.arms if arm != ARM]
    found = compare(Runs(samples), pairs, (DURABLE, SPACE, WRITTEN), whole=True)
    (item,) = (item for item in found if item.arm == "layer:btrfs" and item.metric == DURABLE)
    interval = cell.more.interval()
    assert (interval.low, interval.high) == pytest.approx((item.difference_low, item.difference_high))
    own = row.cell(ARM)
    assert own and own.seconds and cell.seconds
    assert cell.seconds.estimate == pytest.approx(own.seconds.estimate + cell.more.estimate)
    single = more_than(replace(item, difference_low=None, difference_high=None))
    assert single and single.error is None and more_than(None) is None


def test_copies_at_once_are_a_row_of_their_own() -> None:
    session = in_copies(made("git:short", COSTS["git:short"]), {1: 10.0, 2: 12.0, 4: 20.0})
    assert [row.point for row in rows_of([session], ARM, "", 0.03)] == ["", "copies=2", "copies=4"]
    (four,) = rows_of([in_copies(made("git:short", COSTS["git:short"]), {4: 10.0})], ARM, "", 0.03)
    assert four.point == "copies=4"
    sessions = [on_machine(in_copies(made("git:short", COSTS["git:short"], i), {4: 20.0}), i) for i in range(3)]
    (row,), _ = pooled_rows("git:short", sessions, ARM, "", 0.03)
    assert row.point == "copies=4"


def test_a_scenario_without_weight_has_no_part_in_the_choice() -> None:
    assert matrix({"git": 0}).choice.wrong == ()


def test_weights_are_read() -> None:
    assert parse_weights(("kernel=3", "make V=1 -j8=0.5"), "--weight") == {"kernel": 3, "make V=1 -j8": 0.5}
    with pytest.raises(UsageError, match="kernel=x: not a weight"):
        parse_weights(("kernel=x",), "--weight")


def test_noise_is_inconclusive_and_no_choice() -> None:
    costs = {"bare": 1.0, ARM: 1.0, "layer:btrfs": 1.02}
    rows = rows_of([made("noisy", costs, noise=0.1, rounds=4)], ARM, "", 0.03)
    found = make_matrix("large", rows, ARM, 0.03, {})
    assert found.choice.take == ARM and found.choice.inconclusive == ("layer:btrfs",)
    assert found.mean("layer:btrfs").verdict == INCONCLUSIVE and found.choice.wrong == ()
