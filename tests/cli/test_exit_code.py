"""Exit codes of sessions: what fails them, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.cli.compare import exit_code
from kit.core.errors import BusyError, KitError, RunError
from kit.core.exit_code import BUSY, DONE, FAILED, MEANINGS, NOT_RUN, USAGE, worst
from kit.model.sample import Sample
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
    assert exit_code(replace(BLOCKED, request=Request(arms=named)), named) == code


def test_arms_are_named_with_the_engine_of_the_session() -> None:
    session = replace(
        WHOLE, request=Request(engine="docker@29"), not_run=(NotRun("layer:docker@29/aufs", "no", "none"),)
    )
    assert exit_code(session, ("layer:aufs",)) == NOT_RUN


def test_a_baseline_that_was_named_is_missed_too() -> None:
    request = Request(arms=("layer:overlay2",), baseline="layer:aufs")
    assert exit_code(replace(BLOCKED, request=request), request.arms) == NOT_RUN


def test_a_failed_run_says_more_than_an_arm_that_did_not_run() -> None:
    session = replace(BLOCKED, samples=(*BLOCKED.samples, FAILING))
    assert exit_code(session, ("layer:aufs",)) == FAILED
    assert worst((NOT_RUN, FAILED, DONE)) == FAILED and worst(()) == DONE


def test_a_session_of_which_nothing_is_stored_or_ran_failed() -> None:
    assert exit_code(replace(WHOLE, status=LOST), ("bare",)) == FAILED
    nothing = replace(BLOCKED, status=LOST, samples=(), arms=("layer:aufs",), baselines=())
    assert exit_code(nothing, ()) == FAILED
    assert exit_code(nothing, ("layer:aufs",)) == NOT_RUN


def test_the_codes_of_errors_are_codes_of_the_table() -> None:
    assert (KitError.exit_code, RunError.exit_code, BusyError.exit_code) == (USAGE, FAILED, BUSY)
    assert len({short for short, _ in MEANINGS.values()}) == len(MEANINGS)
