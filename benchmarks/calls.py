"""Are system calls counted and charged right?

    sudo python benchmarks/calls.py [--what counts,daemon,spin,overhead] [--rounds 8] [--scenario kernel:short]

counts: a workload that makes the same calls whenever it is run, under bpftrace and under ``strace -c -f``: calls and
errors of each name must be equal. What starts it differs between the two, so each is less the same with ``true``.

daemon: directories made through a FUSE daemon (fuse-overlayfs) that sleeps before each mkdirat, in one arm alone: the
seconds must come back in ``create, rename, remove`` and nowhere else. spin: the workload itself spins before each open,
in user space: the seconds must come back as user time, in no call. What was injected is known by another clock.

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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from kit.analysis.analyse import analyse
from kit.analysis.calls import compare_calls, overheads
from kit.analysis.columns import Runs
from kit.analysis.stats import Interval
from kit.core.errors import KitError
from kit.core.paths import find_paths
from kit.host.cgroup import Cgroup
from kit.host.command import ended, run, spawn
from kit.host.namespace import enter_private_mounts
from kit.model.call import CALL, Call
from kit.model.sample import Phase, Sample
from kit.model.session import Request
from kit.report.calls import render_calls
from kit.report.progress import Lines
from kit.session.start import Patience, launch
from kit.store import open_store
from kit.trace.calls import CallTracer, find_call_tracer
from kit.trace.tracer import Traced

HERE = Path(__file__).with_name("calls")
FILES, DIRECTORIES = 20, 4
#: What the arms are called, and how long each slow call takes.
PLAIN, SLOW, SLOW_US = "bare", "slow", 2000
#: What calls that nothing was injected into may take more, of what was.
LITTLE = 0.01
#: By what is injected: where it must come back.
GROUPS = {"daemon": "create, rename, remove", "spin": "user time"}


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

    def run(self, argv: Sequence[str], cwd: Path, traced: bool, arm: str = PLAIN, block: int = 0) -> Sample:
        """As the kit makes a sample of one phase; what counts here is the CPU of the group, and the calls."""
        with self.group() as group, (self.directory / "output").open("wb") as output:
            subject = Traced(arm, block, "work", group, self.session, self.directory, self.directory / "log")
            with self.tracer.around(subject) if traced else nullcontext(None) as recording:
                before, began = group.cpu(), time.monotonic()
                process = spawn(["env", "-u", "PWD", "-C", str(cwd), *argv], output=output, cgroup_procs=group.procs)
                assert ended(process, 600) and process.returncode == 0, (argv, process.returncode)
                real, after = time.monotonic() - began, group.cpu()
            assert before and after
            user, sys_ = after.user - before.user, after.sys - before.sys
            phase = Phase("work", "ok", real, user, sys_, user, sys_)
            phase = recording.add_to(phase) if recording else phase
        return Sample(arm, block, "traced" if traced else "measured", "ok", began, (phase,))


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
def daemon(bench: Bench, arm: str, ledger: Path) -> Iterator[Path]:
    """A fuse-overlayfs of the arm's own; the slow arm's sleeps before each mkdirat."""
    where = bench.directory / f"union-{arm}"
    for name in ("lower", "upper", "work", "merged"):
        (where / name).mkdir(parents=True)
    slow = _slowly(bench, "mkdirat", arm, ledger)
    options = f"lowerdir={where}/lower,upperdir={where}/upper,workdir={where}/work"
    words = ["env", *slow, "fuse-overlayfs", "-f", "-o", options, str(where / "merged")]
    with (where / "log").open("wb") as output:
        process = spawn(words, output=output, cgroup_procs=[path for path in bench.session.procs if path.exists()])
        while not (where / "merged").is_mount():
            assert process.poll() is None, (where / "log").read_text()
            time.sleep(0.02)
        try:
            yield where / "merged"
        finally:
            run(["umount", where / "merged"])
            ended(process, 10)


def check_delay(bench: Bench, what: str, rounds: int, size: int) -> bool:
    """Measured blocks, then traced ones, in random order; the last of a run's calls tell how it went."""
    ledger = bench.directory / f"ledger-{what}"
    ledger.write_bytes(bytes(8))
    samples: list[Sample] = []
    injected = {"measured": 0.0, "traced": 0.0}
    with ExitStack() as stack:
        where = dict.fromkeys((PLAIN, SLOW), bench.directory)
        if what == "daemon":
            where = {arm: stack.enter_context(daemon(bench, arm, ledger)) for arm in where}
        for block in range(1, rounds + 1):
            for traced in (False, True):
                for arm in random.sample((PLAIN, SLOW), 2):
                    argv, cwd = _workload(bench, what, arm, size, ledger, where[arm])
                    before = _noted(ledger)
                    samples.append(bench.run(argv, cwd, traced, arm, block))
                    injected[samples[-1].kind] += (_noted(ledger) - before) / rounds
    (found,) = compare_calls(samples, Runs(samples), ((SLOW, PLAIN),))
    rows = [(part.group, part.difference) for part in found.groups]
    rows += [("user time", found.user), ("the rest", found.rest)]
    truth = injected["traced" if what == "daemon" else "measured"]
    good = True
    for name, interval in rows:
        expected = truth if name == GROUPS[what] else 0.0
        inside = not interval.leaves_out(expected)
        # A call after a spin of milliseconds finds caches colder: that is no error of the tracer's.
        little = name != GROUPS[what] and abs(interval.estimate) < LITTLE * truth
        good &= inside or little
        verdict = "inside" if inside else f"under {LITTLE:.0%} of the injected" if little else "OUTSIDE"
        print(f"{what}: {name:26} injected {expected:7.4f} s, found {_shown(interval)}  {verdict}")
    return good


