"""The reader of bitbake's buildstats, against poky's own: the same tasks, the same CPU, the same elapsed time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.parsers import Report, parse_report
from kit.parsers.task import BuildTask
from tests.inputs import given
from tests.strategies import BUILDSTATS

BUILD = "20261122064250"
TASK = """Event: TaskStarted
Started: {started:.2f}
{recipe}: do_{kind}
Elapsed time: {elapsed:.2f} seconds
utime: 2
stime: 1
cutime: 220
cstime: 33
IO rchar: 1186346
IO read_bytes: {read}
IO write_bytes: 4096
rusage ru_utime: {cpu:.6f}
rusage ru_stime: 0.01
rusage ru_maxrss: 61440
Child rusage ru_utime: {child:.6f}
Child rusage ru_stime: 0.33
Child rusage ru_maxrss: 49152
Status: PASSED
Ended: {ended:.2f}
"""


def write_build(directory: Path, factor: float) -> Path:
    """Buildstats as bitbake leaves them, in which everything took ``factor`` times as long as it might."""
    build = directory / "build/tmp/buildstats" / BUILD
    for place, name in enumerate(("zip-native-3.0-r2", "unzip-native-1_6.0-r5", "base-files-v2_3-r0")):
        for kind, elapsed in (("unpack", 0.11), ("compile", 3.5), ("populate_sysroot_setscene", 0.4)):
            started = 1795258002.13 + place
            file = build / name / f"do_{kind}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                TASK.format(
                    recipe=name, kind=kind, started=started, elapsed=elapsed * factor, ended=started + elapsed * factor,
                    read=4096 * place, cpu=0.0123 * factor, child=elapsed * factor,
                )
            )  # fmt: skip
    (build / "build_stats").write_text("Build Started: 1795258000.00 \nElapsed time: 9.00 seconds \n")
    return build


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """poky's."""
    names = "scripts/buildstats-diff", "scripts/lib/buildstats.py"
    argv = ["tar", "--zstd", "-xf", str(given("poky-scarthgap-5.0.15.tar.zst")), "-C", str(tmp_path), *names]
    subprocess.run(argv, check=True)
    return tmp_path / "scripts"


def read(build: Path) -> tuple[BuildTask, ...]:
    said = subprocess.run(["grep", "-r", "", "."], cwd=build, capture_output=True, text=True, check=True).stdout
    return parse_report("buildstats", said).tasks


def test_a_task_of_the_lines_that_yocto_sh_prints() -> None:
    found = parse_report("buildstats", f"noise\n{BUILDSTATS}").since(1795258000.0)
    (task,) = found.tasks
    assert (task.kind, task.recipe, task.read_bytes, task.write_bytes) == ("compile", "zip-native", 0.0, 4096.0)
    assert task.started == pytest.approx(2.13) and task.elapsed == pytest.approx(3.5)
    assert task.user == pytest.approx(3.182341) and task.sys == pytest.approx(0.41)
    assert task.cpu == pytest.approx(3.592341) and found.figures == ()


def test_a_task_that_did_not_end_is_left_out_and_one_that_ran_twice_is_as_it_was_last() -> None:
    path = "tmp/buildstats/1/a-1-r0/do_fetch"
    cut = f"{path}:Started: 5.00\n"
    later = cut + f"{path}:Ended: 6.00\n{path}:Started: 7.00\n{path}:Ended: 9.00\n"
    other = "tmp-other/buildstats/1/a-1-r0/do_fetch:Started: 1\n"
    assert [task.elapsed for task in parse_report("buildstats", later + other).tasks] == [2.0]


def test_a_release_without_rusage_has_times_alone() -> None:
    """As 1.7 dizzy writes them."""
    path = "build/tmp/buildstats/zip-native-qemux86/201611220642/zip-native-3.0-r2/do_compile"
    text = f"{path}:Started: 5.00\n{path}:CPU usage: 12.0% \n{path}:Ended: 6.50\n"
    assert parse_report("buildstats", text).tasks == (BuildTask("compile", "zip-native", 5.0, 1.5),)


def test_poky_reads_the_same(tmp_path: Path, scripts: Path) -> None:
    """buildstats-diff of two builds, each value of all tasks."""
    builds = [write_build(tmp_path / name, factor) for name, factor in (("bare", 1.0), ("layer", 1.25))]
    for attribute, name in (("cputime", "cpu"), ("walltime", "elapsed"), ("read_bytes", "read_bytes")):
        argv = [sys.executable, str(scripts / "buildstats-diff"), f"--diff-attr={attribute}"]
        argv += ["--min-val=0", "--min-absdiff=0"]
        said = subprocess.run([*argv, *builds], capture_output=True, text=True, check=True).stdout
        one, two = ({(task.recipe, f"do_{task.kind}"): getattr(task, name) for task in read(build)} for build in builds)
        rows = [line.split() for line in said.splitlines() if " -> " in line and "do_" in line]
        assert len(rows) == len(one) == 9
        for recipe, task, *_, before, _, after in rows:
            assert float(before.rstrip("s")) == pytest.approx(one[recipe, task], abs=0.051)
            assert float(after.rstrip("s")) == pytest.approx(two[recipe, task], abs=0.051)


def test_names_are_as_poky_splits_them(scripts: Path) -> None:
    names = ["gcc-cross-x86_64-13.3.0-r0", "zip-native-3.0-r2", "x-1_2.0-r1", "a-b-git-r0", "linux-6.6.111+git-r0"]
    code = f"import json, buildstats as b; print(json.dumps([b.BuildStats.split_nevr(n)[0] for n in {names}]))"
    run = subprocess.run([sys.executable, "-c", code], cwd=scripts / "lib", capture_output=True, text=True, check=True)
    lines = "".join(f"b/{name}/do_x:Started: {i}\nb/{name}/do_x:Ended: {i}\n" for i, name in enumerate(names))
    assert [task.recipe for task in parse_report("buildstats", lines).tasks] == json.loads(run.stdout)


def test_times_on_the_clock_of_a_phase_that_was_frozen() -> None:
    """A task's elapsed time has no part in which its phase was frozen."""
    task = BuildTask("compile", "zip-native", 101.0, 6.0)
    ran = ((100.0, 102.0), (105.0, 110.0))  # frozen from 102 to 105

    def clock(at: float) -> float:
        return sum(min(at, ended) - began for began, ended in ran if began < at)

    (found,) = Report((), (task,)).on_clock(clock).tasks
    assert (found.started, found.elapsed) == (1.0, 3.0)
