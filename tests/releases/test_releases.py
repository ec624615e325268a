"""The readers and tracers with the oldest and the newest releases that registries serve: ``make releases``.

Each test of tests/machine/test_peers.py and test_calls.py runs again, with the programs of a Debian suite and the
packages of PyPI. releases.json has what passed; ``python docs/generate.py`` writes the table from it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit.host.command import run
from kit.image.recipe import Recipe
from tests.releases.release_table import Release, record

pytestmark = [
    pytest.mark.machine,
    pytest.mark.unmeasured,
    pytest.mark.skipif("KIT_TEST_RELEASES" not in os.environ, reason="KIT_TEST_RELEASES is not set: make releases"),
]
REPOSITORY = Path(__file__).parents[2]
#: By program: what the names of its tests have, and its Debian package. Shells print no version in one way.
PROGRAMS = {
    "fio": ("test_fio", "fio"), "bonnie++": ("test_bonnie", "bonnie++"), "hyperfine": ("test_hyperfine", "hyperfine"),
    "perf": ("test_perf", "linux-perf"), "bpftrace": ("test_calls", "bpftrace"), "time": ("[time]", "time"),
    "bash": ("[bash]", "bash"), "zsh": ("[zsh]", "zsh"), "fish": ("[fish]", "fish"), "tcsh": ("[tcsh]", "tcsh"),
    "mksh": ("[mksh]", "mksh"), "ksh": ("[ksh]", "ksh93u+m"), "busybox": ("[busybox]", "busybox-static"),
    "toybox": ("[toybox]", "toybox"),
}  # fmt: skip
#: By package of PyPI: its tests, and the oldest release that they pass with.
PACKAGES = {
    "pyperf": ("test_pyperf", "2.0.0"), "pytest-benchmark": ("test_pytest_benchmark", "5.3.1"),
    "benchexec": ("exec", "3.16"),
}  # fmt: skip
#: In a mount namespace of its own a program has the suite's /usr, and all else of this machine.
WRAPPER = """#!/bin/sh
exec unshare --mount sh -c 'mount --bind {root}/usr /usr && PATH=/usr/bin:/usr/sbin && exec "$0" "$@"' {program} "$@"
"""


def results(tests: list[str], log: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the outcome of each test by its name: passed, or why not."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={log}", *tests]
    subprocess.run(words, cwd=REPOSITORY, env={**os.environ, **environment}, check=False)
    outcomes = {}
    for case in ElementTree.parse(log).getroot().iter("testcase"):
        reasons = [child.get("message", "").partition("\n")[0] for child in case if child.tag != "system-out"]
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        outcomes[name] = "; ".join(reasons) or "passed"
    return outcomes


def check(releases: list[Release], outcomes: Mapping[str, str], tests: Mapping[str, str]) -> None:
    """Record each release whose tests passed. Raises AssertionError with the tests of the others."""
    failed = []
    for release in releases:
        own = {name: outcome for name, outcome in outcomes.items() if tests[release.program] in name}
        reasons = {f"{name}: {outcome}" for name, outcome in own.items() if outcome != "passed"}
        if own and not reasons:
            record(release)
        else:
            failed.append(f"{release.program} {release.version}: {'; '.join(sorted(reasons)) or 'no test'}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("suite", ["bookworm", "unstable"])
def test_programs_of_debian(suite: str, tmp_path: Path) -> None:
    recipe = Recipe(f"releases-{suite}", "", suite, tuple(package for _, package in PROGRAMS.values()))
    recipe.build(tmp_path / "root.tar", tmp_path / "layers", tmp_path / "log")
    root, programs = tmp_path / "root", tmp_path / "bin"
    root.mkdir()
    programs.mkdir()
    run(["tar", "--extract", "--file", tmp_path / "root.tar", "--directory", root, "--exclude=./dev/*"])
    versions = dict(line.split() for line in run(["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W"]).splitlines())
    releases = []
    for program, (_, package) in PROGRAMS.items():
        (programs / program).write_text(WRAPPER.format(root=root, program=program))
        (programs / program).chmod(0o755)
        releases.append(Release(program, f"Debian {suite}", versions[package]))
    tests = ["tests/machine/test_peers.py", "tests/machine/test_calls.py"]
    outcomes = results(tests, tmp_path / "junit.xml", {"PATH": f"{programs}:{os.environ['PATH']}"})
    check(releases, outcomes, {program: test for program, (test, _) in PROGRAMS.items()})


@pytest.mark.parametrize("age", ["oldest", "newest"])
def test_packages_of_pypi(age: str, tmp_path: Path) -> None:
    wanted = [f"{name}=={oldest}" if age == "oldest" else name for name, (_, oldest) in PACKAGES.items()]
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        tmp_path / "packages",
    ]
    run([*pip, *wanted, "py-cpuinfo"])
    infos = [path.name.split("-") for path in (tmp_path / "packages").glob("*.dist-info")]
    versions = {name.lower().replace("_", "-"): version.removesuffix(".dist") for name, version, *_ in infos}
    releases = [Release(name, f"PyPI, {age}", versions[name]) for name in PACKAGES]
    path = f"{tmp_path}/packages:{REPOSITORY}"
    outcomes = results(["tests/machine/test_peers.py"], tmp_path / "junit.xml", {"PYTHONPATH": path})
    check(releases, outcomes, {name: test for name, (test, _) in PACKAGES.items()})
