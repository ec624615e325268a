"""``kit compare-sessions``: each penalty of two sessions."""

from __future__ import annotations

import click

from kit.cli.completion import complete_sessions
from kit.cli.options import output_options, store_option, the_store, write_rendered
from kit.report.renderer import BETWEEN, find

_EPILOG = """\b
Examples:
  kit compare-sessions 20261101 last
  kit compare-sessions 20261101-0312 20261102-0312 --format markdown

Each change has an interval (Welch's t test). Facts that differ between the sessions are listed below."""


@click.command("compare-sessions", epilog=_EPILOG)
@click.argument("before", metavar="A", shell_complete=complete_sessions)
@click.argument("after", metavar="B", shell_complete=complete_sessions)
@output_options(BETWEEN)
@store_option
def compare_sessions(before: str, after: str, format_: str, output: str, json_file: str, store_url: str) -> None:
    """Compare each penalty of two sessions."""
    from kit.analysis.session.analyse import analyse
    from kit.analysis.session.session_diff import compare_sessions as compare

    store = the_store(store_url)
    first, second = store.get(before), store.get(after)
    difference = compare((first, analyse(first)), (second, analyse(second)))
    write_rendered(format_, output, json_file, lambda name: find(BETWEEN, name).render(first, second, difference))
