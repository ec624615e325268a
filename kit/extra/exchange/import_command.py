"""``kit import``: sessions of another store, and others' figures, in the same table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kit.cli.infile import beginning, read_lines
from kit.cli.options import file_options, store_option, the_store, wanted_files
from kit.core.errors import UsageError
from kit.core.quantity import size

if TYPE_CHECKING:
    from kit.model.sample import Sample
    from kit.model.session import Session
    from kit.store import Store

_EPILOG = """\b
Examples:
  kit import night.kit.json.gz         what kit export wrote, into this store
  kit import *.kit.json --store postgresql+psycopg://host/kit
  ( time make ) 2> bare.txt            in any shell; /usr/bin/time -v is read as well
  kit import bare=job.log --dry-run    what is read of a log
  perf stat -r 5 --table -o bare.txt make
  kit import bare=bare.txt devicemapper=dm.txt aufs=aufs.txt
  kit import bare=1.txt bare=2.txt layer=3.txt layer=4.txt --title 'Yocto, published'

  hyperfine --export-json both.json 'make' 'docker run --rm mine make'; kit import both.json
  kit import bench.json --arm-pattern 'test_build\\[(.*)\\]'        of pytest-benchmark

The first label is the baseline. Several files of one label are several runs, compared in the order given; one run
has no interval, and the table says so. A file's name without its ending is its label where none is given, and the
names of commands or benchmarks are, where a file has several."""


@click.command("import", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--baseline", metavar="LABEL", help="Compare with this label.  [the first]")
@click.option("--paired", is_flag=True, help="Compare run N of each label with run N of the others.")
@click.option("--title", default="imported", show_default=True, help="Title of the session.")
@click.option(
    "--arm-pattern",
    default="",
    metavar="REGEX",
    help="Label runs by the first group of REGEX in their names; leave out others.",
)
@click.option("--format", "form", default="", metavar="NAME", help="Read only this form, as zsh.  [any, by content]")
@click.option("--dry-run", is_flag=True, help="Show what is understood of timed runs; store nothing.")
@click.option(
    "--limit", default="256M", show_default=True, metavar="SIZE", help="Refuse files that are larger, decompressed."
)
@file_options
@store_option
def import_(
    files: tuple[str, ...],
    baseline: str | None,
    paired: bool,
    title: str,
    arm_pattern: str,
    form: str,
    dry_run: bool,
    limit: str,
    store_url: str,
    **values: str | None,
) -> None:
    """Import exported sessions or timed runs.

    FILE is written by kit export. LABEL=FILE… are outputs of time, perf stat, hyperfine or pytest-benchmark, also in
    logs, imported as one session."""
    from kit.cli.compare import report
    from kit.extra.exchange.timed_runs import describe, pattern_of, read_labelled, samples_of

    most = size(limit, "--limit")
    exported = [name for name in files if name == "-" or _is_export(name)]
    if exported:
        if len(exported) < len(files):
            raise UsageError("exported sessions and timed runs in one command", "import them one after another")
        if dry_run or form:
            raise UsageError(
                "--dry-run and --format work with timed runs only", "import exported sessions without them"
            )
        _import_sessions(files, most, the_store(store_url))
        return
    runs = read_labelled(files, most, pattern_of(arm_pattern), form)
    if dry_run:
        click.echo(describe(runs))
        return
    paired = paired or all(labelled.run.paired for labelled in runs)
    session = _session(samples_of(runs), baseline, title, paired)
    the_store(store_url).add(session)
    report(session, wanted_files(values))


def _session(samples: tuple[Sample, ...], baseline: str | None, title: str, paired: bool) -> Session:
    """Return the session of these runs. ``paired``: runs of one number belong together."""
    from kit import __version__
    from kit.model.arm import spelled
    from kit.model.fact import DEFAULT_REFERENCE, stored
    from kit.model.fact import RUN_ORDER as RUN_ORDER_FACT
    from kit.model.sample import RUN_ORDER, UNPAIRED
    from kit.model.session import DONE, Request, Session, new_session_id

    if not paired:
        samples = tuple(replace(sample, digests=((RUN_ORDER, UNPAIRED),)) for sample in samples)
    labels = tuple(dict.fromkeys(sample.arm for sample in samples))
    first = spelled(baseline) if baseline else labels[0]
    if first not in labels:
        raise UsageError(f"--baseline {first}: no file has that label", f"use one of: {', '.join(labels)}")
    now = time.time()
    return Session(
        id=new_session_id(now),
        created=now,
        kit_version=__version__,
        title=title,
        status=DONE,
        request=Request(rounds=max(sample.round for sample in samples)),
        arms=labels,
        baselines=tuple((label, first) for label in labels if label != first),
        seed=0,
        facts=stored([DEFAULT_REFERENCE.fact(first), *([] if paired else [RUN_ORDER_FACT.fact(UNPAIRED)])]),
        samples=samples,
        imported=True,
    )


def _is_export(name: str) -> bool:
    from kit.store.exchange import is_export

    return Path(name).is_file() and is_export(beginning(name, 64).decode(errors="replace"))


def _import_sessions(names: tuple[str, ...], limit: int, store: Store) -> None:
    """Import all sessions, or none if one can't be read."""
    from kit.store.exchange import load_lines

    summaries: list[tuple[str, str]] = []

    def sessions() -> Iterator[Session]:
        for name in names:
            for session in load_lines(read_lines(name, limit, "--limit"), name):
                summaries.append((session.id, f"{session.title}, {len(session.samples)} samples"))
                yield session

    there = store.add_new(sessions())
    for session_id, what in summaries:
        click.echo(f"{session_id}: {'already stored, unchanged' if session_id in there else what}")
