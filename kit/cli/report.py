"""``kit report``: sessions as a page and as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kit.cli.completion import complete_sessions
from kit.cli.options import check_writable, store_option, the_store, write
from kit.core.errors import UsageError, said_by_system
from kit.host.output_file import make_output_directory, write_output
from kit.report.renderer import PAGE, find

if TYPE_CHECKING:
    from kit.report.page.page import SessionView

_FORMATS = ("svg", "png")
_EPILOG = """\b
Examples:
  kit report last -o report.html
  kit report 20261101 20261102 -o both.html --title 'Before and after the kernel update'
  kit report last --plots plots/                         SVG and PNG of each plot
  kit report last --plots plots/ --plot-format svg

The page is one file that needs no network: sentences, plots, tables to sort and filter, all data inside. For an issue
or a chat: kit show last --format markdown, or csv. PNG needs: pip install 'storage-driver-test-kit[plots]'."""


@click.command(epilog=_EPILOG)
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION…", shell_complete=complete_sessions)
@click.option("-o", "--output", default="", metavar="FILE", help="Write to this file.  [report.html, without --plots]")
@click.option("--title", default="", help="Heading of the page.  [what was measured]")
@click.option("--plots", default="", metavar="DIR", help="Also write each plot to a file in this directory.")
@click.option("--plot-format", default="svg,png", show_default=True, metavar="F,F", help="Formats of --plots.")
@click.option("--history/--no-history", default=True, help="Show earlier sessions too.  [yes]")
@store_option
def report(
    sessions: tuple[str, ...], output: str, title: str, plots: str, plot_format: str, history: bool, store_url: str
) -> None:
    """Write an HTML page with plots, or the plots.

    SESSION is an id, its beginning, or last. The page needs no network."""
    from kit.analysis.session.analyse import analyse
    from kit.report.page.page import find_tracks, view

    formats = _formats(plot_format)
    output = output or ("" if plots else "report.html")
    check_writable(output)
    store = the_store(store_url)
    views = []
    for session in {session.id: session for session in map(store.get, sessions)}.values():
        analysis = analyse(session)
        views.append(view(session, analysis, find_tracks(session, analysis, store) if history else ()))
    if output:
        title = (
            title or f"What it costs: {', '.join(dict.fromkeys(session_view.session.title for session_view in views))}"
        )
        write(output, find(PAGE, "html").render(title, views))
        if output != "-":
            click.echo(f"{output}: {len(views)} session{'s' if len(views) > 1 else ''}")
    if plots:
        _write_plots(views, Path(plots), formats)


def _formats(text: str) -> list[str]:
    formats = [name.strip() for name in text.split(",") if name.strip()]
    strange = [name for name in formats if name not in _FORMATS]
    if strange or not formats:
        raise UsageError(f"--plot-format {text}: unknown format", f"use some of: {', '.join(_FORMATS)}")
    return formats


def _write_plots(views: list[SessionView], directory: Path, formats: list[str]) -> None:
    from kit.report.plot.picture import to_png

    try:
        make_output_directory(directory)
        for picture in (picture for session_view in views for picture in session_view.pictures):
            for form in formats:
                path = directory / f"{picture.identifier}.{form}"
                content = to_png(picture.file()) if form == "png" else picture.file()
                write_output(path, content)
                click.echo(str(path))
    except OSError as error:
        raise UsageError(said_by_system(error), "name a directory that you may write to") from None
