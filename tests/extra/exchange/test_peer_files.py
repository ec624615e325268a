"""Files of other programs that time commands; tests/machine/test_peers.py has the programs write them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import UsageError
from kit.extra.exchange.runs import read_runs
from tests.command_line import Kit


def reals(document: Any) -> list[tuple[str, float]]:
    text = document if isinstance(document, str) else json.dumps(document)
    return [(run.name, run.figures["real"]) for run in read_runs(text, "f")]


def errors(document: Any) -> list[str]:
    return [run.error for run in read_runs(document if isinstance(document, str) else json.dumps(document), "f")]


def hyperfine_1(command: str, times: list[float], **changes: Any) -> dict[str, Any]:
    """A result as hyperfine 1.20 writes it."""
    mean = sum(times) / len(times)
    codes = [0] * len(times)
    return {
        "command": command,
        "mean": mean,
        "user": 1.0,
        "system": 0.5,
        "times": times,
        "exit_codes": codes,
        **changes,
    }


def test_hyperfine_one_command_with_two_parameters_is_two_arms() -> None:
    results = [hyperfine_1("make", [time], parameters={"branch": branch}) for time, branch in ((9.9, "a"), (20.0, "b"))]
    assert reals({"results": results}) == [("make (branch = a)", 9.9), ("make (branch = b)", 20.0)]
    results[1]["command"] = "make -j2"  # names that differ need no more
    assert reals({"results": results}) == [("make", 9.9), ("make -j2", 20.0)]
    of_1_6 = [hyperfine_1("make", [float(jobs)], parameter=jobs) for jobs in (2, 4)]
    assert reals({"results": of_1_6}) == [("make (parameter = 2)", 2.0), ("make (parameter = 4)", 4.0)]
    with_prepare = [hyperfine_1("make", [time]) for time in (9.9, 20.0)]  # 1.x does not export --prepare
    assert reals({"results": with_prepare}) == [("make (1)", 9.9), ("make (2)", 20.0)]


def test_hyperfine_failed_runs() -> None:
    failing = hyperfine_1("make", [10.0, 0.1, 8.0], exit_codes=[0, 2, None], memory_usage_byte=[1000, 2000, 3000])
    runs = read_runs(json.dumps({"results": [failing]}), "f")
    assert [run.error for run in runs] == ["", "exit code 2", "ended by a signal"]
    assert [run.figures["max_rss"] for run in runs] == [1000, 2000, 3000]
    of_mean = hyperfine_1("make", [10.0, 0.1], exit_codes=[0, 2])
    del of_mean["times"]
    (run,) = read_runs(json.dumps({"results": [of_mean]}), "f")
    assert run.mean and run.error == "exit code 2"


@pytest.mark.parametrize(
    ("small", "kept"),
    [([3000, 3000], [None, None]), ([900, 950], [900, 950]), ([3500, 4000], [3500, 4000])],
)
def test_a_peak_of_memory_that_an_earlier_command_had_is_no_figure(small: list[int], kept: list[int | None]) -> None:
    large = hyperfine_1("large", [1.0, 1.0], memory_usage_byte=[2900, 3000])
    results = [large, hyperfine_1("small", [1.0, 1.0], memory_usage_byte=small)]
    runs = read_runs(json.dumps({"results": results}), "f")
    assert [run.figures.get("max_rss") for run in runs] == [2900, 3000, *kept]


def measurement(real: float, user: float = 0.25, code: int | None = 0, **changes: Any) -> dict[str, Any]:
    """A run as hyperfine 2.0.0 writes it."""
    seconds = {"time_wall_clock": real, "time_cpu": user + 0.5, "time_user": user, "time_system": 0.5}
    return {
        **{key: {"value": value, "unit": "second"} for key, value in seconds.items()},
        "memory_peak_resident": {"value": 4096.0, "unit": "byte"},
        "cpu_cycles": {"value": 5000},
        "exit_code": code,
        **changes,
    }


def hyperfine_2(*results: dict[str, Any], version: int = 2) -> dict[str, Any]:
    about = {"hyperfine_version": "2.0.0", "platform": {"os": "Linux", "architecture": "x86_64"}}
    return {"schema_version": version, "metadata": about, "primary_metric": "time_wall_clock", "results": list(results)}


def test_hyperfine_2_gives_all_figures_of_each_run() -> None:
    runs = [measurement(1.0), measurement(2.0, 0.5), measurement(3.0, code=2), measurement(4.0, code=None)]
    first, second, failed, killed = read_runs(json.dumps(hyperfine_2({"command": "make", "measurements": runs})), "f")
    assert dict(first.figures) == {"real": 1.0, "user": 0.25, "sys": 0.5, "max_rss": 4096.0}
    assert (second.figures["real"], second.figures["user"]) == (2.0, 0.5)
    assert (first.error, failed.error, killed.error) == ("", "exit code 2", "ended by a signal")
    without_memory = measurement(1.0)
    del without_memory["memory_peak_resident"]
    (run,) = read_runs(json.dumps(hyperfine_2({"command": "make", "measurements": [without_memory]})), "f")
    assert set(run.figures) == {"real", "user", "sys"}


def test_hyperfine_2_names() -> None:
    runs = [measurement(1.0)]
    named = hyperfine_2({"command": "make -j2", "name": "two", "measurements": runs})
    assert reals(named) == [("two", 1.0)]
    results = [
        {
            "command": "make",
            "measurements": runs,
            "parameters": {"branch": {"value": branch}},
            "environment": {"J": "2"},
        }
        for branch in ("a", "b")
    ]
    assert reals(hyperfine_2(*results)) == [("make (branch = a, J = 2)", 1.0), ("make (branch = b, J = 2)", 1.0)]


def pytest_benchmark(*fullnames: str, data: bool = True) -> dict[str, Any]:
    return {
        "benchmarks": [
            {
                "name": fullname.rpartition("::")[2],
                "fullname": fullname,
                "stats": {"mean": number + 0.1, **({"data": [number, number + 0.2]} if data else {})},
            }
            for number, fullname in enumerate(fullnames, 1)
        ]
    }


def test_pytest_benchmark_one_name_in_two_modules_is_two_arms() -> None:
    document = pytest_benchmark(
        "b/test_overlay2.py::test_build", "b/test_btrfs.py::test_build", "b/test_x.py::test_pull"
    )
    assert [name for name, _ in reals(document)[::2]] == [
        "b/test_overlay2.py::test_build", "b/test_btrfs.py::test_build", "test_pull",
    ]  # fmt: skip


def test_pytest_benchmark_without_rounds_is_its_mean() -> None:
    runs = read_runs(json.dumps(pytest_benchmark("a.py::test_a", "b.py::test_a", data=False)), "f")
    assert [(run.name, run.figures["real"], run.mean) for run in runs] == [
        ("a.py::test_a", 1.1, True), ("b.py::test_a", 2.1, True),
    ]  # fmt: skip
    assert not any(run.mean for run in read_runs(json.dumps(pytest_benchmark("a.py::test_a")), "f"))


#: As pyperf 2.11 writes it: the first process only calibrates, warm-ups are no values.
PYPERF: dict[str, Any] = {
    "benchmarks": [
        {
            "runs": [
                {"metadata": {"calibrate_loops": 32}, "warmups": [[1, 0.5], [32, 0.4]]},
                {"values": [0.2, 0.25], "warmups": [[32, 0.4]]},
                {"values": [0.3], "warmups": [[32, 0.4]]},
            ],
        }
    ],
    "metadata": {"command": "make", "loops": 32, "name": "command", "perf_version": "2.11.0", "unit": "second"},
    "version": "1.0",
}


def test_pyperf_gives_values_without_warm_ups() -> None:
    assert reals(PYPERF) == [("command", 0.2), ("command", 0.25), ("command", 0.3)]
    suite = [{"metadata": {"name": name}, "runs": [{"values": [1.0]}]} for name in ("a", "b")]
    assert reals({"benchmarks": suite, "version": "1.0"}) == [("a", 1.0), ("b", 1.0)]
    with pytest.raises(UsageError, match="'command' has values in byte, not seconds"):
        reals({**PYPERF, "metadata": {"name": "command", "unit": "byte"}})


#: As BenchExec 3 writes it. The environment of the machine is left out.
BENCHEXEC = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE result
  PUBLIC '+//IDN sosy-lab.org//DTD BenchExec result 3.18//EN'
  'https://www.sosy-lab.org/benchexec/result-3.18.dtd'>
<result benchmarkname="b" date="2026-01-01" generator="BenchExec 3.35" name="make" tool="T" toolmodule="t" version="">
  <columns><column title="status"/><column title="walltime"/></columns>
  <run name="[a.yml]" files="[a.yml]">
    <column title="status" value="done"/>
    <column title="cputime" value="0.5s"/>
    <column title="walltime" value="1.25s"/>
    <column hidden="true" title="category" value="missing"/>
    <column hidden="true" title="memory" value="4096B"/>
    <column hidden="true" title="returnvalue" value="0"/>
  </run>
  <run name="[b.yml]">
    <column title="walltime" value="2.5e-1s"/>
    <column title="category" value="error"/>
    <column title="status" value="OUT OF MEMORY"/>
    <column title="terminationreason" value="memory"/>
    <column title="exitsignal" value="9"/>
  </run>
  <run name="[c.yml]"><column title="walltime" value="3s"/><column title="returnvalue" value="2"/></run>
  <run name="[d.yml]">
    <column title="walltime" value="4s"/><column title="returnvalue" value="10"/><column title="status" value="false"/>
    <column title="category" value="correct"/><column title="memUsage" value="8192"/>
  </run>
  <run name="[e.yml]"/>
  <column title="walltime" value="7.5s"/>
</result>
"""


