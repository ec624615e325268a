"""The kit reads what other programs write, here and now: docs/how-to/publish-results.md lists their versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kit.extra.exchange.runs import read_runs
from kit.parsers import parse_report
from tests.needs import needs

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]


def needs_module(name: str, package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(name) is None, reason=f"needs {package}: pip install {package}")


def run(*words: str | Path, cwd: Path, fails: bool = False) -> str:
    """Return what the program prints. ``fails``: it may end with another code than 0."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert fails or done.returncode == 0, done.stderr
    return done.stdout


def figures(name: str, text: str) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in parse_report(name, text).figures}


JOBS = """\
[global]
ioengine=psync
size=1m
bs=4k
[seq]
rw=write
fdatasync=16
[rand]
stonewall
rw=randrw
lat_percentiles=1
clat_percentiles=0
"""


@needs("fio")
def test_fio(tmp_path: Path) -> None:
    (tmp_path / "jobs.fio").write_text(JOBS)
    reported = figures("fio", run("fio", "--output-format=json", "jobs.fio", cwd=tmp_path))
    percentiles = ("", " p50", " p99", " p99.9")
    assert {f"seq: {kind} latency{of}" for kind in ("write", "sync") for of in percentiles} < reported.keys()
    assert {f"rand: {kind} latency{of}" for kind in ("read", "write") for of in percentiles} < reported.keys()
    assert all(reported.values()) and not any(name.startswith(("read", "write", "sync")) for name in reported)


@needs("fio")
def test_fio_with_unified_directions(tmp_path: Path) -> None:
    job = "[j]\nioengine=null\nsize=64k\nbs=4k\nrw=write\nunified_rw_reporting={}\n"
    (tmp_path / "mixed.fio").write_text(job.format("mixed"))
    (tmp_path / "both.fio").write_text(job.format("both"))
    mixed = figures("fio", run("fio", "--output-format=json", "mixed.fio", cwd=tmp_path))
    assert mixed["mixed bandwidth"] and "write bandwidth" not in mixed
    both = figures("fio", run("fio", "--output-format=json", "both.fio", cwd=tmp_path))
    assert both["mixed IOPS"] == pytest.approx(both["write IOPS"])


@needs("fio")
def test_fio_prints_a_document_for_each_interval(tmp_path: Path) -> None:
    words = ("--name=j", "--ioengine=null", "--size=1g", "--rw=read", "--time_based", "--runtime=3", "--rate_iops=100")
    text = run("fio", *words, "--output-format=json", "--status-interval=1", cwd=tmp_path)
    assert text.count('"fio version"') > 1
    last = '{\n  "fio version"' + text.rpartition('"fio version"')[2]
    assert figures("fio", text) == figures("fio", last)


@needs("bonnie++")
@pytest.mark.parametrize(
    ("options", "present", "missing"),
    [
        ("-s 16M -n 1 -f", {"write, block", "rewrite", "seeks", "create, sequential"}, "read, per character"),
        ("-s 0 -n 1 -x 2", {"test 1: create, random", "test 2: delete, sequential"}, "test 1: seeks"),
    ],
)
def test_bonnie(tmp_path: Path, options: str, present: set[str], missing: str) -> None:
    text = run("bonnie++", "-q", "-d", tmp_path, "-u", "root", "-r", "8M", *options.split(), cwd=tmp_path)
    reported = figures("bonnie", text)
    assert present < reported.keys() and missing not in reported


@needs("hyperfine")
def test_hyperfine(tmp_path: Path) -> None:
    words = ("-i", "-r", "3", "-w", "1", "-L", "code", "0,3", "--export-json", "out.json", "sh -c 'exit {code}'")
    run("hyperfine", *words, cwd=tmp_path)
    runs = read_runs((tmp_path / "out.json").read_text(), "out.json")
    assert [run.name for run in runs] == ["sh -c 'exit 0'"] * 3 + ["sh -c 'exit 3'"] * 3
    assert [run.error for run in runs] == [""] * 3 + ["exit code 3"] * 3
    scan = ("-r", "2", "-L", "branch", "a,b", "--prepare", "true {branch}", "--export-json", "two.json", "sleep 0.01")
    run("hyperfine", *scan, cwd=tmp_path)
    named = {run.name for run in read_runs((tmp_path / "two.json").read_text(), "two.json")}
    assert named == {"sleep 0.01 (branch = a)", "sleep 0.01 (branch = b)"}


@pytest.mark.skipif(shutil.which("perfgate") is None, reason="needs perfgate: cargo install perfgate-cli")
def test_perfgate(tmp_path: Path) -> None:
    words = ("--name=one", "--repeat=3", "--warmup=1", "--allow-nonzero", "--out=out.json")
    run("perfgate", "run", *words, "--", "sh", "-c", "sleep 0.1; exit 3", cwd=tmp_path)
    runs = read_runs((tmp_path / "out.json").read_text(), "out.json")
    assert [(run.name, run.error) for run in runs] == [("one", "exit code 3")] * 3
    paired = ("--name=two", "--repeat=2", "--warmup=1", "--baseline=sleep 0.1", "--current=sleep 0.2", "--out=two.json")
    run("perfgate", "paired", *paired, cwd=tmp_path)
    pairs = read_runs((tmp_path / "two.json").read_text(), "two.json")
    assert [(run.name, run.paired) for run in pairs] == [("baseline", True), ("current", True)] * 2
    assert all(0.1 <= run.figures["real"] < 60 for run in (*runs, *pairs))


