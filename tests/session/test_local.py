"""A session is of one kernel and of one version of each engine, also where it is resumed."""

from dataclasses import replace

import pytest

from kit.core.errors import UsageError
from kit.model.fact import FILESYSTEM, PROGRAM, RUNNING_ENGINE, Fact, stored
from kit.session.setup.resumable import check_engines
from tests.stored import SAMPLE, SESSION

BEFORE = (PROGRAM.fact("20.10.24", "dockerd"), FILESYSTEM.fact("ext4 on loop", "ext4"))


@pytest.mark.promise("faults", "`--resume` mixes in no runs of another version of an engine.")
@pytest.mark.parametrize(
    ("before", "now"),
    [
        (PROGRAM.fact("20.10.24", "dockerd"), PROGRAM.fact("28.1.1", "dockerd")),
        (PROGRAM.fact("1.6.20", "containerd of docker@20.10"), PROGRAM.fact("1.7.0", "containerd of docker@20.10")),
        (RUNNING_ENGINE.fact("24.0.1", "docker"), RUNNING_ENGINE.fact("24.0.2", "docker")),
    ],
)
def test_an_engine_that_was_upgraded_is_named_and_its_runs_are_not_mixed_in(before: Fact, now: Fact) -> None:
    session = replace(SESSION, facts=stored([before]), samples=(SAMPLE,))
    with pytest.raises(UsageError) as found:
        check_engines(session, [now])
    assert found.value.message == f"session {session.id} ran with {now.key} {before.text}, here it is {now.text}"
    check_engines(session, [before])
    check_engines(replace(session, samples=()), [now])  # nothing ran with the other


def test_what_changes_from_start_to_start_does_not_keep_a_session_from_going_on() -> None:
    session = replace(SESSION, facts=stored(BEFORE), samples=(SAMPLE,))
    check_engines(session, [BEFORE[0], FILESYSTEM.fact("ext4 on loop, direct I/O", "ext4")])
    check_engines(session, [PROGRAM.fact("4.3.1", "podman")])
