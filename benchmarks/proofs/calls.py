"""Are system calls counted and charged right?

    sudo python benchmarks/proofs/calls.py [--what counts,daemon,spin,overhead] [--rounds 8]
        [--requests MKDIR,SYMLINK,LINK]

counts: a workload that makes the same calls whenever it is run, under bpftrace and under ``strace -c -f``: calls and
errors of each name must be equal. What starts it differs between the two, so each is less the same with ``true``.

daemon: files made and removed through a FUSE daemon (fuse-overlayfs) that sleeps before each mkdirat, symlinkat or
linkat, in one arm alone: the seconds must come back in that one request, in the call that waited for it, in ``create,
rename, remove``, and nowhere else. spin: the workload itself spins before each open, in user space: the seconds must
come back as user time, in no call. What was injected is known by another clock.

overhead: traced runs against measured ones, of a scenario on bare and on layer:overlay2.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.analyse import analyse
from kit.analysis.stats.estimate import Interval
from kit.analysis.stats.estimators import CONFIDENCE, family_confidence, student_quantile
from kit.analysis.traces.calls import CallCosts, compare_calls, overheads
from kit.core.errors import KitError
from kit.core.paths import find_paths
from kit.extra.tracing.calls import CallTracer, find_call_tracer
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import ended, run, spawn
from kit.host.namespace import enter_private_mounts
from kit.model.call import CALL, Call
from kit.model.sample import Phase, Sample
from kit.model.session import Request
from kit.report.text.calls import render_calls
from kit.report.text.progress import Lines
from kit.session.launch import launch
from kit.session.measure.tracer import Traced
from kit.session.prepared import StartOptions
from kit.store import open_store

HERE = Path(__file__).with_name("calls")
FILES, DIRECTORIES = 20, 4
#: What the arms are called.
PLAIN, SLOW = "bare", "slow"
#: What an injection may bring about beside itself, of what was injected: who has slept finds caches cold.
LITTLE = 0.01


@dataclass(frozen=True)
class Injection:
    """What is made slower by so many microseconds each: a call of the library's. Where it must come back: in a group of
    calls or user time, and where a daemon sleeps in one call and one request."""

    library: str
    us: int
    group: str
    call: str = ""
    request: str = ""


MADE = "create, rename, remove"
SPIN = Injection("open", 2000, "user time")
DAEMON = (
    Injection("mkdirat", 5000, MADE, "mkdir", "MKDIR"),
    Injection("symlinkat", 5000, MADE, "symlinkat", "SYMLINK"),
    Injection("linkat", 5000, MADE, "linkat", "LINK"),
)


class Bench:
    """A directory, and a control group in which workloads are run, one after the other."""

    def __init__(self, directory: Path, tracer: CallTracer, session: Cgroup) -> None:
        self.directory, self.tracer, self.session = directory, tracer, session

    @contextmanager
    def group(self) -> Iterator[Cgroup]:
        made = Cgroup.named(f"{next(iter(self.session.paths.values())).name}/run").create()
        try:
            yield made
        finally:
            made.remove()

    def run(self, argv: Sequence[str], cwd: Path, traced: bool, arm: str = PLAIN, round_: int = 0) -> Sample:
        """As the kit makes a sample of one phase; what counts here is the CPU of the group, and the calls."""
        with self.group() as group, (self.directory / "output").open("wb") as output:
            subject = Traced(arm, round_, "work", group, self.session, self.directory, self.directory / "log")
            with self.tracer.around(subject) if traced else nullcontext(None) as recording:
                before, began = group.cpu(), time.monotonic()
                process = spawn(["env", "-u", "PWD", "-C", str(cwd), *argv], output=output, cgroup_procs=group.procs)
                assert ended(process, 600) and process.returncode == 0, (argv, process.returncode)
                real, after = time.monotonic() - began, group.cpu()
            assert before and after
            user, sys_ = after.user - before.user, after.sys - before.sys
            phase = Phase("work", "ok", real, user, sys_, user, sys_)
            phase = recording.add_to(phase) if recording else phase
        return Sample(arm, round_, "traced" if traced else "measured", "ok", began, (phase,))


def make_tree(directory: Path) -> Path:
    for number in range(DIRECTORIES):
        (directory / f"{number}").mkdir(parents=True)
        for name in range(FILES):
            (directory / f"{number}" / f"{name}").write_bytes(bytes(100 * name))
    return directory


def counted(calls: Sequence[Call]) -> Counter[str]:
    """Calls and errors by name. strace sees no call that does not return."""
    found: Counter[str] = Counter()
    for call in calls:
        if call.kind == CALL and call.name != "exit":
            name = call.name.partition(",")[0]
            found[name] += call.count
            found[f"{name} failed"] += sum(count for _, count in call.errors)
    return found


def straced(argv: Sequence[str], cwd: Path, scratch: Path) -> Counter[str]:
    run(["strace", "-c", "-f", "-U", "calls,errors,name", "-o", scratch / "strace", "env", "-u", "PWD", *argv], cwd=cwd)
    found: Counter[str] = Counter()
    for line in (scratch / "strace").read_text().splitlines()[2:]:
        words = line.split()
        if len(words) >= 2 and words[0].isdigit() and words[-1] != "total":
            found[words[-1]] += int(words[0])
            found[f"{words[-1]} failed"] += int(words[1]) if len(words) == 3 else 0
    return found


def check_counts(bench: Bench, size: int) -> bool:
    tree = make_tree(bench.directory / "tree")
    work, nothing = ["sh", str(HERE / "work.sh"), str(tree), str(size)], ["true"]
    traced = [counted(bench.run(argv, bench.directory, True).phases[0].calls) for argv in (work, nothing)]
    ours = dict(traced[0])
    theirs = dict(straced(work, bench.directory, bench.directory))
    less = [traced[1], straced(nothing, bench.directory, bench.directory)]
    names = sorted({*ours, *theirs, *less[0], *less[1]})
    rows = [(name, ours.get(name, 0) - less[0][name], theirs.get(name, 0) - less[1][name]) for name in names]
    differing = [row for row in rows if row[1] != row[2]]
    total = sum(count for name, count, _ in rows if not name.endswith(" failed"))
    for name, one, other in differing:
        print(f"counts: {name}: {one} by bpftrace, {other} by strace")
    kinds = sum(not name.endswith(" failed") for name, *_ in rows)
    print(f"counts: {total:,} calls of {kinds} names, {len(differing)} of them counted otherwise by strace")
    return not differing


@contextmanager
def daemon(bench: Bench, arm: str, injection: Injection, ledger: Path) -> Iterator[Path]:
    """A fuse-overlayfs of the arm's own; the slow arm's sleeps."""
    where = bench.directory / f"union-{arm}"
    for name in ("lower", "upper", "work", "merged"):
        (where / name).mkdir(parents=True)
    options = f"lowerdir={where}/lower,upperdir={where}/upper,workdir={where}/work"
    words = ["env", *_slowly(bench, arm, injection, ledger), "fuse-overlayfs", "-f", "-o", options]
    with (where / "log").open("wb") as output:
        session = [path for path in bench.session.procs if path.exists()]
        process = spawn([*words, str(where / "merged")], output=output, cgroup_procs=session)
        while not (where / "merged").is_mount():
            assert process.poll() is None, (where / "log").read_text()
            time.sleep(0.02)
        try:
            yield where / "merged"
        finally:
            run(["umount", where / "merged"])
            ended(process, 10)


def check_delay(bench: Bench, injection: Injection, rounds: int, size: int) -> bool:
    """Rounds of a measured and a traced run of both arms, in random order."""
    ledger = bench.directory / "ledger"
    ledger.write_bytes(bytes(8))
    samples: list[Sample] = []
    injected = {"measured": 0.0, "traced": 0.0}
    with ExitStack() as stack:
        where = dict.fromkeys((PLAIN, SLOW), bench.directory)
        if injection.request:
            where = {arm: stack.enter_context(daemon(bench, arm, injection, ledger)) for arm in where}
        for round_ in range(1, rounds + 1):
            for traced in (False, True):
                for arm in random.sample((PLAIN, SLOW), 2):
                    before = _noted(ledger)
                    argv = _workload(bench, arm, injection, ledger, size)
                    samples.append(bench.run(argv, where[arm], traced, arm, round_))
                    injected[samples[-1].kind] += (_noted(ledger) - before) / rounds
    (found,) = compare_calls(samples, Runs(samples), ((SLOW, PLAIN),))
    truth = injected["traced" if injection.request else "measured"]
    told = [_came_back(level, *rows, truth) for level, rows in _levels(found, injection).items()]
    return all(told)


def _levels(found: CallCosts, injection: Injection) -> dict[str, tuple[str, dict[str, Interval]]]:
    """Where it can come back, by what: which of it is right, and everything."""
    groups = {part.group: part.difference for part in found.groups}
    levels = {"group": (injection.group, {**groups, "user time": found.user, "the rest": found.rest})}
    if injection.request:
        levels["call"] = injection.call, {part.name: part.difference for part in found.calls}
        levels["request"] = injection.request, {part.name: part.difference for part in found.fuse}
    return levels


def _came_back(level: str, right: str, rows: Mapping[str, Interval], truth: float) -> bool:
    """All of it where it must, in its interval, but for what it may bring about; nothing that matters elsewhere."""
    hit = rows[right]
    ends = hit.low or 0.0, hit.high or 0.0
    found = next(
        (said for said, more in (("inside", 0.0), ("inside, with what it brought about", LITTLE * truth))
         if ends[0] - more <= truth <= ends[1]),
        "OUTSIDE",
    )  # fmt: skip
    others = {name: item for name, item in rows.items() if name != right}
    told = {name for name, item in others.items() if _all_at_once(item, len(others)).leaves_out(0.0)}
    strange = sorted(name for name in told if abs(others[name].estimate) >= LITTLE * truth)
    most = max(others, key=lambda name: abs(others[name].estimate))
    print(f"{right}: injected {truth:.4f} s, found in this {level} {_shown(hit)}  {found}")
    verdict = f"STRANGE: {', '.join(strange)}" if strange else ""
    print(f"  of {len(others)} others most in {most}, {_shown(others[most])}  {verdict}".rstrip())
    return found != "OUTSIDE" and not strange


def _all_at_once(found: Interval, family: int) -> Interval:
    """As wide as it must be for so many of them to hold, each known from its own rounds alone."""
    if found.low is None or found.high is None:
        return found
    one, every = (student_quantile((1 + part) / 2, found.n - 1) for part in (CONFIDENCE, family_confidence(family)))
    half = (found.high - found.estimate) * every / one
    return Interval(found.estimate, found.estimate - half, found.estimate + half, found.n)


def _workload(bench: Bench, arm: str, injection: Injection, ledger: Path, size: int) -> Sequence[str]:
    many = range(20 * size)
    if not injection.request:
        return ["env", *_slowly(bench, arm, injection, ledger), "cat", *[str(HERE / "work.sh") for _ in many]]
    directories, files = (" ".join(f"{name}{i}" for i in many) for name in ("d", "f"))
    made = f"mkdir {directories}; ln -s {files} d0; cd d1; touch {files}; ln {files} ../d2; cd .."
    return ["sh", "-ec", f"{made}; rm -r {directories}"]


def _slowly(bench: Bench, arm: str, injection: Injection, ledger: Path) -> list[str]:
    """The library's settings. It is preloaded in both arms: what itself calls is in both."""
    amount = injection.us if arm == SLOW else 0
    settings = {"CALL": injection.library, "US": amount, "LEDGER": ledger}
    return [f"LD_PRELOAD={bench.directory}/slow.so", *(f"SLOW_{name}={value}" for name, value in settings.items())]


