"""``kit doctor``."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from kit.cli.options import json_option, wait_option, write_json

_EPILOG = """\b
Examples:
  sudo kit doctor
  sudo kit doctor --json | jq '.diagnoses[] | select(.works | not)'

Doctor makes and mounts filesystems, starts daemons and runs containers, in private places that it removes.
The exit code is 0 even where something does not work."""


@click.command(epilog=_EPILOG)
@json_option
@wait_option
def doctor(json_file: str, wait: bool) -> None:
    """Try what works on this machine; show fixes."""
    from kit.core.paths import find_paths
    from kit.report.text.progress import Lines, Quiet
    from kit.session.doctor import examine

    as_json = json_file == "-"
    found = []
    shown = ""
    for diagnosis in examine(find_paths(), Quiet() if as_json else Lines(), wait):
        found.append(diagnosis)
        if as_json:
            continue
        if diagnosis.kind != shown:
            click.echo(f"\n{diagnosis.kind}" if shown else diagnosis.kind)
            shown = diagnosis.kind
        state = click.style("works", fg="green") if diagnosis.works else click.style("no   ", fg="red")
        click.echo(f"  {state}  {diagnosis.name:25} {diagnosis.reason}", color=_color())
        if diagnosis.fix and not diagnosis.works:
            click.echo(f"         {'':25} fix: {diagnosis.fix}")
    if json_file:
        write_json(json_file, {"schema": 1, "diagnoses": [asdict(diagnosis) for diagnosis in found]})


def _color() -> bool:
    import os

    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
