"""``kit prune``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kit.cli.completion import complete_scenarios
from kit.cli.options import json_option, store_option, the_store, wait_option, write_json
from kit.cli.streams import complain
from kit.core.quantity import duration

if TYPE_CHECKING:
    from kit.session.prune import Pruning
    from kit.store.retention import Limit

_EPILOG = """\b
Examples:
  kit prune --keep 90d --dry-run                 what would be removed
  kit prune --keep 90d --keep-changes
  kit prune --keep 365d --keep-changes --ignore sources --store postgresql+psycopg://kit@db/kit
  kit prune --keep 30d --scenario smoke          sessions of smoke and their logs, no caches
  kit prune --keep 2026-08-30                    sessions since that day, whatever the clock says

kit prune removes older sessions with their logs. It also removes images, inputs, engines and kernels that no session
has used since; the next session that needs one rebuilds it. In a shared store only the owner may remove sessions."""


@click.command(epilog=_EPILOG)
@click.option(
    "--keep",
    required=True,
    metavar="DURATION|DAY",
    help="Keep sessions younger than this, or since this day: 90d, 2026-08-30.",
)
@click.option("--keep-changes", is_flag=True, help="Keep the sessions at and next to each change of real time.")
@click.option("--ignore", "across", multiple=True, metavar="FACT",
              help="Ignore this fact to find change points, as kit history does (repeatable).")  # fmt: skip
@click.option("--scenario", default="", help="Only sessions of this scenario.", shell_complete=complete_scenarios)
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@json_option
@wait_option
@store_option
def prune(
    keep: str,
    keep_changes: bool,
    across: tuple[str, ...],
    scenario: str,
    dry_run: bool,
    json_file: str,
    wait: bool,
    store_url: str,
) -> None:
    """Remove old sessions, logs and unused cache entries."""
    from kit.core.paths import find_paths
    from kit.host.lock import machine_lock
    from kit.report.format.sanitize import shown
    from kit.session.prune import plan_pruning
    from kit.session.prune import prune as remove
    from kit.store.retention import Limit, Retention, find_limit

    now = time.time()
    date = _date(keep)
    seconds = 0.0 if date else duration(keep, "--keep")
    paths = find_paths()
    with ExitStack() as stack:
        if not dry_run:
            stack.enter_context(machine_lock(paths.lock, "kit prune", wait, click.echo))
        store = the_store(store_url, read_only=dry_run)
        limit = Limit(date) if date else find_limit(store, seconds, now)
        rule = Retention(limit.before, keep_changes, {scenario: across} if scenario else None, across)
        pruning = plan_pruning(store, paths, rule, now)
        if not dry_run:
            remove(store, paths, pruning)
    if limit.pause:
        complain(_pause(limit))
    pruning = replace(pruning, expired=shown(pruning.expired))
    if json_file:
        write_json(json_file, _document(pruning, dry_run))
    if json_file == "-":
        return
    for line in _lines(pruning):
        click.echo(line)
    click.echo(f"{'would be removed' if dry_run else 'removed'}: {pruning}")


def _date(text: str) -> float | None:
    """Return the beginning of a day, in UTC; None for another text."""
    with suppress(ValueError):
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    return None


def _pause(limit: Limit) -> str:
    from kit.core.quantity import shown_duration
    from kit.report.format.units import moment

    return (
        f"kit: what began after {moment(limit.before)} UTC stays: {shown_duration(limit.pause)} passed without a "
        "session, so the clock may be ahead\n  fix: if it is right, name a day: --keep YYYY-MM-DD"
    )


def _document(pruning: Pruning, dry_run: bool) -> dict[str, Any]:
    expired = pruning.expired
    listed = [{"id": session.id, "created": session.created, "title": session.title} for session in expired.sessions]
    files = {"logs": list(map(str, pruning.logs)), "caches": list(map(str, pruning.caches))}
    return {"schema": 1, "dry_run": dry_run, "sessions": listed, "kept": dict(expired.kept), **files}


def _lines(pruning: Pruning) -> Iterator[str]:
    from kit.report.format.units import moment

    for session in pruning.expired.sessions:
        yield f"session {session.id}, {moment(session.created)} UTC, {session.title}"
    for name, why in pruning.expired.kept.items():
        yield f"session {name} stays: {why}"
    yield from map(str, (*pruning.logs, *pruning.caches))
