"""``kit import``: sessions of another store, and figures that others measured, in the same table."""

from __future__ import annotations

import gzip
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kit.cli.options import store_option, the_store
from kit.errors import UsageError

if TYPE_CHECKING:
    from kit.sample import Sample
    from kit.store import Store

_EPILOG = """\b
Examples:
  kit import night.kit.json.gz         what kit export wrote, into this store
  kit import *.kit.json --store postgresql+psycopg://host/kit
  ( time make ) 2> bare.txt            in bash; /usr/bin/time, with or without -v, is read as well
  kit import bare=bare.txt devicemapper=dm.txt aufs=aufs.txt
  kit import bare=1.txt bare=2.txt layer=3.txt layer=4.txt --title 'Yocto, published'

The first label is the baseline. Several files of one label are several runs, compared in the order given; one run
has no interval, and the table says so. A file's name without its ending is its label where none is given."""


@click.command("import", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
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
    """Read sessions that kit export wrote; or outputs of `time`, as LABEL=FILE…, kept as one session with its table."""
    from kit import __version__
    from kit.cli.compare import report
    from kit.record import DONE, Request, Session, new_session_id

    exported = [text for name in files if (text := _export(name)) is not None]
    if exported:
        if len(exported) < len(files):
            raise UsageError("exported sessions and outputs of `time` in one command", "import them one after another")
        _import_sessions(files, exported, the_store(store_url))
        return
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
        imported=True,
    )
    store = the_store(store_url)
    store.add(session)
    report(session, {"json": json_file, "csv": csv_file, "markdown": markdown_file})


def _export(name: str) -> str | None:
    """The text of an export; None where the file is something else, or can't be read, which is found later."""
    from kit.exchange import is_export

    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode(errors="replace")
    except (OSError, EOFError):
        return None
    return text if name == "-" or is_export(text) else None


def _import_sessions(names: tuple[str, ...], texts: list[str], store: Store) -> None:
    from kit.exchange import load

    sessions = [session for name, text in zip(names, texts, strict=True) for session in load(text, name)]
    known = {item.id for item in store.list()}
    for session in sessions:
        if session.id in known:
            click.echo(f"{session.id}: is there already, left as it is")
            continue
        store.add(session)
        known.add(session.id)
        click.echo(f"{session.id}: {session.title}, {len(session.samples)} samples")


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
