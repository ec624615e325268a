"""A store of many machines in a real PostgreSQL: how fast it is written, how long its answers take, how large it is.

    python benchmarks/performance/store.py --store postgresql+psycopg://kit@/kit?host=/run/postgresql --machines 1000
        --nights 365

The database is empty before. Every machine has a session each night: four arms, --rounds runs of each, one phase. The
rows are those that the kit itself stores for a few dozen sessions, copied with other names. Then --writers kits at once
store sessions of 20 runs as they do while they measure, through their outboxes, and each of their runs is looked for.
Prints seconds of whole commands, Python and all, of pages of ``kit serve``, and of queries of the views, with those of
the CPU, client and server, which others that use the machine don't add to; wanted is less than one of these for each.
Exit code 1: a run is lost or twice there, or something takes longer.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random

import psycopg
from sqlalchemy import make_url
from tabulate import tabulate

from kit.extra.web.app import make_app
from kit.model.event import SampleTaken, StatusChanged
from kit.model.sample import Phase, Sample
from kit.model.session import DONE, RUNNING, Request, Session
from kit.store import Outbox, open_store
from kit.store.outbox.outbox import outbox_directory
from kit.store.outbox.outbox_flush import deliver

ARMS = ("bare", "bind:overlay2", "layer:overlay2", "layer:btrfs")
PHASES = ("build",)
TITLE = "kernel:short"
FIRST = 1.7e9  # when the first night was
KERNELS = 3  # of classes of machines
PATTERNS = 13 * KERNELS  # sessions that the others are copies of
RUNS = 20  # of each writer
WANTED = 1.0  # seconds
_TABLES = ("kit_sessions", "kit_samples", "kit_phases", "kit_outcomes")


def make_session(name: str, created: float, seed: int, rounds: int, machine: str = "m") -> Session:
    dice = Random(seed)
    samples: list[Sample] = []
    for round_ in range(1, rounds + 1):
        for number, arm in enumerate(ARMS):
            scale = 60 * (1 + 0.04 * number) * dice.gauss(1, 0.01)
            phases = tuple(
                Phase(phase, "ok", real=scale, user=scale * 0.7, sys=scale / 5, cgroup_user=scale * 0.7, outside=0.2,
                      cgroup_sys=scale / 5, flush=0.5, flush_bytes=2e7, read_bytes=0.0, write_bytes=4e8, max_rss=3e8,
                      minor_faults=8e6, major_faults=0.0, steal=0.0, exit_code=0)
                for phase in PHASES
            )  # fmt: skip
            digests = tuple((what, "0123456789abcdef" * 4) for what in ("scenario", "image", "probe", "input linux"))
            samples.append(Sample(arm, round_, "measured", "ok", created + 200 * len(samples), phases, 0.04, 0.04,
                                  0.05, 0.05, 1.5, digests=digests, log=f"/var/log/{name}/{arm}-{round_}"))  # fmt: skip
    facts = {
        "machine": machine, "worker": machine, "cpu": "Xeon x 32",
        "kernel": f"6.{1 + seed % KERNELS}.0-28-amd64 #1 SMP PREEMPT_DYNAMIC Debian",
        "memory": "128.0 GiB", "distribution": "Debian 12", "caches": "warm", "rounds": str(rounds), "seed": str(seed),
        **{f"overlay2 on {fs}": f"Backing Filesystem: {fs}; Native Overlay Diff: true; userxattr: false" * 4
           for fs in ("ext4", "xfs")},
    }  # fmt: skip
    return Session(
        id=name, created=created, kit_version="1", title=TITLE, status=DONE, request=Request(scenario=TITLE), arms=ARMS,
        baselines=tuple((arm, "bare") for arm in ARMS[1:]), seed=seed, facts=facts, samples=tuple(samples),
    )  # fmt: skip


class Pattern:
    """The rows of one session, as COPY writes and reads them, with marks for what differs."""

    def __init__(self, connection: psycopg.Connection, name: str) -> None:
        key = f"= '{name}'"
        self._rows = {
            "kit_sessions": _copied(connection, f"SELECT * FROM kit_sessions WHERE id {key}"),
            "kit_samples": _copied(connection, f"SELECT * FROM kit_samples WHERE session {key} ORDER BY id"),
            "kit_outcomes": _copied(connection, f"SELECT * FROM kit_outcomes WHERE session {key}"),
            "kit_phases": _copied(
                connection,
                f"SELECT * FROM kit_phases WHERE sample IN (SELECT id FROM kit_samples WHERE session {key})",
            ),
        }
        self._name = name
        ids = [line.partition("\t")[0] for line in self._rows["kit_samples"].splitlines()]
        self.samples = len(ids)
        for table in ("kit_samples", "kit_phases"):
            lines = []
            for line in self._rows[table].splitlines():
                number, _, rest = line.partition("\t")
                lines.append(f"\0{ids.index(number)}\0\t{rest}\n")
            self._rows[table] = "".join(lines)

    def rows(self, table: str, name: str, machine: str, created: float, sample: int) -> str:
        text = self._rows[table].replace(self._name, name)
        if table == "kit_sessions":
            fields = text.split("\t")
            fields[1] = repr(created)
            fields[-2] = machine  # the last one is the role
            text = "\t".join(fields).replace('"machine": "m"', f'"machine": "{machine}"')
            return text.replace('"worker": "m"', f'"worker": "b{machine[:4]}"')
        if table != "kit_outcomes":
            for number in range(self.samples):
                text = text.replace(f"\0{number}\0", str(sample + number))
        return text


def _copied(connection: psycopg.Connection, query: str) -> str:
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT".encode()) as copy:
        return b"".join(bytes(part) for part in copy).decode()


def fill(url: str, machines: int, nights: int, rounds: int) -> None:
    store = open_store(url, Path(os.devnull))
    names = [f"pattern-{seed:02}" for seed in range(min(PATTERNS, machines * nights))]
    for seed, name in enumerate(names):
        store.add(make_session(name, FIRST, seed, rounds))
    with psycopg.connect(_conninfo(url)) as connection:
        patterns = [Pattern(connection, name) for name in names]
    store.remove(names)
    store.close()
    sample = len(patterns) * patterns[0].samples + 1
    with psycopg.connect(_conninfo(url), autocommit=True) as connection:
        connection.execute("ALTER TABLE kit_outcomes DROP CONSTRAINT kit_outcomes_pkey")  # until all is there
        connection.execute("ALTER TABLE kit_outcomes SET (autovacuum_enabled = off)")
        for night in range(nights):
            listed = []
            for machine in range(machines):
                created = FIRST + 86400 * night + 60 * (machine % 60) + machine / 1000
                day = time.strftime("%Y%m%d-%H%M%S", time.gmtime(created))
                mine = patterns[machine % KERNELS :: KERNELS] or patterns  # a machine keeps its kernel
                pattern = mine[(machine * 7 + night) % len(mine)]
                listed.append((pattern, f"{day}-{machine:04}", f"{machine:04}{'f' * 28}", created, sample))
                sample += pattern.samples
            for table in _TABLES:
                with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    copy.write("".join(item[0].rows(table, *item[1:]) for item in listed))
        connection.execute("SELECT setval('kit_samples_id_seq', (SELECT max(id) FROM kit_samples))")
        connection.execute("ALTER TABLE kit_outcomes ADD PRIMARY KEY (session, version, position)")
        connection.execute("ALTER TABLE kit_outcomes RESET (autovacuum_enabled)")
        connection.execute("VACUUM ANALYZE")


def _conninfo(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def write_all(url: str, data: Path, writers: int) -> tuple[float, int, int]:
    """Runs a second while all write, how many waited in outboxes in the end, how many are lost or twice there."""
    context = get_context("fork")
    barrier = context.Barrier(writers + 1)

    def write(number: int) -> None:
        session = make_session(f"writer-{number}", FIRST - 1e6, number, RUNS // len(ARMS))
        home = data / str(number)
        barrier.wait()
        store = open_store(url, home / "kit.db", patient=True)
        with Outbox(replace(session, status=RUNNING, samples=()), store, home, lambda text: None) as outbox:
            outbox.create(replace(session, status=RUNNING, samples=()))
            for sample in session.samples:
                outbox.take(SampleTaken(sample))
            outbox.take(StatusChanged(DONE))

    processes = [context.Process(target=write, args=(number,)) for number in range(writers)]
    for process in processes:
        process.start()
    barrier.wait()
    start = time.monotonic()
    for process in processes:
        process.join()
    took = time.monotonic() - start
    store = open_store(url, data / "kit.db")
    waited = sum(item.runs for home in data.iterdir() for item in deliver(store, outbox_directory(home)))
    wrong = sum(process.exitcode != 0 for process in processes)
    for number in range(writers):
        kept = store.get(f"writer-{number}")
        wrong += kept.samples != make_session(kept.id, kept.created, number, RUNS // len(ARMS)).samples
    return writers * RUNS / took, waited, wrong


def answers(url: str, compiled: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is timed, and how it is asked. ``compiled``: where modules are kept compiled, as an installed kit's are."""
    with psycopg.connect(_conninfo(url)) as connection:
        query = "SELECT machine, id, to_timestamp(created) FROM kit_sessions ORDER BY created DESC LIMIT 1"
        found = connection.execute(query).fetchone()
    assert found
    machine, newest, until = found
    for words in (
        ("sessions",),
        ("sessions", "--machine", machine[:4]),
        ("sessions", "--scenario", TITLE, "--arm", "layer:btrfs", "-n", "100"),
        ("history", TITLE, "layer:overlay2"),
        ("history", TITLE, "layer:overlay2", "--machine", machine),
        ("history", TITLE, "layer:btrfs", "--machine", machine, "--phase", "build", "--metric", "sys"),
        ("show", "last"),
        ("fleet", "show", TITLE),
    ):
        yield f"kit {' '.join(words)}".replace(machine, f"{machine[:4]}…"), partial(_kit, url, compiled, words)
    client = make_app(open_store(url, Path(os.devnull), read_only=True), "token").test_client()
    for page in (
        "/", f"/?scenario={TITLE}", f"/?machine={machine}&arm=layer:btrfs", f"/session/{newest}",
        f"/history?scenario={TITLE}&arm=layer:overlay2",
        f"/history?scenario={TITLE}&arm=layer:overlay2&machine={machine}", f"/machines?scenario={TITLE}",
    ):  # fmt: skip
        yield page.replace(machine, f"{machine[:4]}…"), partial(_page, client, page)
    values = {"title": TITLE, "machine": machine, "from": until - timedelta(days=7), "until": until}
    one = "SELECT created, ratio, low, high FROM kit_penalties WHERE scenario = %(title)s AND machine = %(machine)s "
    one += "AND arm = 'layer:overlay2' AND whole AND metric = 'real' ORDER BY created"
    fleet = "SELECT date_trunc('day', created), avg(ratio), count(*) FROM kit_penalties WHERE scenario = %(title)s AND "
    fleet += "created BETWEEN %(from)s AND %(until)s "  # as Grafana writes it
    fleet += "AND arm = 'layer:overlay2' AND whole AND metric = 'real' GROUP BY 1"
    for name, query in (("kit_penalties: a machine", one), ("kit_penalties: a fleet's week", fleet)):
        yield name, partial(_query, url, query, values)


