"""``kit sessions`` and ``kit show``: what was measured before."""

from __future__ import annotations

import json
import time

import click

from kit.cli.completion import complete_sessions
from kit.cli.options import json_flag, store_option, the_store, write
from kit.errors import UsageError

_SHOW_EPILOG = """\b
Examples:
  kit show last
  kit show 20261121 --format markdown
  kit show last --explain
  kit show last --json | jq .comparisons"""


@click.command(epilog="\b\nExamples:\n  kit sessions\n  kit sessions --json")
@json_flag
@store_option
def sessions(as_json: bool, store_url: str) -> None:
    """List past sessions, newest first."""
    from tabulate import tabulate

    from kit.report.structured import session_facts

    found = the_store(store_url).list()
    if as_json:
        click.echo(json.dumps([session_facts(item) for item in found], indent=1))
        return
    if not found:
        click.echo("no session yet: kit compare smoke")
        return
    rows = [
        [item.id, time.strftime("%Y-%m-%d %H:%M", time.localtime(item.created)), item.status, item.title,
         len(item.arms) - len(item.not_run), item.request.rounds]
        for item in found
    ]  # fmt: skip
    click.echo(tabulate(rows, ["session", "started", "status", "scenario", "arms", "rounds"]))


@click.command(epilog=_SHOW_EPILOG)
@click.argument("session", default="last", shell_complete=complete_sessions)
@click.option("--format", "format_", type=click.Choice(["table", "explain", "markdown", "json", "csv"]),
              default="table", show_default=True, help="How to print it.")  # fmt: skip
@click.option("--explain", is_flag=True, help="In plain sentences: the same as --format explain.")
@click.option("-o", "--output", default="-", metavar="FILE", help="Write to a file instead of stdout.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@store_option
def show(session: str, format_: str, explain: bool, output: str, as_json: bool, store_url: str) -> None:
    """Print SESSION again: its id, a unique beginning of it, or last."""
    from kit.report import render

    if explain and as_json:
        raise UsageError("--explain and --json exclude each other", "give one of them")
    text = render("json" if as_json else "explain" if explain else format_, the_store(store_url).get(session))
    write(output, text if text.endswith("\n") else f"{text}\n")
