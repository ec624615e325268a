"""What an arm itself does and says of phases: it may rehearse them, and report on each."""

import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kit.arms.engines.sandbox import Invocation, Sandbox
from kit.arms.filesystem import Backing
from kit.arms.probe import Probe
from kit.model.sample import Phase
from kit.model.scenario import Command, Scenario
from kit.session.measure.phase_log import PhaseLog
from kit.session.measure.workload import Workload

BUILD = """\
{0}.000000 kit-build began
{0}.500000 Step 1/2 : COPY . /
{0}.600000 Step 2/2 : RUN ["/kit-control/kit-probe", "step", "/build", "make"]
{0}.700000 kit-step began {0}.700000000
{0}.900000 kit-step ended {0}.900000000
{0}.950000 kit-build ended
kit-build size 1000000
"""
MAKE = Command("make", ("make", "-C", "{tree}"), "src")


def sandbox(directory: Path) -> Sandbox:
    backing = Backing("fake", directory, "fake", "fake", "", None)
    return Sandbox("/t", "/i", None, backing, Probe(socket.socket()), lambda path: None, lambda: "", {"A": "b"}, 3, 4)


def test_an_arm_that_rehearses_gets_the_commands_of_all_phases(tmp_path: Path) -> None:
    got: list[Sequence[Invocation]] = []
    workload = Workload(Scenario("s", "", "", (MAKE, Command("clean", ("rm", "x")))), None, ())
    workload.rehearse(sandbox(tmp_path))
    workload.rehearse(replace(sandbox(tmp_path), rehearsal=lambda steps, deadline, alive: got.append(steps)))
    assert got == [
        [
            Invocation(("make", "-C", "/t"), "/t/src", {"A": "b"}, 3, 4),
            Invocation(("rm", "x"), "/t", {"A": "b"}, 3, 4),
        ]
    ]
    assert got[0][0].user == "3:4"


def test_what_the_arm_reports_follows_what_the_phase_reports(tmp_path: Path) -> None:
    with PhaseLog(tmp_path / "log") as log:
        log.output.write(b"kit: speed = 7 MB/s, more is better\n")
        arm = replace(sandbox(tmp_path), report_format="build-steps", report=lambda: BUILD.format(int(log.began)))
        step = replace(MAKE, report="lines")
        workload = Workload(Scenario("s", "", "", (step,)), None, ())
        phase, error = workload.read(step, Phase("make", "ok"), arm, log)
        assert error == ""
        names = [figure.name for figure in phase.reported]
        assert names == [
            "speed", "build: context", "build: copy", "build: start", "build: run", "build: commit", "image size",
        ]  # fmt: skip
        assert phase.tasks == ()
        frozen, _ = workload.read(step, Phase("make", "ok"), arm, log, lambda at: 0.0)
        assert {figure.value for figure in frozen.reported[1:-1]} == {0.0}  # it did not run meanwhile


def test_a_figure_with_the_name_of_a_metric_fails_the_phase(tmp_path: Path) -> None:
    """Else nobody could tell which of the two is shown."""
    with PhaseLog(tmp_path / "log") as log:
        log.output.write(b"kit: flush = 180 ms\n")
        step = replace(MAKE, report="lines")
        workload = Workload(Scenario("s", "", "", (step,)), None, ())
        phase, error = workload.read(step, Phase("make", "ok"), sandbox(tmp_path), log)
    assert error == (
        "make: the figures that it reports can't be read as lines: 'flush' is the name of a metric: rename it"
    )
    assert phase.reported == ()


def test_a_report_of_the_arm_that_cannot_be_read_fails_the_phase(tmp_path: Path) -> None:
    with PhaseLog(tmp_path / "log") as log:
        arm = replace(sandbox(tmp_path), report_format="build-steps", report=lambda: "1.0 kit-build began")
        workload = Workload(Scenario("s", "", "", (MAKE,)), None, ())
        _, error = workload.read(MAKE, Phase("make", "ok"), arm, log)
    assert error.startswith("make: the figures that it reports can't be read as build-steps: the build's output has no")
