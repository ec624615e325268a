"""Pages on a terminal: laid out, in a pager. Where the output is a file or a pipe they stay Markdown."""

from __future__ import annotations

import io
import re
import shutil
import sys

import click

#: Longer lines are hard to read, on wide screens too: those of output have 100 columns, and a margin.
_WIDEST = 102
_ROW, _CODE = re.compile(r"^\|.*$", re.MULTILINE), re.compile(r"`[^`]*`")


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
        Markdown(_ROW.sub(_with_bars, markdown), code_theme="ansi_dark", hyperlinks=False)
    )
    return file.getvalue()


def _with_bars(row: re.Match[str]) -> str:
    """Return the row of a table with its bars in code escaped: there rich ends a cell, which the site does not."""
    return _CODE.sub(lambda code: re.sub(r"(?<!\\)\|", r"\|", code[0]), row[0])
