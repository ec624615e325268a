"""How narrow is a ratio after ten minutes with hyperfine, perfgate, pyperf, runexec, pytest-benchmark, and the kit?

    sudo python benchmarks/proofs/peers.py [--minutes 10] [--repetitions 3] [--tools hyperfine,…] [--seed N]
        [--json FILE]

Each tool measures the same two arms with the same workload for the same time: ``bare`` (chroot into the image's plain
root) and ``layer:overlay2`` (a container of a private dockerd, the build tree in its writable layer), both on one ext4
filesystem. The order of the tools is random within each repetition. Printed is the 95 % half width of the ratio
``layer:overlay2 / bare`` that each tool reaches: from its own figures of single runs, as a careful user computes it.
Then each tool compares ``bare`` with a second, identical ``bare``, ``--identical`` times in the same number of minutes:
a 95 % interval should leave out 1 in one of twenty such comparisons.

Method, by tool:

- hyperfine, pyperf and pytest-benchmark run all of one arm, then all of the other: Welch's t interval of the log ratio.
- runexec measures one run at a time; a loop alternates the arms: Welch's interval, and that of paired runs.
- perfgate's paired mode alternates whole runs of the arms itself: the same two intervals.
- The kit prints its own interval: with ``--interleave off`` of runs in random order, else of interleaved runs.

Differences that remain:

- A peer reports the wall time of a command: of ``docker run --rm`` it includes creating, starting and removing the
  container. The kit's ``real`` begins in the running container, and the tree is empty in either case. So the ratio of a
  peer is larger than the kit's; the widths compare.
- The time of a peer includes one unmeasured run of each arm. The filesystem, the roots and the daemon are made before.
  The budget of the kit includes its set-up, warm-up runs and pauses. It runs no control arm here, as the peers.
- The kit writes dirty data back between runs and reads the roots again before each round; peers do neither. The kit's
  interval of interleaved runs includes the difference of two copies of the same files, a peer's does not
  (docs/explanation/method.md).
- runexec runs without its own container, in which Docker's socket is hidden. Its ``cputime`` of ``docker run`` is that
  of the Docker client: the container is not in its control group.

Peers are found on PATH (hyperfine, perfgate, runexec, docker) or imported (pyperf, pytest-benchmark). A missing one is
listed as not run. The versions are printed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import random
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from kit import __version__
from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import Interval, as_ratio
from kit.arms.engines.backing_root import BackingRoot
from kit.arms.engines.bare import BareEngine
from kit.arms.engines.docker import DOCKER_ENGINE
from kit.arms.engines.docker_server import DockerServer
from kit.arms.engines.managed import PrivateEngine
from kit.arms.engines.sandbox import Sandbox
from kit.arms.filesystem import BackingOptions, make_backing
from kit.arms.image.layout import INPUTS, TREE
from kit.core.errors import KitError
from kit.core.paths import find_paths
from kit.extra.exchange.runs import read_runs
from kit.host.interrupt import interruptible, take_interrupts
from kit.host.machine import read_host
from kit.model.arm import parse_arm
from kit.model.session import Request
from kit.report.text.progress import Quiet
from kit.session.execute.materials import bind_workloads, gather, shown
from kit.session.execute.session_loop import held_machine
from kit.session.measure.workload import Workload
from kit.session.plan.planning import prepare
from kit.session.prepared import SessionContext

BARE, LAYER, COPY = "bare", "layer:overlay2", "bare+control"
#: Arm, and what it is compared with.
PENALTY, IDENTICAL = (LAYER, BARE), (COPY, BARE)
Pair = tuple[str, str]
Commands = Mapping[str, Sequence[str]]  # by arm
LEAST_RUNS = 2
#: Seconds that an interrupted tool has to end.
PATIENCE = 120
SIZE = 20 << 30
TINY = "i=0; while [ $i -lt 300 ]; do echo $i > f$i; i=$((i+1)); done; rm f*"


@dataclass(frozen=True)
class Job:
    """What to build. ``words``: how ``kit compare`` names it."""

    name: str
    request: Request
    words: tuple[str, ...]
    tail: tuple[str, ...] = ()


@dataclass(frozen=True)
class Runs:
    """Wall seconds of each run, by arm; CPU seconds where the tool reports them."""

    wall: Mapping[str, Sequence[float]]
    cpu: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A comparison by one tool. ``runs``: of each arm. ``seconds``: wall time from the first run, warm-up included."""

    tool: str
    interval: str  # how it was computed
    pair: Pair
    runs: int = 0
    seconds: float = 0.0
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    failed: str = ""
    repetition: int = 0
    figures: Runs | None = None

    @property
    def half_width(self) -> float | None:
        """Of the interval, as a share of the ratio; None without an interval."""
        return (self.high - self.low) / 2 / self.ratio if self.ratio and self.low and self.high else None

    @property
    def different(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


# Statistics of a careful user.


def welch_interval(arm: Sequence[float], base: Sequence[float]) -> Interval:
    """Return the ratio of geometric means with Welch's t interval."""
    return as_ratio(estimators.welch(estimators.mean_centre(np.log(base)), estimators.mean_centre(np.log(arm))))


def paired_interval(arm: Sequence[float], base: Sequence[float]) -> Interval:
    """Return the ratio with Student's t interval of the log ratios of neighbouring runs."""
    return as_ratio(estimators.mean_centre(np.log(arm) - np.log(base)).interval())


# Set-up: the kit's image, filesystem and daemon; commands that a peer can time.


@contextmanager
def arm_commands(job: Job, pair: Pair) -> Iterator[Commands]:
    """Set up the arms of a pair and yield the command of each. Raises KitError, OSError."""
    host = read_host()
    with held_machine("benchmark-peers", find_paths(), True, Quiet()) as bench, ExitStack() as stack:
        prepared = prepare(replace(job.request, arms=(BARE,)), host)
        scenarios = prepared.scenarios
        materials = gather(SessionContext(prepared, host, bench.paths, Quiet()), bench)
        image, folders = materials.image, materials.folders
        inputs = stack.enter_context(shown(folders, bench, "of"))
        (workload,) = bind_workloads(scenarios, image, folders, inputs).values()
        setting = bench.setting
        options = BackingOptions(size=SIZE, images=bench.paths.loops)
        filesystem = make_backing("ext4", options, setting.run / "fs", setting.label, setting.journal)
        backing = stack.enter_context(filesystem)
        bare = BareEngine(setting)
        commands: dict[str, list[str]] = {}
        for number, name in enumerate(reversed(pair)):
            backing_root = BackingRoot(backing, image, inputs, f"{number}-")
            if name == LAYER:
                commands[name] = container_command(stack, DOCKER_ENGINE(setting), backing_root, workload)
                continue
            arm = parse_arm(name)
            bare.fill(arm, backing_root)
            place = stack.enter_context(bare.sandbox(arm, backing_root))
            commands[name] = chroot_command(place, backing_root, workload)
        backing.sync()
        with interruptible():
            yield commands


def chroot_command(place: Sandbox, backing_root: BackingRoot, workload: Workload) -> list[str]:
    """Return the command of a plain root. The place holds the mounts in a namespace of its own."""
    enter = ["nsenter", f"--mount=/proc/{place.probe.pid}/ns/mnt", "chroot", str(backing_root.plain_root.path)]
    return [*enter, "env", "-i", *environment(backing_root, workload), *script(workload)]


def container_command(
    stack: ExitStack, engine: PrivateEngine[DockerServer], backing_root: BackingRoot, workload: Workload
) -> list[str]:
    """Start a private dockerd, import the image, and return the command of a container. Raises KitError."""
    arm = parse_arm(LAYER)
    stack.callback(engine.close)
    engine.open()
    engine.start(arm, backing_root)
    engine.fill(arm, backing_root)
    daemon = engine.daemon(arm, backing_root)
    words = ["docker", f"--host={daemon.host}", "run", "--rm", "--network=none", f"--workdir={TREE}"]
    words.append(f"--cgroup-parent={daemon.home.container_cgroup}")
    words += [f"--env={item}" for item in environment(backing_root, workload)]
    words += [f"--volume={backing_root.inputs}:{INPUTS}:ro"] if backing_root.inputs else []
    return [*words, backing_root.needed_image.tag, *script(workload)]


def environment(backing_root: BackingRoot, workload: Workload) -> list[str]:
    return [f"{name}={value}" for name, value in {**backing_root.env, **dict(workload.scenario.env)}.items()]


def script(workload: Workload) -> list[str]:
    """Return one shell command for all phases."""
    names = {"tree": TREE, "inputs": INPUTS}
    steps = (shlex.join(step.render(names)) for step in workload.scenario.phases)
    return ["sh", "-ec", "\n".join([f"cd {TREE}", *steps])]


# The peers. Each returns the figures of single runs.


class ToolError(Exception):
    """A tool failed; the message holds its last lines."""


def run_tool(argv: Sequence[str], directory: Path, codes: Sequence[int] = (0,)) -> str:
    """Run a tool and return its standard output; end it with all its processes when interrupted. Raises ToolError."""
    with (directory / "stderr").open("w+") as errors:
        tool = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=directory,
            start_new_session=True, env={**os.environ, "DOCKER_CONFIG": str(directory)},
        )  # fmt: skip
        try:
            said, _ = tool.communicate()
        except BaseException:
            tool.terminate()  # the kit cleans up before it ends
            with suppress(subprocess.TimeoutExpired):
                tool.wait(PATIENCE)
            raise
        finally:
            with suppress(ProcessLookupError):
                os.killpg(tool.pid, signal.SIGKILL)
        if tool.returncode not in codes:
            errors.seek(0)
            last = " / ".join((said + errors.read()).strip().splitlines()[-3:])
            raise ToolError(f"{argv[0]} ended with exit status {tool.returncode}: {last}")
    return said


