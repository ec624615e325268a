"""The store that a command line or a file names: commands that are printed need the same option."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import click

from kit.core.redact import redact


@dataclass
class NamedStore:
    """What one command line names: the ``obj`` of its click context."""

    url: str = ""  # '' where another command opens the same store without an option

    @property
    def option(self) -> str:
        """Return the option that printed commands need besides, without a password; '' if they need none."""
        return f" --store {shlex.quote(redact(self.url))}" if self.url else ""


def named_store() -> NamedStore:
    """Return that of the running command."""
    context = click.get_current_context(silent=True)
    return (context and context.find_object(NamedStore)) or NamedStore()


def say_store() -> None:
    """Print the option below printed commands."""
    if option := named_store().option:
        click.echo(f"These commands need{option}")
