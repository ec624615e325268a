"""What shells, ``time`` and ``perf stat`` print, in each form, alone and in logs."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import UsageError
from kit.extra.exchange.runs import form_names, read_runs
from kit.extra.exchange.runs.forms import FORMS, clock_seconds

BASH = "\nreal\t29m59.190s\nuser\t278m0.988s\nsys\t59m47.379s\n"
POSIX = "real 12.34\nuser 5.00\nsys 1.25\n"
GNU = """\
0.01user 0.02system 1:02.50elapsed 3%CPU (0avgtext+0avgdata 2048maxresident)k
0inputs+0outputs (3major+90minor)pagefaults 0swaps
"""
GNU_VERBOSE = """\
\tCommand being timed: "make -C "a b""
\tUser time (seconds): 12.50
\tSystem time (seconds): 3.25
\tPercent of CPU this job got: 78%
\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:02:03
\tMaximum resident set size (kbytes): 4096
\tAverage resident set size (kbytes): 0
\tMajor (requiring I/O) page faults: 7
\tMinor (reclaiming a frame) page faults: 99
\tVoluntary context switches: 2
\tInvoluntary context switches: 3
\tExit status: 0
"""
FISH = """\
________________________________________________________
Executed in   92.89 secs    fish           external
   usr time   54.47 mins   24.00 micros   54.47 mins
   sys time  863.00 millis  863.00 micros  862.14 millis
"""
BSD = """\
        1.23 real         0.45 user         0.12 sys
           5160960  maximum resident set size
                12  page reclaims
                 1  page faults
                 4  voluntary context switches
"""
PERF = """\
 Performance counter stats for 'sh -c make clean
make -j4':

          8,926.13 msec task-clock:u                     #      1.0 CPUs  CPUs_utilized         ( +-  0.01% )
   <not supported>      cycles

       2.500000000 seconds time elapsed

       2.000000000 seconds user
       0.400000000 seconds sys