def warm_up(commands: Commands, directory: Path) -> float:
    """Run each command once, unmeasured; return the seconds of one run of each."""
    began = time.monotonic()
    for words in commands.values():
        run_tool(words, directory)
    return time.monotonic() - began


def runs_until(deadline: float, commands: Commands, directory: Path) -> int:
    """Return how many runs of each command end before the deadline, after a warm-up."""
    took = warm_up(commands, directory)
    return max(LEAST_RUNS, int((deadline - time.monotonic()) / took))


def wall_of(file: Path, arms: Mapping[str, str]) -> Runs:
    """Return the runs in a tool's file. ``arms``: by the names that the file gives them."""
    runs = read_runs(file.read_text(), file.name)
    return Runs({arm: [run.figures["real"] for run in runs if run.name == name] for name, arm in arms.items()})


def hyperfine(commands: Commands, deadline: float, directory: Path) -> Runs:
    file = directory / "hyperfine.json"
    words = ["hyperfine", "--shell=none", "--style=none", f"--runs={runs_until(deadline, commands, directory)}"]
    words += [f"--command-name={arm}" for arm in commands]
    run_tool([*words, f"--export-json={file}", *map(shlex.join, commands.values())], directory)
    return wall_of(file, {arm: arm for arm in commands})


def perfgate(commands: Commands, deadline: float, directory: Path) -> Runs:
    file = directory / "paired.json"
    baseline, current = commands
    words = ["perfgate", "paired", "--name=arms", f"--repeat={runs_until(deadline, commands, directory)}"]
    words += [f"--baseline={shlex.join(commands[baseline])}", f"--current={shlex.join(commands[current])}"]
    run_tool([*words, f"--out={file}"], directory)
    return wall_of(file, {"baseline": baseline, "current": current})