def test_benchexec_gives_each_run() -> None:
    first, *_, last, not_run = read_runs(BENCHEXEC, "f")
    assert first.name == "make: [a.yml]" and dict(first.figures) == {"real": 1.25, "arm_memory": 4096.0}
    assert dict(last.figures) == {"real": 4.0, "arm_memory": 8192.0}
    assert errors(BENCHEXEC) == ["", "ended by BenchExec: memory", "exit code 2", "", "not run"]
    assert not not_run.figures
    with pytest.raises(UsageError, match="not XML of BenchExec"):
        read_runs(BENCHEXEC[:-20], "f")
    with pytest.raises(UsageError, match="it defines entities"):
        read_runs(BENCHEXEC.replace("<columns>", '<!ENTITY a "b"><columns>'), "f")
    with pytest.raises(UsageError, match="walltime is not a number: 'x'"):
        read_runs(BENCHEXEC.replace("1.25s", "x"), "f")


#: As runexec 3.35 prints it, and its log lines.
RUNEXEC = """2026-11-28 11:39:31,056 - INFO - Starting command make
starttime=2026-11-28T11:39:31.058633+00:00
returnvalue=0
walltime=1.5s
cputime=0.002117959s
cputime-cpu0=0.002117959s
memory=262144B
blkio-read=0B
starttime=2026-11-28T11:39:36.669949+00:00
terminationreason=walltime
exitsignal=9
walltime=3.0s
starttime=2026-11-28T11:39:40.669949+00:00
exitsignal=9
walltime=2.0s
starttime=2026-11-28T11:39:41.669949+00:00
terminationreason=failed
"""


