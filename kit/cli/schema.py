"""``kit schema``: the JSON Schema of a document that a command writes."""

from __future__ import annotations

import json

import click

from kit.core.errors import UsageError

_EPILOG = """\b
Examples:
  kit schema                       list the documents
  kit schema session > session.schema.json"""


@click.command(epilog=_EPILOG)
@click.argument("name", required=False, metavar="[NAME]")
def schema(name: str | None) -> None:
    """Print the JSON Schema of a document.

    Without NAME, list the documents."""
    from kit.cli.schemas import DOCUMENTS

    if name is None:
        click.echo(
            "\n".join(f"{document_name:<18}{document.written_by}" for document_name, document in DOCUMENTS.items())
        )
        return
    if name not in DOCUMENTS:
        raise UsageError(f"unknown document '{name}'", f"use one of: {', '.join(DOCUMENTS)}")
    click.echo(json.dumps(DOCUMENTS[name].schema(name), indent=1))