def pyperf(commands: Commands, deadline: float, directory: Path) -> Runs:
    """Each value is one run of the command, in a process of its own. It is in a script, since pyperf fails at a command
    of several lines (findings/pyperf-command-lines.sh)."""
    runs = runs_until(deadline, commands, directory)
    options = [f"--processes={runs}", "--values=1", "--warmups=0", "--loops=1", "--copy-env", "--quiet"]
    wall: dict[str, Sequence[float]] = {}
    for number, (arm, command) in enumerate(commands.items()):
        file, script_file = directory / f"pyperf-{number}.json", directory / f"pyperf-{number}.sh"
        script_file.write_text(f"exec {shlex.join(command)}\n")
        words = [sys.executable, "-m", "pyperf", "command", *options, f"--output={file}"]
        run_tool([*words, "--", "sh", str(script_file)], directory)
        wall[arm] = [run.figures["real"] for run in read_runs(file.read_text(), file.name)]
    return Runs(wall)


def runexec(commands: Commands, deadline: float, directory: Path) -> Runs:
    wall: dict[str, list[float]] = {arm: [] for arm in commands}
    cpu: dict[str, list[float]] = {arm: [] for arm in commands}
    took = warm_up(commands, directory)
    while len(wall[BARE]) < LEAST_RUNS or time.monotonic() + took < deadline:
        for arm, words in commands.items():
            found = time_once(words, directory)
            wall[arm].append(float(found["walltime"]))
            cpu[arm].append(float(found["cputime"]))
    return Runs(wall, cpu)


