"""``kit site``: the store as static pages."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from kit.cli.options import store_option, the_store

_EPILOG = """\b
Examples:
  kit site public/                    open public/index.html, or publish the directory
  kit site public/ --store postgresql+psycopg://reader@db/kit

The pages are those of kit serve, without forms: matrix, sessions, histories, machines of a fleet. They need no server,
and load nothing from another server. Whoever can read them can read what the store has of machines: their facts, too.
Needs: pip install 'storage-driver-test-kit[serve]'."""


@click.command(epilog=_EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--all", "rewrite", is_flag=True, help="Also rewrite pages of sessions that exist.")
@store_option
def site(directory: Path, rewrite: bool, store_url: str) -> None:
    """Write the store as static pages.

    Any web server can serve them."""
    from kit.web.site import check_directory, usable_processes, write_site

    check_directory(directory)
    found = write_site(partial(the_store, store_url, read_only=True), directory, usable_processes(), rewrite)
    for line in found.failed:
        click.echo(f"kit: not written: {line}", err=True)
    kept = f", {found.kept} of them as they were" if found.kept else ""
    click.echo(f"{directory / 'index.html'}: {found.files} files{kept}")