def test_runexec_gives_each_run() -> None:
    first, ended, killed, not_started = read_runs(RUNEXEC, "f")
    assert dict(first.figures) == {"real": 1.5, "arm_memory": 262144.0}
    assert (ended.figures["real"], killed.figures["real"], dict(not_started.figures)) == (3.0, 2.0, {})
    assert errors(RUNEXEC) == ["", "ended by BenchExec: walltime", "ended by signal 9", "ended by BenchExec: failed"]
    without_start = "".join(line for line in RUNEXEC.splitlines(True) if not line.startswith("starttime"))
    assert [run.figures.get("real") for run in read_runs(without_start, "f")] == [1.5, 3.0, 2.0, None]


def test_perfgate_gives_runs_and_pairs() -> None:
    run = {"wall_ms": 1500, "exit_code": 0, "warmup": False, "timed_out": False, "max_rss_kb": 4, "page_faults": 3}
    receipt = {
        "schema": "perfgate.run.v1", "bench": {"name": "make"},
        "samples": [{**run, "warmup": True}, run, {**run, "exit_code": 2}, {**run, "exit_code": -1, "timed_out": True}],
    }  # fmt: skip
    assert reals(receipt) == [("make", 1.5)] * 3
    assert errors(receipt) == ["", "exit code 2", "stopped at its time limit"]
    assert dict(read_runs(json.dumps(receipt), "f")[0].figures) == {"real": 1.5, "max_rss": 4096, "major_faults": 3}
    half = {"wall_ms": 1000, "exit_code": 0, "timed_out": False}
    pair = {"pair_index": 0, "warmup": False, "baseline": half, "current": {**half, "wall_ms": 1100}}
    paired = {"schema": "perfgate.paired.v1", "bench": {"name": "make"}, "samples": [{**pair, "warmup": True}, pair]}
    assert reals(paired) == [("baseline", 1.0), ("current", 1.1)]