def _kit(url: str, compiled: str, words: Sequence[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kit", *words, "--store", url], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _page(client: object, page: str) -> None:
    answer = client.get(page, headers={"Authorization": "Bearer token"})  # type: ignore[attr-defined]
    assert answer.status_code == 200, answer.data


def _query(url: str, query: str, values: dict[str, object]) -> None:
    with psycopg.connect(_conninfo(url)) as connection:
        assert connection.execute(query.encode(), values).fetchall()


def postmaster(url: str) -> int | None:
    """The server's first process, where it is on this machine."""
    with psycopg.connect(_conninfo(url)) as connection:
        try:
            name, parent = _stat(connection.info.backend_pid)
        except FileNotFoundError:
            return None
        return int(parent[1]) if name == "postgres" else None


def cpu_seconds(server: int | None) -> float:
    """That this process, its children and the server's processes have used: what an answer would take on an idle
    machine, but for waiting for disks."""
    here = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    mine = sum(item.ru_utime + item.ru_stime for item in here)
    if server is None:
        return mine
    ticks = sum(map(int, _stat(server)[1][13:15]))  # of those that have ended
    for child in Path(f"/proc/{server}/task/{server}/children").read_text().split():
        with suppress(FileNotFoundError):
            ticks += sum(map(int, _stat(int(child))[1][11:13]))
    return mine + ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> tuple[str, list[str]]:
    """Its name, and the fields of /proc/PID/stat from the third on."""
    before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    return before.partition("(")[2], after.split()


def _size(connection: psycopg.Connection, table: str) -> tuple[str, int, float, float]:
    query = (
        "SELECT reltuples::bigint, pg_table_size(oid) / 1e6, pg_indexes_size(oid) / 1e6 FROM pg_class "
        "WHERE oid = %s::regclass"
    )
    found = connection.execute(query, (table,)).fetchone()
    assert found
    rows, size, indexes = found
    return table, rows, float(size), float(indexes)


def time_answers(url: str, compiled: str, server: int | None, repeats: int) -> list[tuple[str, float, float, float]]:
    """Of each the seconds of the first time, the median, and the least of its CPU: others that use the machine make
    that more and never less."""
    rows = []
    for name, ask in answers(url, compiled):
        seconds, busy = [], []
        for _ in range(repeats):
            start, before = time.monotonic(), cpu_seconds(server)
            ask()
            seconds.append(time.monotonic() - start)
            busy.append(cpu_seconds(server) - before)
        rows.append((name, seconds[0], statistics.median(seconds), min(busy)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True, help="an empty PostgreSQL database, postgresql+psycopg://…")
    parser.add_argument("--machines", type=int, default=20)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--writers", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3, help="each is asked so many times")
    parser.add_argument("--filled", action="store_true", help="the database was filled by an earlier start")
    given = parser.parse_args()
    start, count = time.monotonic(), given.machines * given.nights
    if not given.filled:
        fill(given.store, given.machines, given.nights, given.rounds)
        took = time.monotonic() - start
        print(f"{count:,} sessions, {count * len(ARMS) * given.rounds:,} runs copied in {took:.0f} s", flush=True)
    with psycopg.connect(_conninfo(given.store)) as connection:
        sizes = [_size(connection, table) for table in _TABLES]
    print(tabulate(sizes, ["table", "rows", "MB", "MB of indexes"], floatfmt=",.1f", intfmt=","), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        server = postmaster(given.store)
        before = cpu_seconds(server)
        rate, waited, wrong = write_all(given.store, Path(directory), given.writers)
        each = (cpu_seconds(server) - before) / max(1, given.writers * RUNS)
    print(f"{given.writers} writers at once: {rate:.0f} runs/s; {waited} delivered later; sessions not whole: {wrong}")
    print(f"{1000 * each:.0f} ms of CPU a run, {'its server' if server else 'no server'} included", flush=True)
    with tempfile.TemporaryDirectory() as compiled:
        rows = time_answers(given.store, compiled, server, given.repeats)
    print(tabulate(rows, ["answer", "first s", "median s", "least CPU s"], floatfmt=".2f"))
    slow = [name for name, _, seconds, busy in rows if (busy if server else seconds) > WANTED]
    print(f"over {WANTED:.0f} s{' of CPU' if server else ''}: {', '.join(slow) or 'none'}")
    sys.exit(bool(slow or wrong))


if __name__ == "__main__":
    main()
