"""stdout and stderr of a command. stdout holds no character that acts on the terminal. A command ends without an error
when the reader of its stdout has gone; it goes on when the reader of its stderr has gone."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click

from kit.core.sanitize import printable, visible


class ReaderGoneError(Exception):
    """The reader of stdout has closed it. No OSError: click would end the command with a code of its own, and
    other code would take it for a failure of a file or a server."""


class UnmeasuredError(KeyboardInterrupt):
    """Ctrl-C before the first run of a session had ended: nothing is kept."""


class _Stream(io.TextIOWrapper):
    def write(self, text: str) -> int:
        with _noticed():
            return super().write(text)

    def flush(self) -> None:
        with _noticed():
            super().flush()


class _Plain(_Stream):
    """Text without control characters that act on the terminal, whatever a store, a workload or a name contains."""

    def write(self, text: str) -> int:
        return super().write(visible(text))


class _Messages(_Stream):
    """stderr: the rest is discarded when its reader has gone or its disk is full, since a measurement is worth more
    than its progress."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except (ReaderGoneError, OSError):
            _discard(self)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except (ReaderGoneError, OSError):
            _discard(self)


def take_streams() -> None:
    """Put the kit's streams in the place of Python's, unless a test has put something else there."""
    sys.stdout, sys.stderr = _taken(sys.stdout, _Plain), _taken(sys.stderr, _Messages)


def complain(text: str) -> None:
    """Print a message on stderr: of one line or more, without secrets and characters that act on the terminal."""
    click.echo(printable(text), err=True)


def flush_streams() -> None:
    """Write what is buffered, before Python does at its end. Raises ReaderGoneError."""
    sys.stdout.flush()
    sys.stderr.flush()


def drop_unread() -> None:
    """Discard what is still to be written to a reader that has gone, or to a full disk."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (ReaderGoneError, OSError):
            _discard(stream)


def _discard(stream: TextIO) -> None:
    """Let a stream write to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _taken(stream: TextIO, kind: type[_Stream]) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    encoding, by_line, unbuffered = stream.encoding, stream.line_buffering, stream.write_through
    return kind(stream.detach(), encoding, "backslashreplace", line_buffering=by_line, write_through=unbuffered)


@contextmanager
def _noticed() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ReaderGoneError from None