def time_once(words: Sequence[str], directory: Path) -> dict[str, str]:
    """Return what runexec reports of one run. Raises ToolError."""
    said = run_tool([*RUNEXEC, f"--output={directory / 'output'}", "--", *words], directory)
    found = dict(re.findall(r"^([\w-]+)=([\d.]+)s?$", said, re.MULTILINE))
    if found.get("returnvalue") != "0" or not {"walltime", "cputime"} <= found.keys():
        raise ToolError(f"runexec reports: {' '.join(said.split())}")
    return found


def pytest_benchmark(commands: Commands, deadline: float, directory: Path) -> Runs:
    module, file = directory / "test_arms.py", directory / "benchmark.json"
    rounds = runs_until(deadline, commands, directory)
    module.write_text(MODULE.format(commands={arm: list(words) for arm, words in commands.items()}, rounds=rounds))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider"]
    run_tool(["env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", *words, f"--benchmark-json={file}", str(module)], directory)
    found = json.loads(file.read_text())["benchmarks"]
    return Runs({item["params"]["arm"]: item["stats"]["data"] for item in found})


RUNEXEC = ("runexec", "--no-container", "--quiet")
MODULE = """import subprocess
import pytest

COMMANDS = {commands!r}


@pytest.mark.parametrize("arm", COMMANDS)
def test_arm(benchmark, arm):
    quiet = dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    benchmark.pedantic(subprocess.run, args=(COMMANDS[arm],), kwargs=quiet, rounds={rounds})
"""
PEERS: dict[str, Callable[[Commands, float, Path], Runs]] = {
    "hyperfine": hyperfine,
    "perfgate": perfgate,
    "pyperf": pyperf,
    "pytest-benchmark": pytest_benchmark,
    "runexec": runexec,
}
#: Peers that are imported, with their packages; others are on PATH.
MODULES = {"pyperf": "pyperf", "pytest-benchmark": "pytest_benchmark"}
#: Peers that alternate the arms: their runs are pairs.
ALTERNATING = ("perfgate", "runexec")
INSTALL = {
    "hyperfine": "apt-get install hyperfine",
    "perfgate": "cargo install perfgate-cli",
    "pyperf": "pip install pyperf",
    "pytest-benchmark": "pip install pytest-benchmark",
    "runexec": "pip install benchexec",
}
#: Options of ``kit compare``.
KIT = {"kit-sequential": ("--interleave", "off"), "kit": ()}
TOOLS = (*PEERS, *KIT)


def missing(tool: str) -> str:
    """Return why a tool can't run here and how to fix it, or ''."""
    if tool in KIT:
        return ""
    if not shutil.which("docker"):
        return "docker is not on PATH; install Docker's client: apt-get install docker-cli, or docker.io"
    if tool in MODULES:
        return "" if importlib.util.find_spec(MODULES[tool]) else f"it can't be imported; {INSTALL[tool]}"
    if not shutil.which(tool):
        return f"it is not on PATH; {INSTALL[tool]}"
    return missing_runexec() if tool == "runexec" else ""


def missing_runexec() -> str:
    with tempfile.TemporaryDirectory() as name:
        try:
            time_once(["true"], Path(name))
        except ToolError as error:
            return f"{error}; see BenchExec's doc/INSTALL.md for control groups: python3 -m benchexec.check_cgroups"
    return ""


def version_of(tool: str) -> str:
    if tool in KIT:
        return __version__
    if tool in MODULES:
        return importlib.metadata.version(tool)
    printed = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
    return printed.strip().rpartition(" ")[2]


# One comparison by one tool.


def by_peer(tool: str, job: Job, pair: Pair, seconds: float, directory: Path) -> list[Outcome]:
    """Set up, measure and return one outcome for each kind of interval. Raises KitError, OSError, ToolError."""
    with arm_commands(job, pair) as commands:
        began = time.monotonic()
        figures = PEERS[tool](commands, began + seconds, directory)
        took = time.monotonic() - began
    arm, base = (figures.wall[name] for name in pair)
    intervals = {"Welch": welch_interval} | ({"paired": paired_interval} if tool in ALTERNATING else {})
    found = []
    for kind, interval in intervals.items():
        ratio = interval(arm, base)
        found.append(Outcome(tool, kind, pair, len(arm), took, ratio.estimate, ratio.low, ratio.high, figures=figures))
    return found


