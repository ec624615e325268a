"""``kit nightly``: run the tasks of a file; the exit code says whether a limit was exceeded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kit.cli.options import (
    cache_from_option,
    check_the_store,
    json_option,
    store_option,
    the_store,
    wait_idle_option,
    write,
)
from kit.cli.streams import complain
from kit.core.errors import KitError, UsageError
from kit.core.exit_code import MEANINGS, described
from kit.core.quantity import duration
from kit.extra.history.renderers import NIGHT
from kit.host.output_file import append_output, check_output_directory, make_output_directory
from kit.report.renderer import find, renderers
from kit.session.machines import check_machine_options, machine_choice_options, the_machines

if TYPE_CHECKING:
    from kit.extra.history.analysis.night import Night
    from kit.extra.history.nightly.job import Job
    from kit.extra.history.nightly.notify import Destination

#: Files in the output directory.
_FILES = [item for item in renderers(NIGHT) if item.suffix]

_EPILOG = f"""\b
Examples:
  kit nightly nightly.toml --check          check the file, run nothing
  kit nightly nightly.toml
  kit nightly nightly.toml --wait-idle 30m --output /srv/kit/$(date +%F)
  kit nightly nightly.toml --fleet fleet.example.org --class large --machines 4
  KIT_STORE=postgresql+psycopg://ci@db/kit kit nightly nightly.toml

\b
A file:
  wait_idle = "30m"
  [defaults]
  rounds = 5
  [[tasks]]
  scenario = "kernel:short"
  arms = ["bare", "bind:overlay2", "layer:overlay2"]
  thresholds = ["layer:overlay2 < 10 %", "layer:overlay2 unpack < 60 %"]

A night fails where the interval of a penalty lies above its limit, corrected for the number of thresholds; with
on = "change" only after a change point in its history.

Written to the output directory: {", ".join(item.file for item in _FILES)}; the summary also to
$GITHUB_STEP_SUMMARY.
{described(*MEANINGS)}"""


@click.command(epilog=_EPILOG)
@click.argument("file", metavar="FILE.toml")
@click.option("--output", default="", metavar="DIR", help="Directory of the reports.  [the file's, else kit-nightly]")
@click.option("--check", "--dry-run", "check", is_flag=True, help="Check the file; show what would run and be sent.")
@machine_choice_options
@cache_from_option
@wait_idle_option
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Print only the summary, no progress.")
@store_option
def nightly(file: str, output: str, check: bool, wait_idle: str, quiet: bool, store_url: str, **given: Any) -> int:
    """Run a file of tasks; check them against limits and history."""
    from kit.extra.history.nightly.messages import preview
    from kit.extra.history.nightly.notify import open_destinations
    from kit.host.remote_cache import use_peers

    check_machine_options(given)
    use_peers(given["cache_from"])
    job = _job(file, output, wait_idle)
    _check_versions(job, file)
    destinations = open_destinations(job.notify)
    if check:
        describe(job, "task", not given.get("fleet"), f"{file}: ")
        check_output_directory(Path(job.output))
        click.echo(f"store: {check_the_store(store_url or job.store)}; reports: {job.output}")
        if destinations:
            preview(job, the_store(store_url or job.store, read_only=True), destinations)
        return 0
    return _run(job, destinations, quiet, store_url, given).exit_code


def _job(file: str, output: str, wait_idle: str) -> Job:
    from kit.core.regular import read_text
    from kit.extra.history.nightly.file import parse_nightly

    path = Path(file)
    text = read_text(path, "see the example of kit nightly --help")
    job = parse_nightly(text, file, path.stem)
    job = replace(job, output=output or job.output)
    return replace(job, wait_idle=duration(wait_idle, "--wait-idle")) if wait_idle else job


def _check_versions(job: Job, file: str) -> None:
    """Check the versions of engines before the first task runs, not before the last. Raises UsageError."""
    from kit.arms.engines.root import check_version
    from kit.model.arm import arms_of, engines_of

    for number, task in enumerate(job.tasks, 1):
        request = task.request
        for engine in (request.engine, *engines_of(arms_of(request.arms, request.engine))):
            check_version(engine, f"{file}: task {number}: ")


def describe(job: Job, noun: str, here: bool = True, where: str = "") -> None:
    """Describe the tasks of a night or suite, after the check of each. ``here``: they would run on this machine.
    ``where``: how an error begins, with the file. Raises UsageError."""
    from kit.session.plan.check import check_request, limits_note

    for number, task in enumerate(job.tasks, 1):
        try:
            plan = check_request(task.request, task.thresholds, here=here).plan
        except UsageError as error:
            raise UsageError(f"{where}{noun} {number}: {error.message}", error.hint) from None
        click.echo(f"{noun} {number}: {task.name}: {', '.join(map(str, plan.arms))}; at least {plan.rounds} rounds")
        if task.request.own_command not in ("", task.name):
            click.echo(f"  {task.request.own_command}")
        for threshold in task.thresholds:
            click.echo(f"  {threshold}")
        if note := limits_note(task.thresholds, plan):
            click.echo(f"  {note}")


def _run(job: Job, destinations: Sequence[Destination], quiet: bool, store_url: str, given: Mapping[str, Any]) -> Night:
    from kit.core.paths import find_paths
    from kit.extra.history.nightly.messages import notify
    from kit.extra.history.nightly.run import prune_night, run_night
    from kit.report.text.progress import make_observer

    output = Path(job.output)
    try:
        make_output_directory(output)
    except OSError as error:
        raise UsageError(
            f"{output}: {error.strerror}", "name a directory that you may write to: --output DIR"
        ) from None
    store = the_store(store_url or job.store, patient=True)
    observer = make_observer(quiet)
    elsewhere = the_machines().runner(given, store, observer) if given.get("fleet") else None
    try:
        night = run_night(job, find_paths(), store, observer, elsewhere)
    finally:
        observer.close()
    json_file = given["json_file"]
    _write_reports(night, output, json_file)
    if destinations:
        notify(job, night, store, destinations)  # the sessions before are still in the store
    try:
        if pruned := prune_night(job, night, find_paths(), store):
            (complain if json_file == "-" else click.echo)(pruned)
    except KitError as error:
        complain(f"kit: old sessions are not removed: {error}")
    return night


def _write_reports(night: Night, output: Path, json_file: str) -> None:
    for report in _FILES:
        write(str(output / report.file), report.render(night))
    step = os.environ.get("GITHUB_STEP_SUMMARY")
    if step:
        append_output(Path(step), find(NIGHT, "summary").render(night))
    if json_file:
        write(json_file, find(NIGHT, "nightly").render(night))
    if json_file == "-":
        return
    click.echo(find(NIGHT, "terminal").render(night), nl=False)
    click.echo(f"\nreports: {output.absolute()}")
