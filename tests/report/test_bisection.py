"""What a bisection prints: the answer first, and what to do next."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kit.analysis.bisection.bisection import (
    FOUND,
    INCONCLUSIVE,
    NO_SLOWDOWN,
    SEVERAL,
    SKIPPED,
    Bisection,
    BisectionStep,
    Candidate,
)
from kit.analysis.session.slowdown import NOT_SLOWER, SLOWER, UNDECIDED, Slowdown
from kit.model.plan import MOST_ROUNDS
from kit.report.renderer import BISECTION, find
from tests.glossary import avoided_words
from tests.json_schemas import check_document

GOOD = Candidate("aaa0000", "a" * 40, "Start", "Ann", 1.7e9)
COMMITS = tuple(Candidate(f"b{i}", f"{i}" * 40, f"Change {i}", "Bob", 1.7e9 + 86400 * i) for i in range(1, 5))
SLOW = Slowdown(SLOWER, 1.102, 1.079, 1.126, 8, "durable")
SAME = Slowdown(NOT_SLOWER, 1.004, 0.98, 1.028, 9, "durable")
STEPS = (
    BisectionStep(COMMITS[3], SLOWER, SLOW, 0.0125, "s1", 90.0),
    BisectionStep(COMMITS[1], NOT_SLOWER, SAME, 0.0125, "s2", earlier=True),
    BisectionStep(COMMITS[2], SLOWER, SLOW, 0.025, "s3", 90.0),
)
FOUND_ONE = Bisection("layer:overlay2", 0.05, GOOD, COMMITS, STEPS, FOUND, COMMITS[2:3])


def printed(found: Bisection) -> str:
    text = find(BISECTION, "table").render(found)
    assert not list(avoided_words(text))
    assert max(map(len, text.split("\n\n")[0].splitlines())) <= 100
    check_document("bisect", find(BISECTION, "json").render(found))
    return text


def test_the_answer_is_the_commit_with_its_cost_and_probability_of_error() -> None:
    text = printed(FOUND_ONE)
    assert text.startswith(f"first slow commit: {'3' * 40} Change 3 (Bob, 2023-11-17)\n")
    assert "It costs +10.2 % [+7.9, +12.6] of durable time on layer:overlay2, compared with aaa0000." in text
    assert "b2, is less than 5 % slower" in " ".join(text.split())
    assert "Probability of a wrong answer: at most 5 %. 16 rounds in 2 steps took 3 min" in " ".join(text.split())
    assert "1 step is from earlier." in " ".join(text.split())
    assert "Next: git show b3" in text
    rows = text.split("\n\n")[1].splitlines()
    assert rows[0].split()[:5] == ["commit", "date", "subject", "slowdown", "(durable),"] and len(rows) == 5
    assert rows[3].split()[-1] == "slower" and "earlier" in rows[3] and "less than 5 % slower" in rows[3]
    assert rows[2].rstrip().endswith("slower") and "1 min 30 s" in rows[2]


def test_the_first_candidate_has_the_good_end_before_it_and_a_merge_its_branch() -> None:
    first = replace(COMMITS[0], merge=True)
    step = BisectionStep(first, SLOWER, SLOW, 0.05)
    text = printed(replace(FOUND_ONE, candidates=(first,), steps=(step,), suspects=(first,)))
    assert "It follows aaa0000 directly." in " ".join(text.split())
    assert "it is a merge; search its branch with --bad b1^2" in text


def test_versions_have_no_dates() -> None:
    good, new = (Candidate(f"docker@{number}", f"docker@{number}") for number in ("28", "29"))
    step = BisectionStep(new, SLOWER, SLOW, 0.05)
    text = printed(Bisection("layer:overlay2", 0.05, good, (new,), (step,), FOUND, (new,)))
    assert text.startswith("first slow version: docker@29\n")
    assert text.split("\n\n")[1].split()[:2] == ["version", "slowdown"]


def test_without_a_slowdown_the_interval_is_shown() -> None:
    step = BisectionStep(COMMITS[3], NOT_SLOWER, SAME, 0.0125)
    text = printed(replace(FOUND_ONE, steps=(step,), result=NO_SLOWDOWN, suspects=()))
    assert text.startswith("no slowdown: b4 is less than 5 % slower than aaa0000 on layer:overlay2\n")
    assert "It costs +0.4 % [-2.0, +2.8] of durable time." in text and "lower --threshold" in text


@pytest.mark.parametrize(
    ("result", "step", "says"),
    [
        (
            INCONCLUSIVE,
            BisectionStep(COMMITS[1], UNDECIDED, Slowdown(UNDECIDED), 0.01, reason="the budget is spent"),
            "inconclusive: the first slow commit is one of 4: b2 stayed undecided, the budget is spent",
        ),
        (
            SEVERAL,
            BisectionStep(COMMITS[1], SKIPPED, Slowdown(UNDECIDED), 0.01, reason="run failed"),
            "first slow commit: one of 4, since those between can't be measured",
        ),
    ],
)
def test_several_suspects_are_listed(result: str, step: BisectionStep, says: str) -> None:
    text = printed(replace(FOUND_ONE, steps=(STEPS[0], step), result=result, suspects=COMMITS))
    assert text.startswith(says)
    assert "b1 2023-11-15 Change 1" in text and "b4 2023-11-18 Change 4" in text
    assert step.reason in text.split("\n\n")[1]


def test_an_undecided_bad_end_is_no_slowdown() -> None:
    step = BisectionStep(COMMITS[3], UNDECIDED, Slowdown(UNDECIDED), 0.01, reason="the budget is spent")
    text = printed(replace(FOUND_ONE, steps=(step,), result=INCONCLUSIVE, suspects=()))
    assert text.startswith("inconclusive: whether b4 is slower than aaa0000 stayed undecided, the budget is spent\n")
    assert "first slow" not in text and "Probability" not in text and "rounds in" not in text
    document = json.loads(
        find(BISECTION, "json").render(replace(FOUND_ONE, steps=(step,), suspects=(), result=INCONCLUSIVE))
    )
    assert (document["error"], document["rounds"], document["earlier"]) == (None, 0, 0)


def test_after_the_most_rounds_a_longer_budget_does_not_help() -> None:
    step = BisectionStep(COMMITS[1], UNDECIDED, Slowdown(UNDECIDED, 1.03, 0.97, 1.09, MOST_ROUNDS, "real"), 0.01)
    text = printed(replace(FOUND_ONE, steps=(STEPS[0], step), result=INCONCLUSIVE, suspects=COMMITS))
    assert "Next: use a larger --threshold, or a quieter machine and --restart" in text and "--budget" not in text


def test_a_hostile_subject_reaches_no_terminal() -> None:
    bad = replace(COMMITS[2], subject="\x1b[31mred")
    steps = (STEPS[0], STEPS[1], replace(STEPS[2], candidate=bad))
    text = printed(replace(FOUND_ONE, candidates=(*COMMITS[:2], bad, COMMITS[3]), steps=steps, suspects=(bad,)))
    assert "\x1b" not in text and "+10.2 %" in text