"""
#: Each form once or more, and real, user and sys in seconds.
TEXTS: dict[str, tuple[str, tuple[float, ...]]] = {
    "bash": (BASH, (1799.190, 16680.988, 3587.379)),
    "bash, decimal comma": ("real 0m1,5s\nuser 0m0,25s\nsys 0m0,125s\n", (1.5, 0.25, 0.125)),
    "bash, TIMEFORMAT in one line": ("real 10.109 user 0.002 sys 0.001\n", (10.109, 0.002, 0.001)),
    "bash, TIMEFORMAT without fractions": ("real 0m12s\nuser 0m3s\nsys 0m0s\n", (12, 3, 0)),
    "posix": (POSIX, (12.34, 5.0, 1.25)),
    "busybox": ("real\t1h 2m 3s\nuser\t3m 37.95s\nsys\t0m 0.04s\n", (3723.0, 217.95, 0.04)),
    "ksh": ("real\t0m00.30s\nuser\t0m00.04s\nsys\t0m00.01s\n", (0.3, 0.04, 0.01)),
    "gnu": (GNU, (62.5, 0.01, 0.02)),
    "gnu, hours": ("1.00user 2.00system 49:02:03elapsed 0%CPU (0avgtext+0avgdata 0maxresident)k\n", (176523, 1, 2)),
    "gnu, no time at all": ("0.00user 0.00system 0:00.00elapsed ?%CPU (0avgtext+0avgdata 2maxresident)k\n", (0, 0, 0)),
    "gnu, -f of its manual": ("\t0:10.50 real,\t0.40 user,\t0.02 sys\n", (10.5, 0.4, 0.02)),
    "gnu, -f in lines": ("real 1:02:03\nuser 0.45\nsys 0.12\n", (3723, 0.45, 0.12)),
    "gnu-verbose": (GNU_VERBOSE, (3723.0, 12.5, 3.25)),
    "gnu-verbose of busybox": (GNU_VERBOSE.replace("1:02:03", "1h 2m 3s"), (3723.0, 12.5, 3.25)),
    "gnu-verbose of toybox": (
        "Real time (s): 0.138930\nUser time (s): 0.010000\nSystem time (s): 0.001824\n", (0.13893, 0.01, 0.001824)
    ),
    "zsh": ("podman build .  36.46s user 18.69s system 105% cpu 52.057 total\n", (52.057, 36.46, 18.69)),
    "zsh, hours": ("make -j8  7200.46s user 18.69s system 105% cpu 1:02:03.04 total\n", (3723.04, 7200.46, 18.69)),
    "zsh, decimal comma": ("make -j8  36,46s user 18,69s system 105% cpu 52,057 total\n", (52.057, 36.46, 18.69)),
    "zsh, TIMEFMT": ("make   36.46s  user 18.69s system 105% cpu 52.057 total\nmax memory: 1 KB\n",
                     (52.057, 36.46, 18.69)),
    "zsh, TIMEFMT in lines": ("real\t108ms\nuser\t2093us\nsys\t0.00s\n", (0.108, 0.002093, 0)),
    "fish": (FISH, (92.89, 3268.2, 0.863)),
    "tcsh": ("12.5u 3.2s 1:20.13 78.0% 0+0k 120+8io 3pf+0w\n", (80.13, 12.5, 3.2)),
    "tcsh, no more": ("0.1u 0.0s 0:01.25\n", (1.25, 0.1, 0.0)),
    "tcsh, hours": ("12.5u 3.2s 1:02:03.00 78.0%\t0+0k 120+8io 3pf+0w\n", (3723, 12.5, 3.2)),
    "mksh": ("    0m14.18s real     0m10.30s user     0m02.36s system\n", (14.18, 10.3, 2.36)),
    "bsd": (BSD, (1.23, 0.45, 0.12)),
    "bsd -h": ("\t1h2m3.50s real\t\t1m0.45s user\t\t0.12s sys\n", (3723.5, 60.45, 0.12)),
    "perf-stat": (PERF, (2.5, 2.0, 0.4)),
    "perf-stat -p": (" Performance counter stats for process id '4242':\n\n  5.006 seconds time elapsed\n", (5.006,)),
    "perf-stat -a": (" Performance counter stats for 'system wide':\n\n  5.5 seconds time elapsed\n", (5.5,)),
    "perf-stat -r, no blank": (
        "Performance counter stats for 'make' (5 runs):\n\n1.75 +- 0.01 seconds time elapsed  ( +-  0.74% )\n", (1.75,)
    ),
    "measure-command": (
        "Seconds           : 1\nMilliseconds      : 234\nTotalSeconds      : 1,23\nTotalMilliseconds : 12\n", (1.23,)
    ),
    "slashes": ("32m21.074s / 281m53.994s / 68m45.554s\n", (1941.074, 16913.994, 4125.554)),
}  # fmt: skip
PREFIXES = (
    "", "2026-05-01T10:00:00.1234567Z ", "[2026-05-01T10:00:00.123Z] ", "2026-05-01 10:00:00,123 INFO ",
    "2026-05-01T10:00:00.123456Z 00O ", "2026-05-01T10:00:00.123456Z 01E+", "2026-05-01T10:00:00+0200 host make[123]: ",
    "May 01 10:00:00 host make[123]: ", "#9 12.34 ", "#12 0.412 ", "[12:34:56] ", "12:34:56  ",
    "[10:00:00]W:\t [Step 1/3] ",
    "[10:00:00][Step 1/3] ", "web_1  | ", "web-1  | ", "\x1b[33mbuild-1  |\x1b[0m ", "> ", "+ ", "    ", "\x1b[0;32m",
    "[pod/builder-x2/main] ", "2026-05-01T10:00:00.123456789Z stderr F ",
    "job\tRun make\t2026-05-01T10:00:00.1234567Z ",
    "[INFO] ", "[ 12.345678] ", "section_end:1560896352:build_script\r\x1b[0K", "> > ",
)  # fmt: skip
HARMLESS = (
    "cc -O2 -c -o build/user.o /usr/src/system/user.c", "make[1]: Entering directory '/usr/src'", "11/28/2026", "100%",
    "real problems are rare", "the system has 12 users", "Downloading 12.3 MB in 4.5 s", "[ 50%] Building C object a.o",
    "Tests run: 5, Failures: 0, Time elapsed: 0.5 s - in FooTest", "[INFO] Total time:  01:23 min",
    "USER 1000", "adduser: user build added", "1.5 / 2.0 / 3.0", "Step 3/7 : RUN make", "100.0%", '{"level": "info"}',
    "rtt min/avg/max/mdev = 0.1/0.2/0.3/0.0 ms", "Total Test time (real) =  12.34 sec", "3 passed in 0.12s", "a | b",
    "real-time clock: 12:34:56", "load average: 0.50, 0.40, 0.30", "usr/bin/time", "time make -j4",
)  # fmt: skip


def figures(text: str, form: str = "") -> list[tuple[float, ...]]:
    return [
        tuple(run.figures[key] for key in ("real", "user", "sys") if key in run.figures)
        for run in read_runs(text, "f", form)
    ]


@pytest.mark.parametrize("form", TEXTS)
def test_reads_every_form(form: str) -> None:
    text, seconds = TEXTS[form]
    assert figures(text) == [pytest.approx(seconds)]
    assert figures(text.replace("\n", "\r\n")) == [pytest.approx(seconds)]
    assert figures("some output\n" + text + text + "more\n") == [pytest.approx(seconds)] * 2
    name = form.split(",")[0].split()[0]
    if name in form_names() and "-f" not in form and "TIME" not in form:
        assert figures(text, name) == [pytest.approx(seconds)]
        assert name in read_runs(text, "f")[0].form.split("/")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("form", TEXTS)
def test_reads_every_form_behind_every_prefix(form: str, prefix: str) -> None:
    text, seconds = TEXTS[form]
    assert figures("".join(f"{prefix}{line}\n" for line in text.split("\n"))) == [pytest.approx(seconds)]


def test_every_row_is_tried() -> None:
    assert {name for form in FORMS for name in form.names} - {"dash"} <= {form.split()[0].strip(",") for form in TEXTS}


@given(
    st.lists(
        st.one_of(
            st.sampled_from(HARMLESS), st.text(st.characters(codec="ascii", categories=["L", "P"]), max_size=20),
            st.sampled_from(list(TEXTS)).map(lambda form: (form,)),
        ),
        max_size=12,
    ),
    st.data(),
)  # fmt: skip
def test_the_runs_of_a_log_are_read_in_order_and_no_other(parts: list[str | tuple[str]], data: st.DataObject) -> None:
    lines, expected = [], []
    prefix = data.draw(st.sampled_from(PREFIXES))
    for part in parts:
        if data.draw(st.booleans()):
            prefix = data.draw(st.sampled_from(PREFIXES))
        if isinstance(part, tuple):
            text, seconds = TEXTS[part[0]]
            expected.append(pytest.approx(seconds))
        else:
            text = part
        lines += [prefix + line for line in text.split("\n")]
    log = data.draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    if expected:
        assert figures(log) == expected
    else:
        with pytest.raises(UsageError, match="f: no timed run in it"):
            read_runs(log, "f")


def test_figures_beside_the_times() -> None:
    (run,) = read_runs(GNU_VERBOSE, "f")
    assert (run.name, run.error) == ('make -C "a b"', "")
    assert {name: run.figures[name] for name in run.figures if name not in ("real", "user", "sys")} == {
        "max_rss": 4096 * 1024, "major_faults": 7, "minor_faults": 99, "voluntary_switches": 2,
        "involuntary_switches": 3,
    }  # fmt: skip
    (short,) = read_runs(GNU, "f")
    assert (short.figures["max_rss"], short.figures["major_faults"], short.figures["minor_faults"]) == (
        2048 * 1024,
        3,
        90,
    )
    (bsd,) = read_runs(BSD, "f")  # memory is in bytes of macOS and kilobytes of FreeBSD: it can't be known
    assert (bsd.figures["minor_faults"], bsd.figures["major_faults"], "max_rss" in bsd.figures) == (12, 1, False)


def test_a_figure_belongs_to_the_run_that_has_it() -> None:
    less = GNU_VERBOSE.replace("\tMaximum resident set size (kbytes): 4096\n", "")
    assert ["max_rss" in run.figures for run in read_runs(GNU_VERBOSE + less + BASH + GNU, "f")] == [
        True,
        False,
        False,
        True,
    ]


def test_names() -> None:
    zsh = "podman build .  36.46s user 18.69s system 105% cpu 52.057 total\n"
    assert [run.name for run in read_runs(PERF + zsh + POSIX, "f")] == [
        "sh -c make clean make -j4",
        "podman build .",
        "",
    ]
    two_lines = GNU_VERBOSE.replace('make -C "a b"', "sh -c make clean\nmake -j4")
    assert read_runs(two_lines, "f")[0].name == "sh -c make clean make -j4"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (f"Command exited with non-zero status 2\n{GNU}", ["exit code 2"]),
        (f"Command exited with non-zero status 1\n{POSIX}", ["exit code 1"]),
        (f"Command terminated by signal 9\n{GNU}", ["ended by signal 9"]),
        (f"Command terminated by signal 9\n{GNU_VERBOSE}", ["ended by signal 9"]),  # which says Exit status: 0
        (f"Command terminated by signal 9\n{GNU_VERBOSE}".replace("\n", "\r\n"), ["ended by signal 9"]),
        (GNU_VERBOSE.replace("status: 0", "status: 2") + GNU_VERBOSE, ["exit code 2", ""]),
        (f"make: *** [all] Error 2\nCommand exited with non-zero status 2\n{GNU}", ["exit code 2"]),
        (f"time: command terminated abnormally\n{BSD}", ["time: command terminated abnormally"]),
        (f"bash: line 1: 11662 Killed                  sh -c 'kill -9 $$'\n{BASH}", ["ended by signal 9"]),
        (f"./run.sh: line 3:  1234 Segmentation fault      (core dumped) ./a.out\n{BASH}", ["ended by signal 11"]),
        (f"zsh: killed     make\nmake  1.0s user 1.0s system 10% cpu 2.0 total\n{POSIX}", ["ended by signal 9", ""]),
        ("Killed \n    0m00.02s real     0m00.00s user     0m00.00s system\n", ["ended by signal 9"]),
        (f"ksh93: 11807: Killed\n{BASH}", ["ended by signal 9"]),
        (f"sh: Terminated\n\n{PERF}", ["ended by signal 15"]),
        (f"make: *** [Makefile:5: all] Error 1\n{BASH}", ["make: *** [Makefile:5: all] Error 1"]),
        (f"{POSIX}make: *** [Makefile:2: all] Error 2\n", ["exit code 2"]),  # of a recipe's time
        (f"{POSIX}cc -c b.c\nmake[1]: *** [Makefile:2: all] Error 2\n", [""]),
        (f"Killed\nthe next command\n{BASH}", [""]),
        (f"{POSIX}##[error]Process completed with exit code 2.\n", ["exit code 2"]),
        (f"{POSIX}\nexit code: 137\n{POSIX}exit status 0\n", ["exit code 137", ""]),
        (f"{POSIX}another command\nexit code 2\n", [""]),
        (f"{POSIX}HTTP status 200\n", [""]),
        (f"{POSIX}The command '/bin/sh -c time make' returned a non-zero code: 2\n", ["exit code 2"]),
        ("Exit 2\n12.5u 3.2s 0:20.13 78.0% 0+0k 120+8io 3pf+0w\n", ["exit code 2"]),  # of tcsh's printexitvalue
        (f"hello worldCommand exited with non-zero status 2\n{POSIX}", ["exit code 2"]),
    ],
)
def test_a_run_that_failed_is_read_as_failed(text: str, errors: list[str]) -> None:
    for prefix in ("", "2026-05-01T10:00:00Z ", "#9 12.34 "):
        assert [
            run.error for run in read_runs("".join(f"{prefix}{line}\n" for line in text.split("\n")), "f")
        ] == errors


def test_outputs_beside_each_other_are_kept_apart() -> None:
    log = "#9 1.0 real 1.0\n#10 1.1 Command exited with non-zero status 3\n#10 1.1 real 2.0\n#9 1.2 user 0.1\n"
    log += "#10 1.2 user 0.2\n#9 1.3 sys 0.01\n#10 1.3 sys 0.02\n"
    assert figures(log) == [(1.0, 0.1, 0.01), (2.0, 0.2, 0.02)]
    assert [run.error for run in read_runs(log, "f")] == ["", "exit code 3"]
    log = "".join(f"a-1  | {line}\nb-1   | {line}\n" for line in POSIX.splitlines()) + "a-1 exited with code 137\n"
    assert [run.error for run in read_runs(log, "f")] == ["exit code 137", ""]


def test_a_step_that_buildkit_repeats_is_one_run() -> None:
    lines = ["cc -c a.c", "", "real\t0m11.902s", "user\t0m9.100s", "sys\t0m2.300s"]
    log = "#9 [4/5] RUN time make\n" + "".join(f"#9 12.34 {line}\n" for line in lines)
    log += '#9 ERROR: process "/bin/sh -c time make" did not complete successfully: exit code: 2\n------\n'
    log += " > [4/5] RUN time make:\n" + "".join(f"12.34 {line}\n" for line in lines) + "------\nDockerfile:4\n"
    assert [(run.figures["real"], run.error) for run in read_runs(log, "f")] == [(11.902, "exit code 2")]
    assert len(read_runs(log[log.index("------") :], "f")) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("real 1.0\nuser 2.0\n", "f, line 1: a run without sys: 'real 1.0'"),
        ("x\nreal 1.0\nreal 2.0\nuser 1\nsys 1\n", "f, line 2: a run without user and sys: 'real 1.0'"),
        (POSIX + "user 2.0\n", "f, line 4: a run without real and sys"),
        (POSIX + "who knows: real\t0m3.2s\n", "f, line 4: looks like the time of a run"),
        (POSIX + "Elapsed time: 12.3 s\n", "f, line 4: looks like the time of a run"),
        (POSIX + "1.2s user, 3.4s system, 10 s in all\n", "f, line 4: looks like the time of a run"),
        (POSIX + "ran 10.01user 0.02system soon\n", "f, line 4: looks like the time of a run"),
        (POSIX + "TotalSeconds      : 1.062,5\n", "f, line 4: looks like the time of a run"),
        (POSIX + "| real | 0m1.2s |\n", "f, line 4: looks like the time of a run"),
        (POSIX + "Command exited with non-zero status 1\n", "f, line 4: no time of that run follows"),
        (" Performance counter stats for 'make':\n\n", "f, line 1: a run without real"),
        ('{"counter-value" : "1.0", "unit" : "msec", "event" : "task-clock"}\n', "f, line 1: the form of perf stat -j"),
        ("# started\n\n1.9,msec,task-clock,13979,100.00,0.990,CPUs utilized\n", "f, line 3: the form of perf stat -x"),
        ("S0;4;1.9;msec;task-clock;13979;100.00;;\n", "f, line 1: the form of perf stat -x"),
        ("1397,97;msec;task-clock:u;0,5%;13979;100,00;0,990;CPUs utilized\n", "f, line 1: the form of perf stat -x"),
        ("#           time             counts unit events\n", "f, line 1: the form of perf stat -I"),
        (
            "  Time (mean ± σ):     1.2 s ±  0.1 s    [User: 1.1 s, System: 0.1 s]\n",
            "f, line 1: the form of hyperfine's",
        ),
        (
            'Benchmark\n{"results": [{"command": "a", "mean": 1}]}\nend\n',
            "f: JSON of hyperfine begins at line 2 and ends at",
        ),
        ("11/28/2026\n11:28:20 / 12:00:00 / 13:00:00\n", "f: no timed run in it"),
    ],
)
def test_what_is_not_read_is_named(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_runs(text, "f")
    assert caught.value.message.startswith(says)


def test_one_form_alone() -> None:
    log = POSIX + GNU + "Elapsed time: 12.3 s\n"
    assert figures(log, "posix") == [(12.34, 5.0, 1.25)]
    assert figures(log, "gnu") == [(62.5, 0.01, 0.02)]
    with pytest.raises(UsageError, match="f: no timed run of zsh in it"):
        read_runs(log, "f", "zsh")
    with pytest.raises(UsageError, match="unknown format 'nosuch'"):
        read_runs(log, "f", "nosuch")


def test_clocks() -> None:
    assert clock_seconds("1d2h3m4.5s") == 93784.5
    for text in ("soon", "1:2:3:4", "1234567890.5", "", "-1"):
        with pytest.raises(UsageError, match="not a time"):
            clock_seconds(text)


#: Programs that time a shell's command, each with the form that it prints.
PROGRAMS = {
    "bash": ("bash", ["bash", "-c", "time sh -c '{}'"]),
    "bash -p": ("posix", ["bash", "-c", "time -p sh -c '{}'"]),
    "bash TIMEFORMAT": ("bash", ["bash", "-c", "TIMEFORMAT='real %3lR user %3lU sys %3lS'; time sh -c '{}'"]),
    "time": ("gnu", ["time", "sh", "-c", "{}"]),
    "time -v": ("gnu-verbose", ["time", "-v", "sh", "-c", "{}"]),
    "time -f": ("bsd", ["time", "-f", "%E real, %U user, %S sys", "sh", "-c", "{}"]),
    "dash": ("gnu", ["dash", "-c", "command time sh -c '{}'"]),
    "busybox": ("busybox", ["busybox", "time", "sh", "-c", "{}"]),
    "busybox -p": ("posix", ["busybox", "time", "-p", "sh", "-c", "{}"]),
    "busybox -v": ("gnu-verbose", ["busybox", "time", "-v", "sh", "-c", "{}"]),
    "zsh": ("zsh", ["zsh", "-fc", "time sh -c '{}'"]),
    "fish": ("fish", ["fish", "--no-config", "-c", "time sh -c '{}'"]),
    "tcsh": ("tcsh", ["tcsh", "-fc", "time sh -c '{}'"]),
    "mksh": ("mksh", ["mksh", "-c", "time sh -c '{}'"]),
    "ksh93": ("ksh", ["ksh93", "-c", "time sh -c '{}'"]),
    "toybox -v": ("gnu-verbose", ["toybox", "time", "-v", "sh", "-c", "{}"]),
    "perf": ("perf-stat", ["perf", "stat", "sh", "-c", "{}"]),
    "perf -r --table": ("perf-stat", ["perf", "stat", "-r", "2", "--table", "sh", "-c", "{}"]),
}
#: Which of them say how a command ended.
SAY_SIGNALS = {"time", "time -v", "busybox", "busybox -p", "bash", "tcsh", "mksh", "ksh93", "perf"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_itself(program: str) -> None:
    form, words = PROGRAMS[program]
    needed = ["time", words[0]] if program == "dash" else [words[0]]
    for name in needed:
        if not shutil.which(name):
            pytest.skip(f"needs {name}")
    for script, error in (("sleep 0.2", ""), ("kill -9 $$", "ended by signal 9")):
        if error and program not in SAY_SIGNALS:
            continue
        command = [word.replace("{}", script) for word in words]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        for _ in range(20):
            if not (error and program.startswith("perf")) or "Killed" in done.stdout:
                break
            # perf forgets its child in the handler of SIGCHLD. Where that comes before wait4, it says no signal.
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if program.startswith("perf") and "Performance counter" not in done.stdout:
            pytest.skip(f"needs performance counters: {done.stdout[:200]}")
        runs = read_runs(done.stdout, program)
        assert len(runs) == (2 if "-r" in words else 1)
        for run in runs:
            assert run.error == error and form in run.form.split("/")
            assert error or run.figures["real"] >= 0.19
