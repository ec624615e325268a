"""``kit sessions`` and ``kit show``: stored sessions."""

from __future__ import annotations

import click

from kit.cli.completion import complete_scenarios, complete_sessions, complete_stored_arms
from kit.cli.named_store import say_store
from kit.cli.options import (
    flagged,
    format_flags,
    json_option,
    machine_option,
    output_options,
    rank_options,
    store_option,
    the_store,
    write_json,
    write_rendered,
)
from kit.core.errors import UsageError
from kit.report.renderer import SESSION

_SHOW_EPILOG = """\b
Examples:
  kit show last
  kit show 20261121 --format markdown
  kit show last --full
  kit show last --explain
  kit show last --calls
  kit show last --profile
  kit show last --rank cpu_total --reference bind:overlay2
  kit show last --json | jq .comparisons"""


_SESSIONS_EPILOG = """\b
Examples:
  kit sessions
  kit sessions --scenario kernel:short --arm layer:overlay2 -n 100
  kit sessions --json"""


@click.command(epilog=_SESSIONS_EPILOG)
@click.option("--scenario", default="", help="Only this scenario.", shell_complete=complete_scenarios)
@click.option("--arm", default="", shell_complete=complete_stored_arms, help="Only sessions with this arm.")
@machine_option
@click.option("-n", "most", type=click.IntRange(1), default=40, metavar="N", help="List N sessions at most.  [40]")
@json_option
@store_option
def sessions(scenario: str, arm: str, machine: str, most: int, json_file: str, store_url: str) -> None:
    """List sessions, newest first."""
    from tabulate import tabulate

    from kit.report.data.structured import session_facts
    from kit.report.format import units
    from kit.report.format.machine import machine_name
    from kit.report.format.sanitize import shown
    from kit.store import SessionFilter
    from kit.store.store import COUNTED

    session_filter = SessionFilter(scenario, arm, machine)
    store = the_store(store_url)
    heads = [shown(head) for head in store.list(session_filter, most)]
    if json_file:
        write_json(json_file, {"schema": 1, "sessions": [session_facts(head) for head in heads]})
    if json_file == "-":
        return
    if not heads:
        click.echo("no session matches" if scenario or arm or machine else "no session yet: kit compare smoke")
        return
    rows = [
        [head.id, units.moment(head.created), head.status, head.title,
         len(head.arms) - len(head.not_run), head.request.rounds or "auto", machine_name(head.facts)]
        for head in heads
    ]  # fmt: skip
    click.echo(tabulate(rows, ["session", "started (UTC)", "status", "scenario", "arms", "rounds", "machine"]))
    count = store.count(session_filter, most + COUNTED) if len(heads) == most else 0
    if count > most:
        more = "more than " if count == most + COUNTED else ""
        click.echo(f"{more}{count - most} older ones are not shown: -n {count}")


@click.command(epilog=_SHOW_EPILOG)
@click.argument("session", default="last", shell_complete=complete_sessions)
@output_options(SESSION)
@format_flags
@rank_options
@store_option
def show(
    session: str, format_: str, output: str, json_file: str, rank: str, reference: str, store_url: str, **flags: bool
) -> None:
    """Show a session again, in any format.

    SESSION is an id, its beginning, or last."""
    from kit.analysis.session.analyse import analyse
    from kit.report import render

    requested = flagged(flags) + (["json"] if json_file == "-" else [])  # which replaces what is printed
    if len(requested) > 1:
        raise UsageError(f"--{requested[0]} and --{requested[1]} exclude each other", "give one of them")
    stored = the_store(store_url).get(session)
    analysis = analyse(stored, rank, reference)
    chosen = requested[0] if requested else format_
    write_rendered(chosen, output, json_file, lambda name: render(name, stored, analysis))
    if chosen == "answer" and output == "-":
        say_store()