def _noted(ledger: Path) -> float:
    return int.from_bytes(ledger.read_bytes(), sys.byteorder) / 1e9


def _shown(found: Interval) -> str:
    if found.low is None or found.high is None:
        return f"{found.estimate:+.4f} s (no interval)"
    return f"{found.estimate:+.4f} s ({found.low:+.4f} … {found.high:+.4f})"


def check_overhead(scenario: str, rounds: int) -> bool:
    paths = find_paths()
    arms = ("bare", "layer:overlay2")
    request = Request(scenario=scenario, arms=arms, rounds=rounds, explain_calls=True, control=False)
    session = launch(request, paths, open_store("", paths.data / "kit.db"), Lines(), StartOptions(wait=True))
    print(render_calls(session, analyse(session)))
    found = overheads(session.samples, Runs(session.samples))
    for item in found:
        print(f"overhead: {item.arm} traced / measured {_shown(item.ratio).replace(' s', '')}")
    return bool(found) and all(item.ratio.estimate <= 1.15 for item in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="counts,daemon,spin,overhead")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--size", type=int, default=10, help="how much the workloads do")
    parser.add_argument("--scenario", default="kernel:short", help="of overhead")
    parser.add_argument("--requests", default=",".join(item.request for item in DAEMON), help="which daemon sleeps in")
    arguments = parser.parse_args()
    wanted = arguments.what.split(",")
    good = check_overhead(arguments.scenario, arguments.rounds) if "overhead" in wanted else True
    if set(wanted) - {"overhead"}:
        delayed = {"spin": [SPIN], "daemon": [item for item in DAEMON if item.request in arguments.requests.split(",")]}
        delays = [item for what in wanted for item in delayed.get(what, ())]
        good &= _checks("counts" in wanted, delays, arguments.rounds, arguments.size)
    sys.exit(not good)


def _checks(counts: bool, delays: Sequence[Injection], rounds: int, size: int) -> bool:
    enter_private_mounts()
    session = Cgroup.named(f"kit-calls-{os.getpid()}").create()
    try:
        with tempfile.TemporaryDirectory() as directory:
            tracer, level = find_call_tracer(Path(directory), session)
            if tracer is None:
                raise KitError(f"nothing can be traced here: {level.reason}", level.fix)
            good = check_counts(Bench(Path(directory), tracer, session), size) if counts else True
            library = Path(directory, "slow.so")
            run(["cc", "-O2", "-shared", "-fPIC", f"-I{HERE.parent}", "-o", library, HERE / "slow.c", "-ldl"])
            for injection in delays:
                own = Path(directory, injection.library)
                own.mkdir()
                (own / "slow.so").symlink_to(library)
                good &= check_delay(Bench(own, tracer, session), injection, rounds, size)
    finally:
        session.remove()
    return good


if __name__ == "__main__":
    main()
