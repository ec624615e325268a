"""The messages of ``kit nightly``: sent after a night whose state changed, or shown before one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kit.cli.streams import complain
from kit.core.errors import KitError

if TYPE_CHECKING:
    from kit.extra.history.analysis.night import Night
    from kit.extra.history.nightly.job import Job
    from kit.extra.history.nightly.notify import Destination
    from kit.store import Store


def notify(job: Job, night: Night, store: Store, destinations: Sequence[Destination]) -> None:
    """Send a message if the night changed a state. What can't be sent is a warning: the exit code is about what was
    measured."""
    from kit.extra.history.nightly.notify import send
    from kit.extra.history.nightly.previous import find_night_changes
    from kit.extra.history.report.message import make_message

    try:
        changes = find_night_changes(job, night, store)
    except KitError as error:
        complain(f"kit: no message is sent: the earlier nights are unknown: {error}")
        return
    if not changes:
        return
    message = make_message(night, changes)
    for destination in destinations:
        why = send(message, destination)
        notice = f"could not send the message to {destination}: {why}" if why else f"sent a message to {destination}"
        complain(f"kit: {notice}")


def preview(job: Job, store: Store, destinations: Sequence[Destination]) -> None:
    """Print where messages go, and the message about the newest sessions. Nothing is sent. Raises KitError."""
    from kit.extra.history.nightly.previous import find_last_night, find_night_changes
    from kit.extra.history.report.message import make_message

    click.echo(f"messages: {', '.join(map(str, destinations))}")
    night = find_last_night(job, store)
    if not night.parts:
        click.echo("no message to show: the store has no session of these tasks")
        return
    changes = find_night_changes(job, night, store)
    message = make_message(night, changes)
    file = message.attachment
    click.echo("the newest sessions would send:" if changes else "the newest sessions changed no state: not sent:")
    lines = [message.title, "", *message.body.splitlines(), *([f"attached: {file.name}"] if file else [])]
    click.echo("\n".join(f"  {line}".rstrip() for line in lines))
