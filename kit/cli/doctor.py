"""``kit doctor``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from kit.cli.options import json_flag

_EPILOG = """\b
Examples:
  sudo kit doctor
  sudo kit doctor --json | jq '.[] | select(.works | not)'

Everything is tried for real: filesystems are made and mounted, daemons started, containers run, all in private
places that are gone afterwards. The exit code is 0 also where things do not work: that is the answer."""


@click.command(epilog=_EPILOG)
@json_flag
@click.option("--wait", is_flag=True, help="Wait for a running session instead of refusing.")
def doctor(as_json: bool, wait: bool) -> None:
    """Try each engine, driver, filesystem, placement and figure; say what works, and what would mend the rest."""
    from kit.core.paths import find_paths
    from kit.report.progress import Lines, Quiet
    from kit.session.doctor import examine

    found = []
    shown = ""
    for finding in examine(find_paths(), Quiet() if as_json else Lines(), wait):
        found.append(finding)
        if as_json:
            continue
        if finding.kind != shown:
            click.echo(f"\n{finding.kind}" if shown else finding.kind)
            shown = finding.kind
        state = click.style("works", fg="green") if finding.works else click.style("no   ", fg="red")
        click.echo(f"  {state}  {finding.name:25} {finding.reason}", color=_color())
        if finding.fix and not finding.works:
            click.echo(f"         {'':25} fix: {finding.fix}")
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found], indent=1))


def _color() -> bool:
    import os

    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
