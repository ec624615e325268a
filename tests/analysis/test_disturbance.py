from dataclasses import replace

from kit.analysis.runs.disturbance import find_bursts, own_nature
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.analyse import analyse
from kit.model.sample import INTERLEAVED, RUN_ORDER, Phase, Sample
from kit.model.session import Request, Session
from kit.report import render

PSI = Phase("build", "ok", psi_cpu=1.8, psi_io=0, psi_memory=0, psi_cpu_own=1, psi_io_own=0, psi_memory_own=0, steal=0)


def run(arm: str, round_: int, real: float = 10.0, **changes: object) -> Sample:
    phase = replace(PSI, real=real)
    made = Sample(arm, round_, "measured", "ok", 0.0, (phase,), 0.004, 0.004)
    return replace(made, **changes)  # type: ignore[arg-type]


def hit(sample: Sample, **figures: float | None) -> Sample:
    return replace(sample, phases=(replace(sample.phases[0], **figures),))  # type: ignore[arg-type]


QUIET = [run(arm, round_) for arm in ("bare", "layer:overlay2") for round_ in (1, 2, 3, 4)]


def test_a_quiet_session_has_none_however_odd_its_times() -> None:
    assert (
        find_bursts(
            [*QUIET, run("bare", 5, real=99.0, phases=(Phase("build", "ok", 99.0, psi_cpu=9.0, psi_cpu_own=1.0),))]
        )
        == {}
    )


def test_steal_calibration_and_pressure_are_reasons() -> None:
    runs = [
        *QUIET,
        hit(run("bare", 5), steal=1.0),
        run("bare", 6, calibration_after=0.006),
        hit(run("bare", 7), psi_cpu=3.0),
    ]
    assert find_bursts(runs) == {
        ("bare", "", 5): "steal 10 %",
        ("bare", "", 6): "calibration after it +50 %",
        ("bare", "", 7): "cpu pressure from outside 20 %",
    }


def neighbour(sample: Sample, cpus: float) -> Sample:
    """Beside a program that takes so many CPUs: the session's own tasks wait as long as anybody's."""
    return hit(sample, outside=0.3 + 10 * cpus, user=15.0, sys=1.0, psi_cpu=8.0, psi_cpu_own=8.0)


def test_a_cpu_neighbour_is_seen_though_no_pressure_tells_of_it() -> None:
    runs = [neighbour(item, 0.0) for item in QUIET]
    assert find_bursts([*runs, neighbour(run("bare", 5), 0.05)]) == {}  # half a CPU second of the build's 16
    hit_by = [neighbour(run("bare", 5), 0.4), neighbour(run("layer:overlay2", 5), 0.6)]
    assert find_bursts([*runs, *hit_by]) == {
        ("bare", "", 5): "other programs used 0.40 CPUs",
        ("layer:overlay2", "", 5): "other programs used 0.60 CPUs",
    }
    on_many_cpus = [hit(item, user=600.0) for item in [*runs, *hit_by]]
    assert find_bursts(on_many_cpus) == {}
    unknown = [hit(item, outside=None) for item in [*runs, *hit_by]]
    assert find_bursts(unknown) == {}


def test_outside_cpu_of_one_arm_alone_may_be_its_own() -> None:
    """Of a daemon or a kernel thread that works now and then: to run that again would make the arm look better."""
    runs = [neighbour(item, 0.0) for item in QUIET]
    assert find_bursts([*runs, neighbour(run("bare", 5), 0.8)]) == {}
    stolen = hit(neighbour(run("bare", 5), 0.8), steal=2.0)
    assert find_bursts([*runs, stolen]) == {("bare", "", 5): "steal 20 %"}


def test_outside_cpu_that_is_usual_for_an_arm_is_its_own() -> None:
    fuse = [neighbour(run("layer:fuse-overlayfs", round_), 0.35 + round_ / 1000) for round_ in range(1, 9)]
    quiet = [neighbour(run(arm, round_), 0.0) for arm in ("bare", "layer:vfs") for round_ in range(1, 9)]
    assert find_bursts([*fuse, *quiet]) == {}
    now_and_then = [neighbour(item, 1.0) if item.round in (2, 5, 8) else item for item in fuse]
    once = [neighbour(item, 0.4) if item == quiet[0] else item for item in quiet]
    bursts = find_bursts([*now_and_then, *once])
    assert len(bursts) == 4
    assert list(own_nature([*now_and_then, *once], bursts)) == []  # 3 of 4: a third of the time makes that 11 %
    often = [neighbour(item, 1.0) if item.round < 4 else item for item in fuse]
    assert find_bursts([*often, *quiet]) == {}


def test_interleaved_runs_share_their_neighbour() -> None:
    arms = ("bare", "layer:overlay2", "layer:vfs")
    order = ((RUN_ORDER, INTERLEAVED),)
    runs = [neighbour(run(arm, round_, digests=order), 0.0) for arm in arms for round_ in (1, 2, 3)]
    alike = [neighbour(run(arm, 4, digests=order), 0.4) for arm in arms]
    assert find_bursts([*runs, *alike]) == {}
    more = (*arms, "bind:overlay2", "volume:overlay2")
    runs = [neighbour(run(arm, round_, digests=order), 0.0) for arm in more for round_ in (1, 2, 3)]
    uneven = [neighbour(run(arm, 4, digests=order), 0.4 + 0.5 * (i > 2)) for i, arm in enumerate(more)]
    assert find_bursts([*runs, *uneven]) == {
        (arm, "", 4): "other programs used 0.90 CPUs" for arm in ("bind:overlay2", "volume:overlay2")
    }


