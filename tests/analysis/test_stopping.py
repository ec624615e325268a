"""When a session of an open number of rounds may stop, and how many more rounds it needs."""

from dataclasses import replace

import numpy as np
import pytest

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.analyse import analyse
from kit.analysis.session.more_rounds import MOST, more_rounds
from kit.analysis.session.ranking import INCONCLUSIVE, Ranking, rank
from kit.analysis.session.stopping import looks, widening
from kit.analysis.stats import variance_pooling
from kit.analysis.stats.estimators import mean_centre
from kit.model.default import AUTO_ROUNDS
from kit.model.sample import INTERLEAVED, RUN_ORDER, Phase, Sample
from kit.model.session import DONE, Request, Session

ARMS = ("bare", "layer:overlay2", "layer:vfs", "layer:btrfs", "bind:overlay2", "volume:overlay2")


def samples(rounds: int, noise: float = 0.01, seed: int = 1) -> list[Sample]:
    rng = np.random.default_rng(seed)
    return [
        Sample(arm, round_, "measured", "ok", 0.0, (Phase("p", "ok", 10 * float(np.exp(rng.normal(0, noise)))),))
        for round_ in range(1, rounds + 1)
        for arm in ARMS
    ]


def session(request: Request, rounds: int = 4) -> Session:
    pairs = tuple((arm, "bare") for arm in ARMS[1:])
    return Session("a", 0.0, "1", "t", DONE, request, ARMS, pairs, 1, samples=tuple(samples(rounds)))


def test_the_widening_rises_with_rounds_and_is_none_where_their_number_was_fixed() -> None:
    assert widening(0) == 1.0
    found = [widening(n) for n in range(3, 101)]
    assert found == sorted(found) and found[0] > 1
    assert widening(1) == widening(3)


def test_looks_are_the_measured_rounds_of_an_open_session() -> None:
    assert looks(session(Request(rounds=AUTO_ROUNDS))) == 4
    assert looks(session(Request(rounds=4))) == 0
    exported = replace(session(Request(rounds=AUTO_ROUNDS)), imported=True)
    assert looks(exported) == 4  # a session keeps its intervals through kit export and kit import
    assert looks(session(Request(rounds=AUTO_ROUNDS, precision=0.02))) == 0
    made = session(Request())
    again = replace(made.samples[0], round=5, rerun_of=1)
    warm = replace(made.samples[0], round=0, kind="warmup")
    assert looks(replace(made, samples=(*made.samples, again, warm))) == 4


def test_an_open_session_is_analysed_with_wider_simultaneous_intervals() -> None:
    fixed, chosen = (analyse(session(Request(rounds=rounds))) for rounds in (4, AUTO_ROUNDS))
    for one, two in zip(fixed.comparisons, chosen.comparisons, strict=True):
        if one.low_all and two.low_all:
            assert one.low == two.low and two.low_all < one.low_all
            assert (two.difference_low_all or 0) < (one.difference_low_all or 0)
    assert chosen.rankings[0].rounds == 4 and fixed.rankings[0].rounds == 0
    assert analyse(session(Request(margin=0.2))).rankings[0].margin == 0.2


@pytest.mark.parametrize("arms", [2, 6])
def test_simultaneous_intervals_hold_at_every_look(arms: int) -> None:
    sessions, most = 300, 12
    values = np.random.default_rng(arms).standard_normal((sessions, arms, most))
    missed = 0
    for each in values:
        for n in range(3, most + 1):
            contrasts = [
                variance_pooling.Contrast((i, 0), mean_centre(each[i, :n] - each[0, :n]), True) for i in range(1, arms)
            ]
            found = variance_pooling.share(contrasts, arms - 1, widening(n))
            if any(item.interval_together().leaves_out(0.0) for item in found):
                missed += 1
                break
    assert missed / sessions < 0.05 + 3 * (0.05 * 0.95 / sessions) ** 0.5


def ranked(rounds: int, noise: float, seed: int = 1) -> Ranking:
    return rank(Runs(samples(rounds, noise, seed)), ARMS, rounds=rounds)[0]


def test_more_rounds_are_a_range_for_what_is_inconclusive() -> None:
    found = ranked(4, 0.015)
    assert found.undecided
    for row in found.rows:
        needed = more_rounds(row, found)
        if row.verdict != INCONCLUSIVE:
            assert needed is None
        elif needed:
            few, typical, many = needed
            assert 1 <= few <= typical <= many <= MOST
    noisy = ranked(4, 0.03)
    longer = [needed[1] for row in noisy.undecided if (needed := more_rounds(row, noisy))]
    quiet = [needed[1] for row in found.undecided if (needed := more_rounds(row, found))]
    assert np.mean(longer) > np.mean(quiet)


def test_sessions_are_decided_after_about_as_many_rounds_as_were_said() -> None:
    inside = total = 0
    for seed in range(12):
        early = ranked(5, 0.012, seed)
        for row in early.undecided:
            needed = more_rounds(row, early)
            if needed is None:
                continue
            took = next(
                (n for n in range(6, 41) if row.arm not in [item.arm for item in _at(seed, n).undecided]), 41
            )  # fmt: skip
            total += 1
            inside += 5 + needed[0] / 2 <= took <= 5 + 2 * needed[2]
    assert total > 10 and inside / total > 0.6


def _at(seed: int, rounds: int) -> Ranking:
    made = [item for item in samples(40, 0.012, seed) if item.round <= rounds]
    return rank(Runs(made), ARMS, rounds=rounds)[0]


def test_what_copies_differ_by_may_leave_nothing_to_decide() -> None:
    made = [replace(item, digests=((RUN_ORDER, INTERLEAVED),)) for item in samples(4, 0.01)]
    found = rank(Runs(made), ARMS, margin=0.01, rounds=4)[0]
    assert found.undecided and all(more_rounds(row, found) is None or abs(row.against.ratio - 1) > 0.01
                                   for row in found.undecided if row.against)  # fmt: skip
