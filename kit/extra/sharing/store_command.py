"""``kit store``: the store of many machines: its schema and its roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kit.cli.options import store_option, the_store

if TYPE_CHECKING:
    from kit.extra.sharing.statistics import State

_EPILOG = """\b
Examples:
  kit store setup --store postgresql+psycopg://kit@db/kit
  kit store grant writer builders --store postgresql+psycopg://kit@db/kit
  kit store grant reader grafana --store postgresql+psycopg://kit@db/kit

A writer adds sessions and changes those that its role began while they run; it removes nothing. A reader reads."""


@click.group(epilog=_EPILOG)
def store() -> None:
    """Set up a shared store; grant access."""


@store.command(epilog="\b\nExample:\n  kit store setup --store postgresql+psycopg://kit@db/kit")
@store_option
def setup(store_url: str) -> None:
    """Make the tables and views of a new store; show what exists.

    In an existing store, remove outcomes of other statistics."""
    from kit.extra.sharing.statistics import read_state
    from kit.store.schema.outcomes import drop_other_outcomes

    store = the_store(store_url)
    with store.writing() as connection:
        drop_other_outcomes(connection)
        state = read_state(connection)
    _show(store.name, state)


@store.command(epilog="\b\nExample:\n  kit store grant writer builders --store postgresql+psycopg://kit@db/kit")
@click.argument("kind", type=click.Choice(["writer", "reader"]))
@click.argument("role")
@store_option
def grant(kind: str, role: str, store_url: str) -> None:
    """Let ROLE, a role of the server, read the store or write to it.

    A writer adds sessions and runs; it changes and deletes none.
    This replaces earlier grants."""
    from kit.extra.sharing.roles import grant as grant_role
    from kit.extra.sharing.statistics import read_state

    store = the_store(store_url)
    with store.writing() as connection:
        grant_role(connection, role, kind)
        state = read_state(connection)
    _show(store.name, state)


def _show(name: str, state: State) -> None:
    size = f", {state.bytes / 2**20:,.0f} MiB" if state.bytes is not None else ""
    click.echo(f"{name} is ready: schema {state.schema}; sessions: {state.sessions:,}, runs: {state.runs:,}{size}")
    if state.members:
        click.echo(f"owner: {state.members.owner}")
        click.echo(f"writers: {', '.join(state.members.writers) or 'none; kit store grant writer ROLE'}")
        click.echo(f"readers: {', '.join(state.members.readers) or 'none; kit store grant reader ROLE'}")