def test_runs_of_a_moment_are_not_judged_by_shares() -> None:
    short = [
        run("bare", round_, real=0.05, phases=(Phase("build", "ok", 0.05, psi_cpu=0.0, psi_cpu_own=0.0),))
        for round_ in (1, 2, 3)
    ]
    assert (
        find_bursts(
            [*short, run("bare", 4, phases=(Phase("build", "ok", 0.05, psi_cpu=0.03, psi_cpu_own=0.0, steal=0.01),))]
        )
        == {}
    )


def test_warmups_failures_and_repetitions_are_not_judged() -> None:
    odd = hit(run("bare", 5), steal=5.0)
    others = [replace(odd, kind="warmup"), replace(odd, status="failed"), replace(odd, rerun_of=2)]
    assert find_bursts([*QUIET, *others]) == {}


def test_a_repetition_takes_the_place_of_a_flagged_run_and_both_are_kept() -> None:
    flagged = run("layer:overlay2", 2, real=30.0, flags="steal 10 %")
    samples = [item for item in QUIET if (item.arm, item.round) != ("layer:overlay2", 2)] + [flagged]
    assert Runs(samples).values(("layer:overlay2", ""), "build", "real").max() == 30.0  # no repetition: it counts
    again = [run(arm, 5, rerun_of=2) for arm in ("bare", "layer:overlay2")]
    runs = Runs([*samples, *again])
    assert runs.values(("layer:overlay2", ""), "build", "real").max() == 10.0
    assert list(runs.rounds(("layer:overlay2", ""))) == [1, 3, 4, 5]
    session = Session(
        "x", 0.0, "0", "s", "done", Request(), ("bare", "layer:overlay2"), (("layer:overlay2", "bare"),), 1,
        samples=(*samples, *again),
    )  # fmt: skip
    assert [(item.round, item.repeated) for item in analyse(session).flagged] == [(2, True)]
    assert "disturbed: layer:overlay2, round 2: steal 10 %; a rerun replaces it" in render("full", session)
    assert '"real": 30.0' in render("json", session)


def test_an_arms_own_pressure_and_unknown_pressure_disturb_no_run() -> None:
    assert find_bursts([*QUIET, hit(run("bare", 5), psi_cpu=5.0, psi_cpu_own=4.2)]) == {}
    unknown = [hit(item, psi_cpu_own=None) for item in (*QUIET, run("bare", 5))]
    assert find_bursts([*unknown, hit(run("bare", 6), psi_cpu=9.0, psi_cpu_own=None)]) == {}


def test_below_six_rounds_two_hits_do_not_become_the_norm() -> None:
    runs = [run("bare", 1), *(hit(run("bare", round_), psi_io=2.0) for round_ in (2, 3))]
    assert [round_ for _, _, round_ in find_bursts(runs)] == [2, 3]
    many = [run("bare", round_) for round_ in (1, 2)] + [hit(run("bare", round_), psi_io=2.0) for round_ in range(3, 9)]
    assert find_bursts(many) == {}  # three quarters of all runs: the arm's usual


def test_flags_that_gather_in_one_arm_are_its_nature() -> None:
    rounds = range(1, 11)
    others = [run(arm, round_) for arm in ("bare", "bind:overlay2") for round_ in rounds]
    mine = [run("layer:overlay2", round_, calibration_after=0.006 if round_ <= 4 else 0.004) for round_ in rounds]
    bursts = find_bursts([*others, *mine])
    assert own_nature([*others, *mine], bursts) == {
        ("layer:overlay2", ""): "4 of 10 runs flagged, 0 of 20 of the others"
    }
    spread = [replace(item, calibration_after=0.006) if item.round == 1 else item for item in others]
    assert own_nature([*spread, *mine[1:]], find_bursts([*spread, *mine[1:]])) == {}


def test_thousands_of_flags_are_no_ones_nature_where_all_have_them() -> None:
    runs = [run(arm, round_) for arm in ("bare", "layer:overlay2") for round_ in range(1100)]
    assert own_nature(runs, {(item.arm, "", item.round): "steal 9 %" for item in runs}) == {}


def test_interleaved_runs_are_compared_with_the_other_arms_of_their_round() -> None:
    arms = ("bare", "layer:overlay2", "layer:vfs")
    quiet = [run(arm, round_) for arm in arms for round_ in (1, 2, 3)]
    alike = [hit(run(arm, 4, calibration_before=0.006), steal=1.0, psi_cpu=3.0) for arm in arms]
    assert len(find_bursts([*quiet, *alike])) == 3
    turns = [replace(item, digests=((RUN_ORDER, INTERLEAVED),)) for item in [*quiet, *alike]]
    assert find_bursts(turns) == {}
    one = [hit(item, steal=2.5) if (item.arm, item.round) == ("layer:vfs", 4) else item for item in turns]
    assert find_bursts(one) == {("layer:vfs", "", 4): "steal 25 %"}
