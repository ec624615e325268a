"""``kit site``: the store as static pages."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from kit.cli.options import store_option, the_store
from kit.cli.streams import complain
from kit.core.exit_code import DONE, FAILED, USAGE, described

_EPILOG = f"""\b
Examples:
  kit site public/                    open public/index.html, or publish the directory
  kit site public/ --store postgresql+psycopg://reader@db/kit

\b
The pages are those of kit serve, without forms: matrix, sessions, histories, machines of a fleet.
They load nothing from another server. Whoever can read them can read the facts of machines, too.
A second run writes what has changed, and removes pages of sessions that are gone.
Needs: pip install 'storage-driver-test-kit[serve]'.
{described(DONE, FAILED, USAGE)}"""


@click.command(epilog=_EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--all", "rewrite", is_flag=True, help="Rewrite every page, also of sessions that have not changed.")
@store_option
def site(directory: Path, rewrite: bool, store_url: str) -> int:
    """Write the store as static pages.

    Any web server can serve them."""
    from kit.extra.web.site import usable_processes, write_site

    written_site = write_site(partial(the_store, store_url, read_only=True), directory, usable_processes(), rewrite)
    for line in written_site.failed:
        complain(f"kit: not written: {line}")
    unchanged = f", {written_site.kept} of them as they were" if written_site.kept else ""
    click.echo(f"{directory / 'index.html'}: {written_site.files} files{unchanged}")
    return FAILED if written_site.failed else DONE
