"""What a session says, on samples of known truth."""

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