def by_kit(tool: str, job: Job, pair: Pair, seconds: float, directory: Path, seed: int) -> list[Outcome]:
    """Run ``kit compare`` and return what its JSON says. Raises ToolError."""
    file = directory / "kit.json"
    words = [sys.executable, "-m", "kit", "compare", *job.words, "--arms", ",".join(reversed(pair)), *KIT[tool]]
    words += [
        "--rounds",
        str(LEAST_RUNS),
        "--budget",
        f"{max(1, round(seconds))}s",
        "--no-control",
        "--seed",
        str(seed),
    ]
    said = run_tool([*words, "--wait", "--quiet", "--json", str(file), *job.tail], directory, (0, 1))
    document = json.loads(file.read_text()) if file.exists() else {"comparisons": []}
    found = [item for item in document["comparisons"] if item["arm"] == pair[0] and item["metric"] == "real"]
    if not found:
        raise ToolError(f"kit compare compared nothing: {' / '.join(said.strip().splitlines()[-3:])}")
    item = next((item for item in found if item["phase"] == "total"), found[-1])
    # Not from the start of the process, which may have waited for another session.
    took = file.stat().st_mtime - min(run["started"] for run in (*document["warmups"], *document["samples"]))
    return [Outcome(tool, "its own", pair, item["n"], took, item["ratio"], item["low"], item["high"])]


def compare(tool: str, job: Job, pair: Pair, seconds: float, seed: int) -> list[Outcome]:
    """Return the outcomes of one comparison; a failure is one, too."""
    with tempfile.TemporaryDirectory(prefix="kit-peers-") as name:
        try:
            if tool in KIT:
                return by_kit(tool, job, pair, seconds, Path(name), seed)
            return by_peer(tool, job, pair, seconds, Path(name))
        except (KitError, OSError, ToolError) as error:
            return [Outcome(tool, "", pair, failed=str(error))]


# The whole benchmark.


@dataclass(frozen=True)
class Step:
    """``seconds``: the time that the tool has."""

    tool: str
    pair: Pair
    seconds: float
    repetition: int


def plan(tools: Sequence[str], minutes: float, repetitions: int, identical: int, dice: random.Random) -> list[Step]:
    """Return all comparisons, those of a repetition in random order."""
    steps = []
    for repetition in range(1, repetitions + 1):
        round_ = [Step(tool, PENALTY, 60 * minutes, repetition) for tool in tools]
        round_ += [
            Step(tool, IDENTICAL, 60 * minutes / identical, repetition) for _ in range(identical) for tool in tools
        ]
        steps += dice.sample(round_, len(round_))
    return steps


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def row(name: tuple[str, str], outcomes: Sequence[Outcome]) -> list[str]:
    """Return a row of the table: medians over repetitions, with the least and the largest half width."""
    mine = [item for item in outcomes if (item.tool, item.interval) == name]
    ratios = [item for item in mine if item.pair == PENALTY and item.ratio is not None]
    alike = [item for item in mine if item.pair == IDENTICAL and item.low is not None]
    cells = ["–"] * 5
    if ratios:
        cells[0] = f"{statistics.median(item.runs for item in ratios):g}"
        cells[1] = f"{statistics.median(item.seconds for item in ratios) / 60:.1f}"
        cells[2] = f"{100 * (statistics.median(item.ratio or 0.0 for item in ratios) - 1):+.1f} %"
    widths = [item.half_width for item in ratios if item.half_width is not None]
    if widths:
        among = f" ({percent(min(widths))}–{percent(max(widths))})" if len(widths) > 1 else ""
        cells[3] = f"±{percent(statistics.median(widths))} %{among}"
    if len(ratios) > 1:
        cells[4] = f"{percent(statistics.stdev(np.log([item.ratio or 0.0 for item in ratios])))} %"
    said = f"{sum(item.different for item in alike)} of {len(alike)}" if alike else "–"
    return [*name, *cells, said]


HEADERS = (
    "tool", "interval", "runs of each", "minutes", "/".join(PENALTY), "half width", "sd of repetitions",
    "identical arms: significant",
)  # fmt: skip


def report(outcomes: Sequence[Outcome], not_run: Mapping[str, str]) -> str:
    names = dict.fromkeys((tool, item.interval) for tool in TOOLS for item in outcomes if item.tool == tool)
    rows = [row(name, outcomes) for name in names if name[1]]
    lines = [tabulate(rows, HEADERS, tablefmt="simple", disable_numparse=True)]
    lines += [f"not run: {tool}: {reason}" for tool, reason in not_run.items()]
    failures = [item for item in outcomes if item.failed]
    lines += [f"failed: {item.tool}, {' / '.join(item.pair)}: {item.failed}" for item in failures]
    return "\n".join([*lines, *cpu_lines(outcomes)])


