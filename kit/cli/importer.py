"""``kit import``: figures that others measured, in the same table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kit.cli.options import store_option, the_store
from kit.errors import UsageError

if TYPE_CHECKING:
    from kit.sample import Sample

_EPILOG = """\b
Examples:
  ( time make ) 2> bare.txt            in bash; /usr/bin/time, with or without -v, is read as well
  kit import bare=bare.txt devicemapper=dm.txt aufs=aufs.txt
  kit import bare=1.txt bare=2.txt layer=3.txt layer=4.txt --title 'Yocto, published'

The first label is the baseline. Several files of one label are several runs, compared in the order given; one run
has no interval, and the table says so. A file's name without its ending is its label where none is given."""


@click.command("import", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="LABEL=FILE…")
@click.option("--baseline", metavar="LABEL", help="Compare with this label.  [default: the first]")
@click.option("--title", default="imported", show_default=True, help="What was measured.")
@click.option("--json", "json_file", metavar="FILE", help="Also write everything as JSON (- for stdout).")
@click.option("--csv", "csv_file", metavar="FILE", help="Also write the samples as CSV.")
@click.option("--markdown", "markdown_file", metavar="FILE", help="Also write the table as Markdown.")
@store_option
def import_(
    files: tuple[str, ...],
    baseline: str | None,
    title: str,
    json_file: str | None,
    csv_file: str | None,
    markdown_file: str | None,
    store_url: str,
) -> None:
    """Read outputs of `time`, a label each, keep them as a session and print the table."""
    from kit import __version__
    from kit.cli.compare import report
    from kit.record import DONE, Request, Session, new_session_id

    samples = _read(files)
    labels = tuple(dict.fromkeys(sample.arm for sample in samples))
    first = baseline or labels[0]
    if first not in labels:
        raise UsageError(f"--baseline {first}: no file has that label", f"labels: {', '.join(labels)}")
    now = time.time()
    session = Session(
        id=new_session_id(now),
        created=now,
        kit_version=__version__,
        title=title,
        status=DONE,
        request=Request(rounds=max(sample.block for sample in samples)),
        arms=labels,
        baselines=tuple((label, first) for label in labels if label != first),
        seed=0,
        samples=samples,
    )
    store = the_store(store_url)
    store.create(session)
    for sample in samples:
        store.add_sample(session.id, sample)
    report(session, {"json": json_file, "csv": csv_file, "markdown": markdown_file})


def _read(files: tuple[str, ...]) -> tuple[Sample, ...]:
    from kit.sample import Sample
    from kit.timeoutput import parse_time_output

    samples: list[Sample] = []
    for item in files:
        label, equals, name = item.partition("=")
        path = Path(name if equals else item)
        label = label if equals else path.stem
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            started = path.stat().st_mtime
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}", "give LABEL=FILE with a file that exists") from None
        for phase in parse_time_output(text, str(path)):
            block = sum(sample.arm == label for sample in samples) + 1
            samples.append(Sample(label, block, "imported", "ok", started, (phase,)))
    return tuple(samples)
