"""The ranking, on sessions whose truth is known."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.ranking import Ranking, find_letters, rank, split_picks
from kit.analysis.stats.estimate import EQUIVALENT, FASTER, INCONCLUSIVE, REFERENCE, SLOWER
from kit.core.errors import UsageError
from kit.model.sample import Phase, Sample
from kit.parsers.figure import Reported
from kit.report.text.ranking import cells as cells_of

TRUTH = {
    "bare": 9.0, "bare@btrfs": 9.6, "runtime:overlay2": 9.0, "layer:overlay2": 10.0, "bind:overlay2": 10.0,
    "layer:btrfs": 9.7, "layer:vfs": 14.0, "bare+control": 9.0,
}  # fmt: skip
TWO = (("a", 1.0), ("b", 1.5))
PICKS = ["layer:overlay2", "bind:overlay2", "layer:btrfs", "layer:vfs"]


def samples(rounds: int, noise: float, seed: int = 1, flush: float | None = 1.0) -> list[Sample]:
    rng = np.random.default_rng(seed)
    return [
        Sample(
            arm, round_, "measured", "ok", 0.0,
            (Phase("p", "ok", base * float(np.exp(rng.normal(0, noise))), flush=flush),),
        )
        for round_ in range(1, rounds + 1)
        for arm, base in TRUTH.items()
    ]  # fmt: skip


def ranking(rounds: int = 5, noise: float = 0.003, **named: Any) -> Ranking:
    return rank(Runs(samples(rounds, noise)), list(TRUTH), **named)[0]


def test_picks_are_arms_in_containers_on_a_driver() -> None:
    picks, grounds = split_picks(list(TRUTH))
    assert (picks, grounds) == (PICKS, ["bare", "bare@btrfs"])
    assert split_picks(["bare@ext4", "bare@xfs"]) == (["bare@ext4", "bare@xfs"], [])
    rebuild = "build:vfs+cache=warm"
    assert split_picks(["bare", rebuild, "build:vfs"]) == (["build:vfs"], ["bare", rebuild])
    assert split_picks(["bare", rebuild]) == ([rebuild], ["bare"])
    assert split_picks(["aufs", "device mapper"]) == (["aufs", "device mapper"], [])


def test_the_reference_is_the_default_of_the_session_if_it_ran() -> None:
    """A session that records none keeps the choice of the kit that made it."""
    chosen = {name: ranking(default_reference=name).reference for name in ("", "layer:btrfs", "layer:overlayfs")}
    assert chosen == {"": "layer:overlay2", "layer:btrfs": "layer:btrfs", "layer:overlayfs": "layer:overlay2"}
    assert ranking(default_reference="layer:btrfs", reference="layer:vfs").reference == "layer:vfs"


def test_a_rebuild_has_a_row_but_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    rebuild = "build:vfs+cache=warm"
    monkeypatch.setitem(TRUTH, rebuild, 1.0)
    found = ranking()
    row = next(row for row in found.rows if row.arm == rebuild)
    assert (row.pick, row.group) == (False, "") and row.against is not None
    assert row.against.ratio == pytest.approx(2 / 11, rel=0.01)
    assert [item.arm for item in found.filesystems] == ["bare@btrfs"]
    assert [cells[-1] for cells in cells_of(found, [row])] == ["rebuild"]


def test_all_are_ranked_by_time_until_data_is_safe_across_filesystems() -> None:
    found = ranking()
    assert (found.metric, found.reference, found.point) == ("durable", "layer:overlay2", "")
    assert [row.arm for row in found.picks] == ["layer:btrfs", "layer:overlay2", "bind:overlay2", "layer:vfs"] or [
        row.arm for row in found.picks
    ] == ["layer:btrfs", "bind:overlay2", "layer:overlay2", "layer:vfs"]
    rows = {row.arm: row for row in found.rows}
    assert rows["layer:vfs"].against is not None
    assert rows["layer:vfs"].against.ratio == pytest.approx(15 / 11, rel=0.01)
    assert rows["layer:overlay2"].against is None
    assert rows["layer:overlay2"].typical == rows["layer:overlay2"].seconds
    assert {row.arm for row in found.rows if not row.pick} == {"bare", "bare@btrfs"}
    assert [item.arm for item in found.filesystems] == ["bare@btrfs"]
    assert found.filesystems[0].ratio == pytest.approx(10.6 / 10.0, rel=0.01)


def test_indistinguishable_arms_share_a_letter_and_ranks() -> None:
    rows = {row.arm: row for row in ranking().rows}
    assert set(rows["layer:overlay2"].group) & set(rows["bind:overlay2"].group)
    assert not set(rows["layer:vfs"].group) & set(rows["layer:overlay2"].group)
    assert (rows["layer:vfs"].rank_low, rows["layer:vfs"].rank_high) == (4, 4)
    assert (rows["layer:btrfs"].rank_low, rows["layer:btrfs"].rank_high) == (1, 1)
    assert (rows["layer:overlay2"].rank_low, rows["layer:overlay2"].rank_high) == (2, 3)
    assert (rows["bare"].rank_low, rows["bare"].group) == (0, "")


def test_one_round_tells_nothing_apart() -> None:
    found = ranking(1)
    assert {row.group for row in found.picks} == {"a"}
    assert {(row.rank_low, row.rank_high) for row in found.picks} == {(1, 4)}
    assert not any(pair.significant for pair in found.pairs)
    assert {row.verdict for row in found.picks} == {REFERENCE, ""}
    assert [row.arm for row in found.undecided] == [row.arm for row in found.picks if row.against]


def test_a_reference_and_a_metric_can_be_named() -> None:
    found = ranking(metric="real", reference="bare")
    assert (found.metric, found.reference) == ("real", "bare")
    rows = {row.arm: row for row in found.rows}
    assert rows["layer:overlay2"].against is not None
    assert rows["layer:overlay2"].against.ratio == pytest.approx(10 / 9, rel=0.01)
    with pytest.raises(UsageError, match="no run of it succeeded"):
        ranking(reference="layer:zfs")
    with pytest.raises(UsageError, match="not measured"):
        ranking(metric="outside")


def test_without_a_flush_it_is_by_real_time() -> None:
    assert rank(Runs(samples(3, 0.01, flush=None)), list(TRUTH))[0].metric == "real"


def by_operations() -> Ranking:
    """By a figure of which more is better."""
    made = [
        Sample(
            arm, round_, "measured", "ok", 0.0,
            (Phase("p", "ok", 1.0, reported=(Reported("ops", rate + round_ / 100, "1/s", "more"),)),),
        )
        for round_ in (1, 2, 3, 4)
        for arm, rate in (("layer:overlay2", 100.0), ("layer:vfs", 150.0), ("layer:btrfs", 50.0))
    ]  # fmt: skip
    return rank(Runs(made), ["layer:overlay2", "layer:vfs", "layer:btrfs"], "ops")[0]


def test_of_a_figure_of_which_more_is_better_the_most_is_first() -> None:
    found = by_operations()
    assert [row.arm for row in found.rows] == ["layer:vfs", "layer:overlay2", "layer:btrfs"]
    assert [row.rank_low for row in found.rows] == [1, 2, 3]
    assert (found.unit, found.better) == ("1/s", "more")


def test_an_arm_that_lacks_rounds_is_compared_in_those_it_has() -> None:
    lacking = [item for item in samples(6, 0.003) if item.arm != "layer:vfs" or item.round > 3]
    rows = {row.arm: row for row in rank(Runs(lacking), list(TRUTH))[0].rows}
    assert rows["layer:vfs"].n == 3
    assert rows["layer:vfs"].against is not None and rows["layer:vfs"].against.n == 3
    assert rows["layer:vfs"].rank_low == 4


def sweep(points: int, rounds: int, noise: float, seed: int = 1) -> list[Sample]:
    """Identical arms at each point."""
    rng = np.random.default_rng(seed)
    return [
        Sample(
            arm, round_, "measured", "ok", 0.0, (Phase("p", "ok", float(np.exp(rng.normal(0, noise)))),),
            point=f"jobs={point}",
        )
        for round_ in range(1, rounds + 1)
        for point in range(1, points + 1)
        for arm in ("layer:overlay2", "layer:vfs")
    ]  # fmt: skip


def test_of_identical_arms_few_sessions_find_one_that_differs_at_any_point_of_a_sweep() -> None:
    wrong, sessions, points = 0, 150, 8
    for seed in range(sessions):
        found = rank(Runs(sweep(points, 4, 0.02, seed)), ["layer:overlay2", "layer:vfs"])
        assert len(found) == points
        wrong += any(row.verdict in (SLOWER, FASTER) for item in found for row in item.rows)
    assert wrong / sessions < 0.05 + 3 * (0.05 * 0.95 / sessions) ** 0.5  # 34 % where each point errs by itself


def test_a_family_counts_its_pairs_at_all_points_of_a_sweep() -> None:
    """Also where the session looked each round, and for one-sided bounds."""
    arms = ["layer:overlay2", "layer:vfs"]
    made = sweep(4, 4, 0.02)
    alone = [item for item in made if item.point == "jobs=1"]
    for rounds in (0, 4):
        one = rank(Runs(alone), arms, rounds=rounds)[0].pairs[0]
        first = rank(Runs(made), arms, rounds=rounds)[0].pairs[0]
        assert (one.family, first.family) == (1, 4)
        assert (one.ratio, one.low) == (first.ratio, first.low)
        for which in (0, 1):
            assert first.quantiles[which] > 1.1 * one.quantiles[which]
        assert (first.low_all or 0) < (one.low_all or 0) and (first.low_bound or 0) < (one.low_bound or 0)


def test_a_session_of_one_arm_has_no_ranking() -> None:
    assert rank(Runs([item for item in samples(3, 0.01) if item.arm == "layer:vfs"]), ["layer:vfs"]) == ()


@pytest.mark.parametrize("seed", range(20))
def test_letters_are_shared_by_exactly_the_indistinguishable_arms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arms = [f"arm{i}" for i in range(7)]
    apart = {pair for pair in combinations(arms, 2) if rng.random() < 0.5}
    letters = find_letters(arms, apart)
    for one, other in combinations(arms, 2):
        assert bool(set(letters[one]) & set(letters[other])) == ((one, other) not in apart)
    assert letters["arm0"].startswith("a")


def test_letters_of_a_published_display() -> None:
    # Piepho 2004, the usual case of a line: a-b and b-c alike, a-c told apart.
    assert find_letters(["x", "y", "z"], {("x", "z")}) == {"x": "a", "y": "ab", "z": "b"}


def test_equal_arms_differ_significantly_in_few_sessions() -> None:
    wrong = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        made = [
            Sample(arm, round_, "measured", "ok", 0.0, (Phase("p", "ok", float(np.exp(rng.normal(0, 0.03)))),))
            for round_ in range(1, 4)
            for arm in ("layer:overlay2", "layer:vfs", "layer:btrfs", "bind:overlay2", "volume:overlay2")
        ]
        found = rank(Runs(made), [item.arm for item in made[:5]])[0]
        wrong += any(pair.significant for pair in found.pairs)
    assert wrong / 300 < 0.12  # 5 % in either family, and three standard errors of 300 sessions


def verdicts(found: Ranking) -> dict[str, str]:
    return {row.arm: row.verdict for row in found.rows}


def test_each_arm_has_a_verdict_against_the_reference() -> None:
    assert verdicts(ranking(margin=0.05)) == {
        "bare": FASTER, "bare@btrfs": EQUIVALENT, "layer:btrfs": EQUIVALENT, "layer:overlay2": REFERENCE,
        "bind:overlay2": EQUIVALENT, "layer:vfs": SLOWER,
    }  # fmt: skip
    assert ranking().decided
    strict = ranking(margin=0.01)
    assert verdicts(strict)["layer:btrfs"] == FASTER and strict.margin == 0.01


def test_an_arm_may_differ_significantly_and_be_equivalent() -> None:
    row = next(row for row in ranking(margin=0.05).rows if row.arm == "layer:btrfs")
    assert row.against is not None and row.against.significant and row.verdict == EQUIVALENT
    assert row.against.equivalent(0.05) and not row.against.equivalent(0.01)


def test_what_is_neither_is_inconclusive_and_undecided() -> None:
    found = ranking(3, 0.03)
    assert verdicts(found)["bind:overlay2"] == INCONCLUSIVE
    assert not found.decided and "bind:overlay2" in [row.arm for row in found.undecided]
    assert "layer:vfs" not in [row.arm for row in found.undecided]


def test_bare_is_judged_where_the_reference_is_the_only_pick() -> None:
    names = ["bare", "layer:overlay2"]
    made = [item for item in samples(3, 0.03) if item.arm in names]
    found = rank(Runs(made), names)[0]
    assert [row.arm for row in found.undecided] == ["bare"] or found.decided
    assert [(pair.arm, pair.other) for pair in found.pairs] == [("layer:overlay2", "bare")]


def test_of_a_figure_of_which_more_is_better_less_is_slower() -> None:
    found = verdicts(by_operations())
    assert (found["layer:vfs"], found["layer:btrfs"]) == (FASTER, SLOWER)


def test_rows_and_letters_never_contradict_each_other() -> None:
    for seed in range(40):
        found = rank(Runs(samples(3, 0.02, seed)), list(TRUTH))[0]
        groups = {row.arm: set(row.group) for row in found.picks}
        for row in found.picks:
            if row.against is not None:
                assert bool(groups[row.arm] & groups[found.reference]) != row.against.significant
        for pair in found.pairs:
            if {pair.arm, pair.other} <= set(groups):
                assert bool(groups[pair.arm] & groups[pair.other]) != pair.significant


def test_the_family_of_the_reference_is_narrower_than_that_of_all_pairs() -> None:
    found = ranking(5, 0.01)
    reference = [pair for pair in found.pairs if found.reference in (pair.arm, pair.other)]
    others = [pair for pair in found.pairs if pair not in reference]
    assert {pair.family for pair in reference} == {5}  # three picks, and bare on two filesystems
    assert {pair.family for pair in others} == {6}
    all_pairs = next(pair.quantiles[0] for pair in others if "layer:vfs" not in (pair.arm, pair.other))
    dunnett = next(pair.quantiles[0] for pair in reference if "bind:overlay2" in (pair.arm, pair.other))
    assert dunnett < 0.99 * all_pairs


def test_intervals_are_wider_where_the_session_chose_its_end() -> None:
    made = Runs(samples(5, 0.01))
    (fixed,), (chosen,) = rank(made, list(TRUTH)), rank(made, list(TRUTH), rounds=5)
    assert chosen.rounds == 5
    for one, two in zip(fixed.rows, chosen.rows, strict=True):
        if one.against and two.against:
            assert (one.against.ratio, one.against.low) == (two.against.ratio, two.against.low)
            assert (two.against.low_all or 0) < (one.against.low_all or 0)
            assert (two.against.low_bound or 0) > (two.against.low_all or 0)
            assert (two.against.low_bound or 0) < (one.against.low_bound or 0)


def test_an_arm_whose_runs_failed_is_not_undecided() -> None:
    lacking = [item for item in samples(4, 0.003) if item.arm != "layer:vfs" or item.round == 1]
    found = rank(Runs(lacking), list(TRUTH))[0]
    assert verdicts(found)["layer:vfs"] == "" and found.decided


def drawn(seed: int, rounds: int, costs: dict[str, float]) -> Ranking:
    """A session with noise of 3 %."""
    rng = np.random.default_rng(seed)
    made = [
        Sample(arm, round_, "measured", "ok", 0.0, (Phase("p", "ok", cost * float(np.exp(rng.normal(0, 0.03)))),))
        for round_ in range(1, rounds + 1)
        for arm, cost in costs.items()
    ]
    return rank(Runs(made), list(costs))[0]


def test_the_only_best_is_seldom_outdone_and_fewer_arms_are_left_than_by_letters() -> None:
    costs = {
        "layer:overlay2": 1.03, "bind:overlay2": 1.0, "volume:overlay2": 1.06, "layer:vfs": 1.1, "layer:btrfs": 1.15,
    }  # fmt: skip
    found = [drawn(seed, 5, costs) for seed in range(120)]
    outdone = [{arm for arm, _ in item.outdone} for item in found]
    assert np.mean(["bind:overlay2" in arms for arms in outdone]) < 0.03
    left = [len(costs) - len(arms) for arms in outdone]
    beaten = [
        {(pair.arm if pair.ratio > 1 else pair.other) for pair in item.pairs if pair.significant} for item in found
    ]
    by_letters = [len(costs) - len(arms) for arms in beaten]
    assert np.mean(left) < np.mean(by_letters) - 0.2
    assert all(other != arm for item in found for arm, other in item.outdone)


def test_of_arms_that_are_the_same_the_one_that_is_best_by_chance_outdoes_few() -> None:
    costs = dict.fromkeys(["layer:overlay2", "bind:overlay2", "volume:overlay2", "layer:vfs", "layer:btrfs"], 1.0)
    wrong = [bool([arm for arm, _ in drawn(seed, 3, costs).outdone if arm == "layer:vfs"]) for seed in range(200)]
    assert np.mean(wrong) < 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


def test_where_more_is_better_the_one_with_more_outdoes() -> None:
    pairs = set(by_operations().outdone)
    assert ("layer:btrfs", "layer:vfs") in pairs and ("layer:vfs", "layer:btrfs") not in pairs


def test_bare_is_in_the_family_of_the_reference_alone() -> None:
    found = ranking(5, 0.01)
    grounds = {"bare", "bare@btrfs"}
    assert all(found.reference in (pair.arm, pair.other) for pair in found.pairs if {pair.arm, pair.other} & grounds)
    (across,) = found.filesystems
    assert {across.arm, across.other} == grounds and across.family == 1


def test_commands_of_bare_are_no_filesystems(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = {"bare": 9.0, "bare@btrfs": 9.6, "layer:overlay2": 10.0}
    several = {f"{arm}+command={name}": cost * factor for arm, cost in truth.items() for name, factor in TWO}
    for arm in list(TRUTH):
        monkeypatch.delitem(TRUTH, arm)
    for arm, cost in several.items():
        monkeypatch.setitem(TRUTH, arm, cost)
    found = rank(Runs(samples(5, 0.003)), list(several), default_reference="layer:overlay2+command=a")[0]
    assert [(item.arm, item.other) for item in found.filesystems] == [("bare@btrfs+command=a", "bare+command=a")]
    other = next(row for row in found.picks if row.against)
    assert other.arm == "layer:overlay2+command=b" and other.verdict == SLOWER
    assert other.against and other.against.ratio == pytest.approx(16 / 11, rel=0.01)