def cpu_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Return what runexec reports as CPU time of each arm."""
    found = [item.figures.cpu for item in outcomes if item.figures and item.figures.cpu and item.pair == PENALTY]
    if not found:
        return []
    means = (f"{arm} {statistics.fmean(value for cpu in found for value in cpu[arm]):.2f} s" for arm in found[0])
    return [f"cputime of runexec: {', '.join(means)} (of a container: the Docker client alone)"]


def machine_facts() -> dict[str, Any]:
    host = read_host()
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "cpu": host.cpu,
        "cores": host.cores,
        "kernel": host.kernel,
        "virtualization": host.virtualization,
    }


def make_job(arguments: argparse.Namespace) -> Job:
    """Return the workload that the options name."""
    image = ("--image", arguments.image) if arguments.image else ()
    request = Request(image=arguments.image)
    if arguments.tiny:
        command = ("sh", "-c", TINY)
        request = replace(request, command=command, image=arguments.image or "smoke", title="peers")
        return Job("tiny", request, ("--image", request.image, "--title", "peers"), ("--", *command))
    return Job(arguments.scenario, replace(request, scenario=arguments.scenario), (arguments.scenario, *image))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="time of each tool, for each pair of arms")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--tools", default=",".join(TOOLS), help=f"of {', '.join(TOOLS)}")
    parser.add_argument("--identical", type=int, default=3, help="comparisons of identical arms, 0 for none")
    parser.add_argument("--seed", type=int, default=1, help="order of the tools and of the kit's runs")
    parser.add_argument("--scenario", default="kernel:short")
    parser.add_argument("--image", default="", help="run in this image instead of the scenario's own")
    parser.add_argument("--tiny", action="store_true", help="write 300 small files instead of building a kernel")
    parser.add_argument("--json", type=Path, help="write every outcome to this file")
    arguments = parser.parse_args()
    unknown = {*arguments.tools.split(",")} - {*TOOLS}
    if unknown:
        parser.error(f"unknown tool {', '.join(sorted(unknown))}; use some of: {', '.join(TOOLS)}")
    if arguments.image:
        arguments.image = str(Path(arguments.image).absolute()) if Path(arguments.image).exists() else arguments.image
    return arguments


def main() -> None:
    arguments = read_arguments()
    take_interrupts()
    not_run = {tool: reason for tool in arguments.tools.split(",") if (reason := missing(tool))}
    tools = [tool for tool in arguments.tools.split(",") if tool not in not_run]
    job, dice, facts = make_job(arguments), random.Random(arguments.seed), machine_facts()
    versions = {tool: version_of(tool) for tool in tools}
    steps = plan(tools, arguments.minutes, arguments.repetitions, arguments.identical, dice)
    print(
        f"{len(steps)} comparisons, {sum(step.seconds for step in steps) / 60:.0f} minutes without set-up", flush=True
    )
    outcomes: list[Outcome] = []
    for step in steps:
        found = compare(step.tool, job, step.pair, step.seconds, dice.randrange(1, 10**9))
        outcomes += [replace(item, repetition=step.repetition) for item in found]
        print("\n".join(map(shown_outcome, found)), flush=True)
        if arguments.json:
            options = {name: str(value) for name, value in vars(arguments).items()}
            document = {
                "machine": facts,
                "versions": versions,
                "options": options,
                "not_run": not_run,
                "outcomes": list(map(asdict, outcomes)),
            }
            arguments.json.write_text(json.dumps(document, indent=1))
    print(
        f"\n{facts['date']}, {facts['cpu']}, {facts['cores']} cores, {facts['virtualization']}, Linux {facts['kernel']}"
    )
    times = f"minutes for each tool and pair: {arguments.minutes:g}; repetitions: {arguments.repetitions}"
    print(f"{job.name}, {times}; intervals: 95 %\n")
    print(report(outcomes, not_run))
    print(f"versions: {', '.join(f'{tool} {version}' for tool, version in versions.items())}")
    sys.exit(any(item.failed for item in outcomes))


def shown_outcome(item: Outcome) -> str:
    what = f"{item.tool}, {item.interval}: {' / '.join(item.pair)}"
    if item.failed:
        return f"{what}: {item.failed}"
    interval = "no interval"
    if item.ratio and item.low and item.high:
        low, high = (f"{100 * (value - 1):+.1f}" for value in (item.low, item.high))
        interval = f"{100 * (item.ratio - 1):+.1f} % [{low}, {high}]"
    return f"{what}: {interval}, {item.runs} runs of each, {item.seconds:.0f} s"


if __name__ == "__main__":
    main()
