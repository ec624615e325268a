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
    deliveries = list(deliver(store, outbox_directory(paths.data)))
    delivered = [delivery for delivery in deliveries if not delivery.waits]
    waiting = [delivery for delivery in deliveries if delivery.waits]
    if json_file:
        document = {"schema": 1, "store": store.name, "delivered": _listed(delivered), "waits": _listed(waiting)}
        write_json(json_file, document)
    if json_file != "-":
        click.echo(_answer(store.name, delivered, waiting))
        for delivery in delivered:
            if delivery.killed:
                click.echo(f"  {delivery}")
        for delivery in waiting:
            click.echo(f"  {delivery.session}, {_runs(delivery.runs)}: {delivery.waits}")
        if any(delivery.store not in ("", store.name) for delivery in waiting):
            click.echo("  fix: kit sync --store URL, with the URL that their sessions had")
    return FAILED if any(delivery.waits != STILL_RUNS for delivery in waiting) else DONE


def _answer(store: str, delivered: Sequence[Delivery], waiting: Sequence[Delivery]) -> str:
    outcome = f"delivered to {store}: {_counted(delivered)}" if delivered else f"nothing was delivered to {store}"
    return f"{outcome}; {f'still waiting: {_counted(waiting)}' if waiting else 'nothing waits'}"


def _counted(deliveries: Sequence[Delivery]) -> str:
    sessions = "1 session" if len(deliveries) == 1 else f"{len(deliveries)} sessions"
    return f"{_runs(sum(delivery.runs for delivery in deliveries))} of {sessions}"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _listed(deliveries: Sequence[Delivery]) -> list[dict[str, str | int]]:
    return [
        {
            "session": delivery.session,
            "runs": delivery.runs,
            "store": delivery.store,
            "reason": delivery.waits,
            "file": str(delivery.path),
        }
        for delivery in deliveries
    ]
