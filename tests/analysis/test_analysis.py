"""What a session says, on samples of known truth."""

from dataclasses import replace

from kit.analysis.session.analyse import analyse
from kit.model.sample import Phase, Sample
from kit.model.session import Request, Session


def run(arm: str, round_: int, real: float, flags: str = "", rerun_of: int | None = None) -> Sample:
    return Sample(arm, round_, "measured", "ok", 0.0, (Phase("p", "ok", real),), flags=flags, rerun_of=rerun_of)


def session(*samples: Sample) -> Session:
    arms = ("bare", "layer:overlay2")
    return Session("x", 0.0, "0", "t", "done", Request(), arms, (("layer:overlay2", "bare"),), 1, samples=samples)


def test_ratios_with_and_without_repetitions_stand_side_by_side() -> None:
    planned = [run("bare", round_, 10 + round_ / 100) for round_ in (1, 2, 3, 4)]
    planned += [run("layer:overlay2", round_, 10.5 + round_ / 100) for round_ in (1, 2, 3)]
    slow = run("layer:overlay2", 4, 14.0, flags="steal 30 %")
    repeated = [run("bare", 5, 10.05, rerun_of=4), run("layer:overlay2", 5, 10.55, rerun_of=4)]
    found = analyse(session(*planned, slow, *repeated)).unrepeated
    assert [item.found.arm for item in found] == ["layer:overlay2"]
    assert found[0].found.ratio is not None and found[0].found.ratio < 1.06
    assert found[0].without.ratio is not None and found[0].without.ratio > 1.1
    assert found[0].differs
    assert analyse(session(*planned, slow)).unrepeated == ()
    alike = analyse(session(*planned, run("layer:overlay2", 4, 10.54, flags="steal 30 %"), *repeated)).unrepeated
    assert not alike[0].differs


ARMS = ("bare", "runtime:overlay2", "bind:overlay2", "layer:overlay2", "layer:vfs")


def one_round_with_a_rerun() -> Session:
    """A run of vfs was disturbed: its rerun has the arms that it is compared with."""
    planned = [run(arm, 1, 10.0 + place) for place, arm in enumerate(ARMS[:-1])]
    disturbed = run("layer:vfs", 1, 20.0, flags="steal 30 %")
    again = [
        run(arm, 2, real, rerun_of=1) for arm, real in (("bare", 12.0), ("layer:overlay2", 11.0), ("layer:vfs", 19.0))
    ]
    pairs = tuple((arm, "bare") for arm in ARMS[1:])
    return replace(session(*planned, disturbed, *again), arms=ARMS, baselines=pairs)


def test_one_round_has_no_interval_also_where_a_run_of_it_was_repeated() -> None:
    """bare and overlay2 ran in both, so their row had an interval, +90 % [-100, 629-fold], among rows without one."""
    found = analyse(one_round_with_a_rerun())
    assert [item for item in found.comparisons if item.n != 1 or item.low is not None] == []
    (ranking,) = found.rankings
    assert {pair.ratio.n for pair in ranking.pairs} == {1} and all(
        pair.ratio.together.low is None for pair in ranking.pairs
    )
    assert [step for ladder in found.ladders for step in ladder.steps if step.seconds.low is not None] == []
    assert {row.arm for row in ranking.undecided} == {"bind:overlay2", "layer:vfs"}


def test_a_disturbed_run_is_compared_within_its_rerun() -> None:
    ratios = {item.arm: item.ratio for item in analyse(one_round_with_a_rerun()).comparisons if item.metric == "real"}
    assert ratios["layer:vfs"] is not None and abs(ratios["layer:vfs"] - 19 / 12) < 1e-9
    assert ratios["layer:overlay2"] is not None and abs(ratios["layer:overlay2"] - 1.3) < 1e-9
