"""What ``time`` prints, in each of its forms."""

import pytest

from kit.core.errors import UsageError
from kit.parsers.runs import read_runs
from kit.parsers.runs.time_output import clock_seconds, read_time_output

BASH = "some build output\n\nreal\t29m59.190s\nuser\t278m0.988s\nsys\t59m47.379s\n"
POSIX = "real 12.34\nuser 5.00\nsys 1.25\n"
GNU_SHORT = "0.01user 0.02system 1:02.50elapsed 3%CPU (0avgtext+0avgdata 2048maxresident)k\n0inputs+0outputs\n"
GNU_VERBOSE = """\
\tCommand being timed: "make -C "a b""
\tUser time (seconds): 12.50
\tSystem time (seconds): 3.25
\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:02:03
\tMaximum resident set size (kbytes): 4096
\tMajor (requiring I/O) page faults: 7
\tMinor (reclaiming a frame) page faults: 99
\tVoluntary context switches: 2
\tInvoluntary context switches: 3
\tExit status: 0
"""


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        (BASH, (1799.190, 16680.988, 3587.379)),
        (POSIX, (12.34, 5.0, 1.25)),
        (GNU_SHORT, (62.5, 0.01, 0.02)),
        (GNU_VERBOSE, (3723.0, 12.5, 3.25)),
        ("32m21.074s / 281m53.994s / 68m45.554s\n", (1941.074, 16913.994, 4125.554)),
        ("real 0m1,5s\nuser 0m0,25s\nsys 0m0,125s\n", (1.5, 0.25, 0.125)),
    ],
)
def test_reads_every_form(text: str, figures: tuple[float, float, float]) -> None:
    (run,) = read_time_output(text, "f")
    assert [run.figures[name] for name in ("real", "user", "sys")] == pytest.approx(figures)


def test_figures_beside_the_times() -> None:
    (run,) = read_time_output(GNU_VERBOSE, "f")
    assert (run.name, run.error) == ('make -C "a b"', "")
    assert {name: run.figures[name] for name in run.figures if name not in ("real", "user", "sys")} == {
        "max_rss": 4096 * 1024, "major_faults": 7, "minor_faults": 99, "voluntary_switches": 2,
        "involuntary_switches": 3,
    }  # fmt: skip
    assert read_time_output(GNU_SHORT, "f")[0].figures["max_rss"] == 2048 * 1024


def test_several_runs_of_a_file() -> None:
    failed = "Command exited with non-zero status 2\n" + GNU_VERBOSE.replace("status: 0", "status: 2")
    runs = read_time_output(GNU_VERBOSE + failed.replace("4096", "8192"), "f")
    assert [(run.figures["max_rss"], run.error) for run in runs] == [(4096 * 1024, ""), (8192 * 1024, "exit code 2")]
    assert [run.figures["real"] for run in read_time_output(POSIX + POSIX.replace("12.34", "13"), "f")] == [12.34, 13.0]


def test_a_run_that_a_signal_ended_has_failed() -> None:
    """GNU time says Exit status: 0 of it."""
    runs = read_time_output(GNU_VERBOSE + "Command terminated by signal 9\n" + GNU_VERBOSE, "f")
    assert [run.error for run in runs] == ["", "ended by a signal"]


def test_what_not_every_run_has_belongs_to_none() -> None:
    less = GNU_VERBOSE.replace("\tMaximum resident set size (kbytes): 4096\n", "")
    assert not any("max_rss" in run.figures for run in read_time_output(GNU_VERBOSE + less, "f"))


def test_errors() -> None:
    with pytest.raises(UsageError, match="f: no timed run"):
        read_runs("hello", "f")
    with pytest.raises(UsageError, match="unequal numbers"):
        read_time_output("real 1.0\nuser 2.0\n", "f")
    with pytest.raises(UsageError, match="not a time"):
        clock_seconds("soon")
