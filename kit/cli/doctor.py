"""``kit doctor``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from kit.cli.completion import complete_arms
from kit.cli.options import json_option, wait_option, write_json
from kit.core.exit_code import BUSY, DONE, NOT_RUN, USAGE, described

if TYPE_CHECKING:
    from kit.session.trial import Diagnosis

_EPILOG = f"""\b
Examples:
  sudo kit doctor
  sudo kit doctor layer:btrfs bind:overlay2@xfs      exits with 0 if both work
  sudo kit doctor --json | jq '.diagnoses[] | select(.works | not)'

Doctor makes and mounts filesystems, starts daemons and runs containers, in private places that it removes. Without ARM
the exit code is 0 even where something does not work.
{described(DONE, USAGE, NOT_RUN, BUSY)}"""


@click.command(epilog=_EPILOG)
@click.argument("arms", nargs=-1, metavar="[ARM]...", shell_complete=complete_arms)
@json_option
@wait_option
def doctor(arms: tuple[str, ...], json_file: str, wait: bool) -> int:
    """Try what works on this machine; show fixes.

    With ARM, try these arms alone; see kit help arms."""
    from kit.core.paths import find_paths
    from kit.model.arm import arm_names
    from kit.report.text.progress import Lines, Quiet
    from kit.session.doctor import examine
    from kit.session.trial import try_arms

    quiet = json_file == "-"
    paths, observer = find_paths(), Quiet() if quiet else Lines()
    if arms:
        diagnoses = list(try_arms(arm_names(",".join(arms)), paths, observer, wait))
        if not quiet:
            click.echo(describe_arms(diagnoses))
    else:
        diagnoses = _shown(examine(paths, observer, wait), quiet)
    if json_file:
        write_json(json_file, {"schema": 1, "diagnoses": [asdict(diagnosis) for diagnosis in diagnoses]})
    return arms_exit_code(diagnoses) if arms else DONE


def _shown(diagnoses: Iterable[Diagnosis], quiet: bool) -> list[Diagnosis]:
    """Print each diagnosis as soon as it is known; the same reason and fix several times in a row are printed once."""
    printed: list[Diagnosis] = []
    for diagnosis in diagnoses:
        previous = printed[-1] if printed else None
        if not quiet:
            if previous is None or diagnosis.kind != previous.kind:
                click.echo(f"\n{diagnosis.kind}" if printed else diagnosis.kind)
            repeated = previous is not None and replace(previous, name=diagnosis.name) == diagnosis
            reason = "as above" if repeated and diagnosis.fix else diagnosis.reason
            click.echo(f"  {'works' if diagnosis.works else 'no   '}  {diagnosis.name:25} {reason}")
            if diagnosis.fix and not diagnosis.works and not repeated:
                click.echo(f"         {'':25} fix: {diagnosis.fix}")
        printed.append(diagnosis)
    return printed


def describe_arms(diagnoses: Sequence[Diagnosis]) -> str:
    """Return the answer, then a line for each arm."""
    missing = [diagnosis.name for diagnosis in diagnoses if not diagnosis.works]
    answer = f"cannot run here: {', '.join(missing)}" if missing else "all arms work"
    width = max(len(diagnosis.name) for diagnosis in diagnoses)
    lines = [answer, ""]
    for diagnosis in diagnoses:
        lines.append(f"{'works' if diagnosis.works else 'not run':7}  {diagnosis.name:{width}}  {diagnosis.reason}")
        if diagnosis.fix and not diagnosis.works:
            lines.append(f"{'':{width + 9}}  fix: {diagnosis.fix}")
    return "\n".join(lines)


def arms_exit_code(diagnoses: Iterable[Diagnosis]) -> int:
    return DONE if all(diagnosis.works for diagnosis in diagnoses) else NOT_RUN
