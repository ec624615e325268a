"""The table of machines on which the kit has been run, machines.json: read, extended, and printed as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

TABLE = Path(__file__).with_name("machines.json")
PASSED = "passed"


@dataclass(frozen=True)
class Run:
    command: str  # as Markdown
    result: str  # PASSED, or the line that says why not
    minutes: int


@dataclass(frozen=True)
class Machine:
    name: str
    how: str  # what it runs on
    kernel: str
    init: str
    cgroups: str
    docker: str
    user: str
    date: str  # of the runs
    kit: str  # version and commit
    runs: tuple[Run, ...]

    @property
    def passed(self) -> bool:
        return all(run.result == PASSED for run in self.runs)


def read_table(path: Path = TABLE) -> list[Machine]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [Machine(**{**row, "runs": tuple(Run(**run) for run in row["runs"])}) for row in rows]


def record(machine: Machine, path: Path = TABLE) -> None:
    """Write a machine into the table, in place of an earlier one of the same name and kind. What ran on that one and
    not on this one stays, and names its commit."""
    machines = {(row.name, row.how): row for row in read_table(path)}
    earlier = machines.get((machine.name, machine.how))
    tried = {_words(run) for run in machine.runs}
    runs = [_of(run, earlier.kit) for run in earlier.runs if _words(run) not in tried] if earlier else []
    machines[machine.name, machine.how] = replace(machine, runs=(*runs, *machine.runs))
    text = json.dumps([asdict(row) for row in machines.values()], indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def _words(run: Run) -> str:
    """Return a run's command without its arguments."""
    return run.command.strip("`").partition(" ARGS=")[0].partition("`")[0]


def _of(run: Run, kit: str) -> Run:
    """Return a run that names the commit of the kit."""
    commit = f", of {kit.split()[-1]}"
    return run if ", of " in run.command else replace(run, command=run.command + commit)


def machines_table(machines: list[Machine]) -> str:
    """Return the machines, then what ran on each, as Markdown."""
    heads = ("machine", "runs on", "kernel", "init", "cgroups", "Docker", "user", "date", "kit")
    rows = [(m.name, m.how, m.kernel, m.init, m.cgroups, m.docker, m.user, m.date, m.kit) for m in machines]
    runs = [(f"{m.name}, {m.how}", run.command, run.result, str(run.minutes)) for m in machines for run in m.runs]
    return f"{_table(heads, rows)}\n\n{_table(('machine', 'what ran', 'result', 'minutes'), runs)}"


def machines_line(machines: list[Machine]) -> str:
    """Return README's line: the machines on which every command passed."""
    names = sorted({machine.name.replace(" GNU/Linux", "") for machine in machines if machine.passed})
    words = [
        name.removeprefix(f"{before.split()[0]} ") if before else name
        for before, name in zip(["", *names], names, strict=False)
    ]
    listed = " and ".join([*filter(None, [", ".join(words[:-1])]), *words[-1:]])
    return f"It has run on {listed} ([machines](benchmarks/users_machine/MACHINES.md))."


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