def test_google_benchmark_gives_repetitions() -> None:
    row = {"name": "BM_a/8", "run_name": "BM_a/8", "run_type": "iteration", "real_time": 2.0, "time_unit": "ms"}
    mean = {**row, "name": "BM_a/8_mean", "run_type": "aggregate", "aggregate_name": "mean", "real_time": 3.0}
    complexity = {"name": "BM_a_BigO", "run_name": "BM_a", "run_type": "aggregate", "aggregate_name": "BigO"}
    assert reals({"benchmarks": [row, {**row, "real_time": 4.0}, mean, complexity]}) == [
        ("BM_a/8", 0.002), ("BM_a/8", 0.004),
    ]  # fmt: skip
    (run,) = read_runs(json.dumps({"benchmarks": [mean, complexity]}), "f")
    assert run.mean and run.figures["real"] == 0.003
    assert errors({"benchmarks": [{**row, "error_occurred": True, "error_message": "no file"}]}) == ["no file"]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (hyperfine_2({"command": "a", "measurements": []}, version=3), "hyperfine's form 3 is unknown"),
        (
            hyperfine_2({"command": "a", "measurements": [measurement(1, time_wall_clock={"value": 1, "unit": "ms"})]}),
            "time_wall_clock of 'a' is not in seconds",
        ),
        (hyperfine_2({"command": "a", "measurements": [{}]}), "not JSON of hyperfine"),
        ({"schema_version": 3, "results": [{"command": "a", "mean": 1.0}]}, "hyperfine's form 3 is unknown"),
        ({"version": "1.1", "benchmarks": [{"runs": [{"values": [1.0]}]}]}, "pyperf's form 1.1 is unknown"),
        ({"version": "6.0.0", "benchmarks": [{"stats": {"rounds": 1}}]}, "pytest-benchmark's form 6.0.0 is unknown"),
        ({"schema": "perfgate.run.v2", "samples": [{"wall_ms": 1}]}, "perfgate's form perfgate.run.v2 is unknown"),
        (
            {"context": {"json_schema_version": 2}, "benchmarks": [{"real_time": 1.0}]},
            "Google Benchmark's form 2 is unknown",
        ),
        ({"benchmarks": [{"runs": [{"values": [-1.0]}]}]}, "not JSON of pyperf"),
        ({"samples": [{"wall_ms": 1}]}, "not JSON of perfgate"),
        ({"benchmarks": [{"real_time": 1.0, "time_unit": "h"}]}, "not JSON of Google Benchmark"),
    ],
)
def test_what_can_not_be_read_is_named(document: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as failure:
        read_runs(json.dumps(document), "f")
    assert failure.value.message.startswith(f"f: {says}")


def test_a_later_benchexec_is_named() -> None:
    with pytest.raises(UsageError) as failure:
        read_runs(BENCHEXEC.replace("BenchExec 3.35", "BenchExec 4.0"), "f")
    assert failure.value.message == "f: BenchExec's form 4.0 is unknown"


def test_import_reads_packed_files_and_says_what_is_a_mean(kit: Kit, tmp_path: Path) -> None:
    files = {
        "pyperf.json.gz": gzip.compress(json.dumps(PYPERF).encode()),
        "run.results.xml": BENCHEXEC.encode(),
        "saved.json": json.dumps(pytest_benchmark("a.py::test_a", "b.py::test_a", data=False)).encode(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    store = f"sqlite:///{tmp_path}/kit.db"
    done = kit("import", *(tmp_path / name for name in files), "--json", tmp_path / "out.json", "--store", store)
    assert done.returncode == 0, done.stderr
    assert (
        "saved.json: the mean of its runs is imported as one run" in done.stderr
        and "pyperf.json.gz: the mean" not in done.stderr
    )
    samples = json.loads((tmp_path / "out.json").read_text())["samples"]
    runs = [(sample["arm"], sample["real"], sample["status"]) for sample in samples]
    assert runs[:4] == [("pyperf.json", 0.2, "ok"), ("pyperf.json", 0.25, "ok"), ("pyperf.json", 0.3, "ok"),
                        ("make: [a.yml]", 1.25, "ok")]  # fmt: skip
    assert runs[-2:] == [("a.py::test_a", 1.1, "ok"), ("b.py::test_a", 2.1, "ok")]
