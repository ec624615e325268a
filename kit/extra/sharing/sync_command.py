"""``kit sync``: deliver this machine's outboxes to their store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kit.cli.options import json_option, store_option, write_json
from kit.core.exit_code import DONE, FAILED, USAGE, described

if TYPE_CHECKING:
    from kit.store.outbox.outbox_flush import Delivery

_EPILOG = f"""\b
Examples:
  kit sync --store postgresql+psycopg://writer@db/kit
  KIT_STORE=postgresql+psycopg://writer@db/kit kit sync
  kit sync --json | jq '.waits[].reason'

A session continues when the server of its store is unreachable; its runs wait in the outbox beside kit.db. A later run,
the end of the session, the next command that opens the store, or kit sync delivers them, each once.
Runs of a running session do not count as waiting: it delivers its own. 1 also means that something still waits.
{described(DONE, FAILED, USAGE)}"""


@click.command(epilog=_EPILOG)
@json_option
@store_option
def sync(json_file: str, store_url: str) -> int:
    """Deliver results measured while the store was away.

    What cannot be delivered is listed with its reason."""
    from kit.core.paths import find_paths
    from kit.host.settings_files import configured_store
    from kit.store.outbox.outbox import outbox_directory
    from kit.store.outbox.outbox_flush import STILL_RUNS, deliver
    from kit.store.store import reach_store

    paths = find_paths()
    store = reach_store(store_url or configured_store(), paths.store, False, lambda text: None, patient=True)
    found = list(deliver(store, outbox_directory(paths.data)))
    gone = [item for item in found if not item.waits]
    left = [item for item in found if item.waits]
    if json_file:
        document = {"schema": 1, "store": store.name, "delivered": _listed(gone), "waits": _listed(left)}
        write_json(json_file, document)
    if json_file != "-":
        click.echo(_answer(store.name, gone, left))
        for item in gone:
            if item.killed:
                click.echo(f"  {item}")
        for item in left:
            click.echo(f"  {item.session}, {_runs(item.runs)}: {item.waits}")
        if any(item.store not in ("", store.name) for item in left):
            click.echo("  fix: kit sync --store URL, with the URL that their sessions had")
    return FAILED if any(item.waits != STILL_RUNS for item in left) else DONE


def _answer(store: str, gone: Sequence[Delivery], left: Sequence[Delivery]) -> str:
    done = f"delivered to {store}: {_counted(gone)}" if gone else f"nothing was delivered to {store}"
    return f"{done}; {f'still waiting: {_counted(left)}' if left else 'nothing waits'}"


def _counted(found: Sequence[Delivery]) -> str:
    sessions = "1 session" if len(found) == 1 else f"{len(found)} sessions"
    return f"{_runs(sum(item.runs for item in found))} of {sessions}"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _listed(found: Sequence[Delivery]) -> list[dict[str, str | int]]:
    return [
        {"session": item.session, "runs": item.runs, "store": item.store, "reason": item.waits, "file": str(item.path)}
        for item in found
    ]