def _workload(
    bench: Bench, what: str, arm: str, size: int, ledger: Path, merged: Path
) -> tuple[Sequence[str], Path]:  # fmt: skip
    if what == "daemon":
        words = " && ".join(f"mkdir d{i} && ls d{i} && rmdir d{i}" for i in range(10 * size))
        return ["sh", "-ec", words], merged
    return ["env", *_slowly(bench, "open", arm, ledger), "cat", *[str(HERE / "work.sh")] * (20 * size)], bench.directory


def _slowly(bench: Bench, call: str, arm: str, ledger: Path) -> list[str]:
    """The library's settings. It is preloaded in both arms: what itself calls is in both."""
    amount = SLOW_US if arm == SLOW else 0
    return [f"LD_PRELOAD={bench.directory}/slow.so", f"SLOW_CALL={call}", f"SLOW_US={amount}", f"SLOW_LEDGER={ledger}"]


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
    session = launch(request, paths, open_store("", paths.data / "kit.db"), Lines(), Patience(wait=True))
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
    parser.add_argument("--scenario", default="kernel:short")
    arguments = parser.parse_args()
    wanted = arguments.what.split(",")
    good = check_overhead(arguments.scenario, arguments.rounds) if "overhead" in wanted else True
    if set(wanted) - {"overhead"}:
        good &= _checks(wanted, arguments.rounds, arguments.size)
    sys.exit(not good)


def _checks(wanted: Sequence[str], rounds: int, size: int) -> bool:
    enter_private_mounts()
    session = Cgroup.named(f"kit-calls-{os.getpid()}").create()
    good = True
    try:
        with tempfile.TemporaryDirectory() as directory:
            tracer, level = find_call_tracer(Path(directory), session)
            if tracer is None:
                raise KitError(f"nothing can be traced here: {level.reason}", level.fix)
            run(["cc", "-O2", "-shared", "-fPIC", "-o", f"{directory}/slow.so", HERE / "slow.c", "-ldl"])
            bench = Bench(Path(directory), tracer, session)
            for what in wanted:
                if what == "counts":
                    good &= check_counts(bench, size)
                elif what in GROUPS:
                    with tempfile.TemporaryDirectory(dir=directory) as own:
                        Path(own, "slow.so").symlink_to(f"{directory}/slow.so")
                        good &= check_delay(Bench(Path(own), tracer, session), what, rounds, size)
    finally:
        session.remove()
    return good


if __name__ == "__main__":
    main()
