"""Pages on a terminal: laid out, in a pager. Where the output is a file or a pipe they stay Markdown."""

from __future__ import annotations

import io
import shutil
import sys

import click

#: Longer lines are hard to read, on wide screens too.
_WIDEST = 100


def show_page(markdown: str) -> None:
    if sys.stdout.isatty():
        click.echo_via_pager(lay_out(markdown, min(shutil.get_terminal_size().columns, _WIDEST)))
    else:
        click.echo(markdown, nl=False)


def lay_out(markdown: str, width: int) -> str:
    """Return the page with escape sequences, as its terminal understands them."""
    from rich.console import Console
    from rich.markdown import Markdown

    file = io.StringIO()
    Console(file=file, force_terminal=True, width=width).print(
        Markdown(markdown, code_theme="ansi_dark", hyperlinks=False)
    )
    return file.getvalue()
