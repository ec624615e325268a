import pytest

from kit.cli.timeoutput import clock_seconds, parse_time_output
from kit.core.errors import UsageError

BASH = "some build output\n\nreal\t29m59.190s\nuser\t278m0.988s\nsys\t59m47.379s\n"
POSIX = "real 12.34\nuser 5.00\nsys 1.25\n"
GNU_SHORT = "0.01user 0.02system 1:02.50elapsed 3%CPU (0avgtext+0avgdata 2048maxresident)k\n0inputs+0outputs\n"
GNU_VERBOSE = """\
\tCommand being timed: "make"
\tUser time (seconds): 12.50
\tSystem time (seconds): 3.25
\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:02:03
\tMaximum resident set size (kbytes): 4096
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
    (phase,) = parse_time_output(text, "f")
    assert (phase.real, phase.user, phase.sys) == pytest.approx(figures)


def test_max_rss_and_several_runs() -> None:
    assert parse_time_output(GNU_VERBOSE, "f")[0].max_rss == 4096 * 1024
    assert [phase.real for phase in parse_time_output(POSIX + POSIX.replace("12.34", "13"), "f")] == [12.34, 13.0]


def test_errors() -> None:
    with pytest.raises(UsageError, match="f: no output of `time`"):
        parse_time_output("hello", "f")
    with pytest.raises(UsageError, match="unequal numbers"):
        parse_time_output("real 1.0\nuser 2.0\n", "f")
    with pytest.raises(UsageError, match="not a time"):
        clock_seconds("soon")
