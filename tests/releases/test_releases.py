"""The readers, tracers and engines with the oldest and the newest releases that registries serve: ``make releases``.

Tests of tests/machine run again with the programs of a Debian suite, the packages of PyPI, a crate, and Go modules.
releases.json has what passed; ``python docs/generate.py`` writes the table from it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import pytest

from kit.arms.image.mmdebstrap import together
from kit.arms.image.recipe import parse_recipe, read_recipe
from kit.host.command import run
from tests.releases.engine_arms import ARMS
from tests.releases.release_table import Release, read_table
from tests.releases.reruns import REPOSITORY, check, copied_checkout, recipe_file, rerun

#: The directory of what is kept from run to run.
KEPT = Path(os.environ.get("KIT_TEST_RELEASES", ""))
pytestmark = [
    pytest.mark.machine,
    pytest.mark.unmeasured,
    pytest.mark.skipif("KIT_TEST_RELEASES" not in os.environ, reason="KIT_TEST_RELEASES is not set: make releases"),
]
#: By program: its Debian package, and its tests. Shells print no version in one way.
PROGRAMS = {
    "fio": ("fio", "test_fio"), "bonnie++": ("bonnie++", "test_bonnie"), "hyperfine": ("hyperfine", "test_hyperfine"),
    "time": ("time", r"\[time\]"), "bash": ("bash", r"\[bash\]"), "zsh": ("zsh", r"\[zsh\]"),
    "fish": ("fish", r"\[fish\]"), "tcsh": ("tcsh", r"\[tcsh\]"), "mksh": ("mksh", r"\[mksh\]"),
    "ksh": ("ksh93u+m", r"\[ksh\]"), "busybox": ("busybox-static", r"\[busybox\]"),
    "toybox": ("toybox", r"\[toybox\]"),
    "perf": ("linux-perf", r"test_perf_|test_perf::|\[perf\]"),
    "bpftrace": ("bpftrace", r"test_calls|bpftrace|test_a_session"),
    "mkfs.ext4": ("e2fsprogs", r"test_arm\[bare\]"), "mkfs.xfs": ("xfsprogs", r"test_arm\[bare@xfs\]"),
    "mkfs.btrfs": ("btrfs-progs", r"test_arm\[bare@btrfs\]"), "crun": ("crun", r"test_arm.*=crun\]"),
    "mergerfs": ("mergerfs", r"test_union.*\[mergerfs\]"),
    "unionfs-fuse": ("unionfs-fuse", r"test_union.*\[unionfs-fuse\]"),
}  # fmt: skip
#: What these programs run.
NEEDED = ("coreutils", "dash")
#: A link that a package's configuration makes.
ALTERNATIVES = {"ksh": "ksh93"}
MERGED_USR = "/usr/share/mmdebstrap/hooks/merged-usr"
#: No Debian suite has these after the first.
DROPPED = ("unionfs-fuse",)
#: These mount where the kit looks for it.
FUSE = ("mergerfs", "unionfs-fuse")
TESTS = (
    "tests/machine/test_peers.py", "tests/machine/test_calls.py", "tests/machine/test_traced.py", "tests/extra/tracing",
    "tests/arms/engines/test_union.py", *(f"tests/releases/engine_arms.py::test_arm[{arm}]" for arm in ARMS[""]),
)  # fmt: skip
#: By package of PyPI: its tests, and the oldest release that they pass with.
PACKAGES = {
    "pyperf": ("test_pyperf", "2.0.0"), "pytest-benchmark": ("test_pytest_benchmark", "5.3.1"),
    "benchexec": ("exec", "3.16"),
}  # fmt: skip
#: By crate: its program and its tests.
CRATES = {"hyperfine": ("hyperfine", "test_hyperfine"), "perfgate-cli": ("perfgate", "test_perfgate")}
#: ``cargo info`` names first the newest release that this machine's Rust builds.
NEWEST_CRATE = re.compile(r"^version: (\S+)(?: \(latest (\S+)\))?", re.MULTILINE)
#: By recipe of an engine root: its suite. None has a Podman of the oldest one.
SUITES = {"docker-20.10": "bookworm", "docker-26.1": "trixie", "docker-28": "unstable", "podman-5.8": "unstable"}
#: In a mount namespace of its own a program has the suite's /usr, and all else of this machine.
WRAPPER = """#!/bin/sh
exec unshare --mount sh -c 'mount --bind {root}/usr /usr && PATH=/usr/bin:/usr/sbin && exec "$0" "$@"' {program} "$@"
"""
#: In this machine's namespace it has the suite's libraries.
LOADED = """#!/bin/sh
exec {loader} --library-path {loader.parent} {root}/usr/bin/{program} "$@"
"""


@pytest.mark.parametrize("suite", ["bookworm", "unstable"])
def test_programs_of_debian(suite: str, tmp_path: Path) -> None:
    programs = {name: row for name, row in PROGRAMS.items() if suite == "bookworm" or name not in DROPPED}
    root, directory = tmp_path / "root", tmp_path / "bin"
    directory.mkdir()
    versions = _extract(suite, [*NEEDED, *(package for package, _ in programs.values())], root)
    loader = next(root.glob("usr/lib/*-linux-gnu/ld-linux*.so.*"))
    for name in programs:
        program = ALTERNATIVES.get(name, name)
        text = (LOADED if name in FUSE else WRAPPER).format(root=root, program=program, loader=loader)
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    cases = rerun(TESTS, tmp_path / "junit.xml", {"PATH": f"{directory}:{os.environ['PATH']}"})
    check({Release(name, f"Debian {suite}", versions[row[0]]): row[1] for name, row in programs.items()}, cases)


def _extract(suite: str, packages: Sequence[str], root: Path) -> dict[str, str]:
    """Unpack packages of a suite, with those that they depend on, and return the version of each. To configure them
    would take most of the time."""
    names = root.with_name("names")
    words = ["mmdebstrap", "--variant=extract", "--format=directory", f"--include={','.join(packages)}"]
    words += [f"--hook-dir={MERGED_USR}", f'--extract-hook=ls "$1/var/cache/apt/archives" > {names}']
    # As the kit does for suites that change by the day.
    run([*together(), *words, "--aptopt=Acquire::Check-Valid-Until false", suite, root])
    rows = [line.split("_") for line in names.read_text(encoding="utf-8").splitlines() if line.endswith(".deb")]
    return {package: unquote(version) for package, version, _ in rows}


@pytest.mark.parametrize("age", ["oldest", "newest"])
def test_packages_of_pypi(age: str, tmp_path: Path) -> None:
    wanted = [f"{name}=={oldest}" if age == "oldest" else name for name, (_, oldest) in PACKAGES.items()]
    packages = tmp_path / "packages"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", packages]
    run([*pip, *wanted, "py-cpuinfo"])
    infos = [path.name.split("-") for path in packages.glob("*.dist-info")]
    versions = {name.lower().replace("_", "-"): version.removesuffix(".dist") for name, version, *_ in infos}
    environment = {"PYTHONPATH": f"{packages}:{REPOSITORY}"}
    cases = rerun(["tests/machine/test_peers.py"], tmp_path / "junit.xml", environment)
    check({Release(name, f"PyPI, {age}", versions[name]): row[0] for name, row in PACKAGES.items()}, cases)


@pytest.mark.parametrize("crate", CRATES)
def test_programs_of_the_rust_registry(crate: str, tmp_path: Path) -> None:
    """What is built stays: cargo builds only another release."""
    program, pattern = CRATES[crate]
    versions = NEWEST_CRATE.search(run(["cargo", "info", crate]))
    assert versions, crate
    version = versions[2] or versions[1]
    packaged = [row for row in read_table() if row.program == program and row.source.startswith("Debian")]
    if same := [row for row in packaged if row.version.partition("-")[0] == version]:
        pytest.skip(f"{same[0].source} has {program} {version}, too")
    run(["cargo", "install", "--locked", "--root", KEPT / "cargo", f"{crate}@{version}"])
    environment = {"PATH": f"{KEPT / 'cargo/bin'}:{os.environ['PATH']}"}
    cases = rerun(["tests/machine/test_peers.py"], tmp_path / "junit.xml", environment)
    check({Release(program, "Rust registry", version): pattern}, cases)


def test_engine_roots_of_debian(tmp_path: Path) -> None:
    _check_roots(SUITES, tmp_path, REPOSITORY)


def test_podman_of_the_oldest_debian(tmp_path: Path) -> None:
    text = recipe_file("podman-5.8").read_text(encoding="utf-8")
    older = {"podman-5.8": text.replace('suite = "unstable"', 'suite = "bookworm"')}
    _check_roots({"podman-5.8": "bookworm"}, tmp_path, copied_checkout(tmp_path / "checkout", older))


def _check_roots(suites: dict[str, str], directory: Path, checkout: Path) -> None:
    """Run the arms of engine roots, and record what their programs say of their versions."""
    tests = [f"tests/releases/engine_arms.py::test_arm[{arm}]" for recipe in suites for arm in ARMS[recipe]]
    cases = rerun(tests, directory / "junit.xml", {}, checkout)
    releases: dict[Release, str] = {}
    for recipe, suite in suites.items():
        names = [f"test_arm[{arm}]" for arm in ARMS[recipe]]
        pattern = "|".join(map(re.escape, names))
        of_root = [case for case in cases if re.search(pattern, case.name)]
        versions = {program: version for case in of_root for program, version in case.properties.items()}
        releases |= {Release(name, f"Debian {suite}", version): pattern for name, version in versions.items()}
    assert releases, cases
    check(releases, cases)


@pytest.mark.parametrize(("recipe", "test"), [("docker-29", "test_docker_29"), ("buildkit-0.34", "test_buildkit")])
def test_engines_of_go_modules(recipe: str, test: str, tmp_path: Path) -> None:
    """With the newest release of each module in the place of that which the recipe names."""
    text = recipe_file(recipe).read_text(encoding="utf-8")
    for package in read_recipe(recipe).go_programs:
        path, _, version = package.partition("@")
        module = path.partition("/cmd/")[0]
        words = ["go", "list", "-m", "-f", "{{.Version}}", f"{module}@latest"]
        text = text.replace(version, run(words).strip())
    newest = parse_recipe(text, recipe, recipe).go_programs
    checkout = copied_checkout(tmp_path / "checkout", {recipe: text})
    environment = {"KIT_TEST_DOCKER_29": "1", "KIT_TEST_BUILDKIT": "1"}
    cases = rerun([f"tests/machine/{test}.py"], tmp_path / "junit.xml", environment, checkout)
    programs = [package.rpartition("/")[2].split("@") for package in newest]
    check({Release(name, "Go module proxy", version.lstrip("v")): "" for name, version in programs}, cases)
