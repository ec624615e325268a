"""Each reader refuses what its program may write one day: by name, before a figure is read."""

from __future__ import annotations

import json

import pytest

from kit.core.errors import KitError
from kit.extra.exchange.runs import READERS, read_runs
from kit.parsers import PARSERS, parse_report
from tests.build_output import BUILDAH, BUILDKIT

#: The kit's own form.
OWN = "lines"
#: By the name of a parser or reader: such a text, and what the error says.
UNKNOWN = {
    "fio": ('{"fio version": "fio-4.0", "jobs": []}', "fio-4.0: its form is unknown: use fio 2.2 to 3"),
    "bonnie": (f"2.01,2.01,host{',1' * 47}\n", "bonnie++'s format 2.01 has unknown columns"),
    "buildkit": (BUILDKIT.replace("#", "step "), "no step of BuildKit in a known form"),
    "build-steps": (BUILDAH.replace("STEP ", "Stage "), "no step of the builder in a known form"),
    "buildstats": ("a-1.0-r0/do_compile:Started: PT1S\na-1.0-r0/do_compile:Ended: PT2S\n", "no figure in the line"),
    "hyperfine": (json.dumps({"schema_version": 3, "results": [{"command": "a", "measurements": []}]}),
                  "hyperfine's form 3 is unknown"),
    "pytest-benchmark": (json.dumps({"version": "6.0.0", "benchmarks": [{"stats": {}}]}),
                         "pytest-benchmark's form 6.0.0 is unknown"),
    "pyperf": (json.dumps({"version": "2.0", "benchmarks": [{"runs": []}]}), "pyperf's form 2.0 is unknown"),
    "benchexec": ('<result generator="BenchExec 4.0" toolmodule="t"><run name="a"/></result>',
                  "BenchExec's form 4.0 is unknown"),
    "runexec": ("walltime=1.0s\nmemory=12 pages\n", "memory is not a number: '12 pages'"),
    "perfgate": (json.dumps({"schema": "perfgate.run.v2", "samples": [{"wall_ms": 1}]}),
                 "perfgate's form perfgate.run.v2 is unknown"),
    "google-benchmark": (json.dumps({"context": {"json_schema_version": 2}, "benchmarks": [{"real_time": 1}]}),
                         "Google Benchmark's form 2 is unknown"),
}  # fmt: skip
#: What a program that prints no version might print: more or other words around the figures, or another unit.
TIMES = (
    "make  0.1 min user 0.2 min system 1.0 min total",
    "real PT1.5S user PT1S sys PT0S",
    "real\t0m1.0s\nelapsed: 1.0s\n",
)


@pytest.mark.parametrize("name", [name for name in {**PARSERS, **READERS} if name != OWN])
def test_a_form_of_an_unknown_version_is_refused_by_name(name: str) -> None:
    text, says = UNKNOWN[name]
    with pytest.raises(KitError) as failure:
        parse_report(name, text) if name in PARSERS else read_runs(text, "f")
    assert says in failure.value.message


@pytest.mark.parametrize("text", TIMES)
def test_a_time_in_no_known_form_gives_no_run(text: str) -> None:
    with pytest.raises(KitError, match=r"of a run, but in no known form|no timed run in it"):
        read_runs(text, "f")
