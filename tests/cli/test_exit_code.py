"""Exit codes of sessions: what fails them, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.core.errors import BusyError, KitError, RunError
from kit.core.exit_code import BUSY, DONE, FAILED, MEANINGS, NOT_RUN, USAGE, worst
from kit.extra.history.analysis.night import Part, Task
from kit.model.sample import Sample
from kit.model.session import DONE as COMPLETE
from kit.model.session import FAILED as LOST
from kit.model.session import NotRun, Request
from tests.nights import night

WHOLE = night(1, 0.05)
BLOCKED = replace(WHOLE, not_run=(NotRun("layer:aufs", "the kernel lacks aufs", "load it"),))
FAILING = Sample("bare", 4, "measured", "failed", 0.0, (), error="no")


@pytest.mark.parametrize(
    "named, code",
    [
        ((), DONE),  # the default arms: those that run here
        (("bare", "layer:overlay2"), DONE),
        (("bare", "layer:aufs"), NOT_RUN),
        (("layer:aufs@ext4",), NOT_RUN),  # as a user may write it
    ],
)
def test_only_an_arm_that_was_named_is_missed(named: tuple[str, ...], code: int) -> None:
    assert replace(BLOCKED, request=Request(arms=named)).exit_code(named) == code


def test_arms_are_named_with_the_engine_of_the_session() -> None:
    session = replace(
        WHOLE, request=Request(engine="docker@29"), not_run=(NotRun("layer:docker@29/aufs", "no", "none"),)
    )
    assert session.exit_code(("layer:aufs",)) == NOT_RUN


def test_a_baseline_that_was_named_is_missed_too() -> None:
    request = Request(arms=("layer:overlay2",), baseline="layer:aufs")
    assert replace(BLOCKED, request=request).exit_code(request.arms) == NOT_RUN


def test_a_failed_run_says_more_than_an_arm_that_did_not_run() -> None:
    session = replace(BLOCKED, samples=(*BLOCKED.samples, FAILING))
    assert session.exit_code(("layer:aufs",)) == FAILED
    assert worst((NOT_RUN, FAILED, DONE)) == FAILED and worst(()) == DONE


def test_a_session_of_which_nothing_is_stored_or_ran_failed() -> None:
    assert replace(WHOLE, status=LOST).exit_code(("bare",)) == FAILED
    nothing = replace(BLOCKED, status=LOST, samples=(), arms=("layer:aufs",), baselines=())
    assert nothing.exit_code(()) == FAILED
    assert nothing.exit_code(("layer:aufs",)) == NOT_RUN


def test_a_task_of_a_night_has_the_code_of_its_session() -> None:
    request = Request(arms=("layer:aufs",))
    nothing = replace(BLOCKED, status=LOST, samples=(), arms=("layer:aufs",), baselines=(), request=request)
    failed = replace(BLOCKED, samples=(*BLOCKED.samples, FAILING), request=request)
    for session in (nothing, failed, replace(nothing, request=Request()), replace(BLOCKED, request=request), WHOLE):
        error = "" if session.status == COMPLETE and not session.failed else "why"
        part = Part(Task(session.request), session, error=error)
        assert part.exit_code == session.exit_code(session.request.arms)


def test_a_task_fails_that_is_missing_or_whose_history_is() -> None:
    assert Part(Task(Request()), error="no machine").exit_code == NOT_RUN
    assert Part(Task(Request()), WHOLE, error="not compared with its history").exit_code == FAILED


def test_the_codes_of_errors_are_codes_of_the_table() -> None:
    assert (KitError.exit_code, RunError.exit_code, BusyError.exit_code) == (USAGE, FAILED, BUSY)
    assert len({short for short, _ in MEANINGS.values()}) == len(MEANINGS)