@needs_module("pytest_benchmark", "pytest-benchmark")
def test_pytest_benchmark(tmp_path: Path) -> None:
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text("def test_build(benchmark): benchmark.pedantic(lambda: None, rounds=3)\n")
    words = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--benchmark-json=out.json",
    )
    run(*words, "--benchmark-save=saved", "test_a.py", "test_b.py", cwd=tmp_path)
    runs = read_runs((tmp_path / "out.json").read_text(), "out.json")
    assert [run.name for run in runs] == ["test_a.py::test_build"] * 3 + ["test_b.py::test_build"] * 3
    (saved,) = tmp_path.glob(".benchmarks/*/*_saved.json")
    means = read_runs(saved.read_text(), "saved.json")
    assert [(run.name, run.mean) for run in means] == [("test_a.py::test_build", True), ("test_b.py::test_build", True)]


@needs_module("pyperf", "pyperf")
def test_pyperf(tmp_path: Path) -> None:
    words = (
        "command",
        "-q",
        "-p",
        "2",
        "-n",
        "3",
        "-w",
        "1",
        "-l",
        "1",
        "-o",
        "out.json",
        "--name",
        "nothing",
        "--",
        "true",
    )
    run(sys.executable, "-m", "pyperf", *words, cwd=tmp_path)
    runs = read_runs((tmp_path / "out.json").read_text(), "out.json")
    assert [run.name for run in runs] == ["nothing"] * 6 and all(run.figures["real"] > 0 for run in runs)


@needs_module("benchexec", "benchexec")
def test_runexec(tmp_path: Path) -> None:
    texts = []
    for code in (0, 3):
        words = ("-m", "benchexec.runexecutor", "--no-container", "--output", "log", "--", "sh", "-c", f"exit {code}")
        texts.append(run(sys.executable, *words, cwd=tmp_path, fails=True))
    if not texts[0]:
        pytest.skip("needs control groups that runexec may write to")
    assert [run.error for run in read_runs("".join(texts), "out.txt")] == ["", "exit code 3"]
    assert all(run.figures["real"] > 0 for run in read_runs(texts[0], "out.txt"))


#: Programs that time a command, and shells with a ``time`` of their own.
TIMERS = {
    "time": ["time"], "busybox": ["busybox", "time"], "toybox": ["toybox", "time"],
    **{name: [name, "-c"] for name in ("bash", "zsh", "fish", "tcsh", "mksh", "ksh")},
}  # fmt: skip


@pytest.mark.parametrize("name", TIMERS)
def test_time(tmp_path: Path, name: str) -> None:
    if not shutil.which(name):
        pytest.skip(f"needs {name}")
    words = ["time sleep 0.1"] if TIMERS[name][-1] == "-c" else ["sleep", "0.1"]
    done = subprocess.run([*TIMERS[name], *words], cwd=tmp_path, capture_output=True, text=True, check=True)
    (timed,) = read_runs(done.stdout + done.stderr, "time.txt")
    assert 0.1 <= timed.figures["real"] < 60 and timed.figures["user"] < 60


@needs("perf")
def test_perf_stat(tmp_path: Path) -> None:
    run("perf", "stat", "-r", "2", "--table", "-o", "out.txt", "sleep", "0.1", cwd=tmp_path)
    runs = read_runs((tmp_path / "out.txt").read_text(), "out.txt")
    assert len(runs) == 2 and all(0.1 <= timed.figures["real"] < 60 for timed in runs)


BENCHMARK = """\
<?xml version="1.0"?>
<!DOCTYPE benchmark PUBLIC "+//IDN sosy-lab.org//DTD BenchExec benchmark 3.0//EN"
  "https://www.sosy-lab.org/benchexec/benchmark-3.0.dtd">
<benchmark tool="dummy" displayName="true">
  <rundefinition name="one"/>
  <tasks name="files"><withoutfile>a</withoutfile><withoutfile>b</withoutfile></tasks>
</benchmark>
"""


@needs_module("benchexec", "benchexec")
def test_benchexec(tmp_path: Path) -> None:
    (tmp_path / "b.xml").write_text(BENCHMARK)
    words = ("-m", "benchexec.benchexec", "--no-container", "--no-compress-results", "b.xml")
    run(sys.executable, *words, cwd=tmp_path, fails=True)
    results = [path for path in tmp_path.glob("results/*.results.*.xml") if ".one." in path.name]
    if not results:
        pytest.skip("needs control groups that benchexec may write to")
    runs = read_runs(results[0].read_text(), "results.xml")
    assert [run.name for run in runs] == ["one.files: a", "one.files: b"]
    assert all(run.figures["real"] > 0 and not run.error for run in runs)
