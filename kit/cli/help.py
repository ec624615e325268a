"""``kit help``: topics that the help of several commands refers to."""

from __future__ import annotations

import click

from kit.cli.drivers import arms

_TOPICS = {"arms": arms}

_EPILOG = """\b
Examples:
  kit help arms
  kit compare --help-all"""


@click.command("help", epilog=_EPILOG)
@click.argument("topic", type=click.Choice(list(_TOPICS)))
def help_(topic: str) -> None:
    """Explain a topic."""
    click.echo(_TOPICS[topic]())
