"""``kit export``: sessions as a file."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kit.cli.completion import complete_sessions
from kit.cli.options import check_writable, store_option, the_store
from kit.core.errors import UsageError
from kit.host.output_file import new_output
from kit.report.renderer import SESSIONS, find, names, renderers

if TYPE_CHECKING:
    from kit.model.session import Session

_EPILOG = """\b
Examples:
  kit export last -o night.kit.json.gz           then, for another store: kit import night.kit.json.gz
  kit export --all -o all.kit.json.gz
  kit export --all | kit import - --store postgresql+psycopg://host/kit
  kit export last --format pytest-benchmark -o 0001_kit.json
  pytest-benchmark compare 0001_kit.json 0002_kit.json"""

_OTHERS = [f"{renderer.name}: {renderer.what}" for renderer in renderers(SESSIONS)]


@click.command(epilog=_EPILOG)
@click.argument("sessions", nargs=-1, metavar="SESSION…", shell_complete=complete_sessions)
@click.option("--all", "everything", is_flag=True, help="Export all sessions of the store.")
@click.option("--format", "format_", type=click.Choice(["kit", *names(SESSIONS)]), default="kit", show_default=True,
              help="; ".join(["kit: everything, to import into another store", *_OTHERS]) + ".")  # fmt: skip
@click.option("-o", "--output", default="-", metavar="FILE", help="Write to this file; .gz compresses it.")
@store_option
def export(sessions: tuple[str, ...], everything: bool, format_: str, output: str, store_url: str) -> None:
    """Write sessions to a file for another store.

    SESSION is an id, its beginning, or last. Passwords and tokens are left out."""
    from kit.store.exchange import dump_lines

    check_writable(output)
    chosen = _chosen(sessions, everything, store_url)
    lines = dump_lines(chosen) if format_ == "kit" else iter([find(SESSIONS, format_).render(list(chosen))])
    if output == "-":
        for line in lines:
            click.echo(line, nl=False)
        return
    try:
        with new_output(Path(output)) as file:
            packed = gzip.GzipFile(fileobj=file, filename="", mode="wb", mtime=0) if output.endswith(".gz") else file
            with packed:
                packed.writelines(line.encode() for line in lines)
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror}", "name a file in a directory with room for it") from None


def _chosen(names: tuple[str, ...], everything: bool, store_url: str) -> Iterator[Session]:
    from kit.report.format.sanitize import shown

    if everything == bool(names):
        raise UsageError("no session given", "name a session, for example last, or use --all; kit sessions lists them")
    store = the_store(store_url)
    requested = [head.id for head in reversed(store.list())] if everything else names
    if not requested:
        raise UsageError(f"the store {store.name} holds no session", "run kit compare smoke")
    session_ids = [store.get(name).id for name in names] or requested  # all of them are known before one is written
    return (shown(store.get(name)) for name in session_ids)
