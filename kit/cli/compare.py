"""``kit compare``: plan, run, table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kit.cli.compare_options import EPILOG, CompareCommand, compare_options
from kit.cli.completion import complete_scenarios
from kit.cli.named_store import named_store, say_store
from kit.cli.options import (
    check_the_store,
    check_writable,
    the_store,
    wanted_files,
    write,
)
from kit.cli.scenario_kind import find_kind
from kit.cli.streams import UnmeasuredError
from kit.core.errors import KitError, UsageError
from kit.core.quantity import duration, pairs, size, word_pairs
from kit.extensions import EXTRAS
from kit.model.options import read_parameters
from kit.model.plan import TRACED_ROUNDS
from kit.session.machines import check_machine_options, the_machines

if TYPE_CHECKING:
    from kit.model.session import Request, Session
    from kit.store import Store


@click.command(cls=CompareCommand, epilog=EPILOG, add_help_option=False)
@click.argument("scenario", required=False, metavar="[SCENARIO | -- COMMAND…]", shell_complete=complete_scenarios)
@compare_options
@click.pass_context
def compare(context: click.Context, /, quiet: bool, wait: bool, wait_idle: str, store_url: str, **given: Any) -> int:
    """Run a build on several arms and show what each costs."""
    from kit.core.paths import find_paths
    from kit.host.remote_cache import use_peers

    if kind := find_kind(given["scenario"] or ""):
        every = {**given, "quiet": quiet, "wait": wait, "wait_idle": wait_idle, "store_url": store_url}
        return kind.compare(context, every)
    check_machine_options(given)
    use_peers(given["cache_from"])
    outputs = wanted_files(given)
    for path in outputs.values():
        check_writable(path)
    command: tuple[str, ...] = context.meta.get("kit.command", ())
    request = None if given["resume"] else _request(command, given)
    if given["resume"] and (given["scenario"] or command or given["commands"]):
        raise UsageError("--resume takes no scenario: the session has its own", "use kit compare --resume SESSION")
    if given["dry_run"]:
        _describe(request, given)
        check_the_store(store_url)
        return 0
    # Half of a command's start: the store and the statistics, which nothing above needs.
    from kit.report.text.progress import make_observer
    from kit.session.launch import launch
    from kit.session.prepared import StartOptions
    from kit.session.start import Resumption

    store = the_store(store_url, patient=True)
    observer = make_observer(quiet)
    paths = find_paths()
    idle = duration(wait_idle, "--wait-idle") if wait_idle else None
    start = StartOptions(wait, idle, _wiped(given), given["reference"])
    try:
        if given.get("fleet"):
            compared = the_machines().compare(request, given, store, observer, outputs)
            if isinstance(compared, int):
                return compared
            session = compared
        elif request:
            session = launch(request, paths, store, observer, start)
        else:
            asked = context.get_parameter_source("budget") is ParameterSource.COMMANDLINE
            budget = read_parameters(given)["budget"] if asked else None
            session = launch(Resumption(given["resume"], budget), paths, store, observer, start)
    except KeyboardInterrupt:
        observer.close()
        if observer.latest:
            _report_interrupted(observer.latest, store, given)
        raise _as_measured(observer.latest) from None
    finally:
        observer.close()
    report(session, outputs, given["rank"], given["reference"])
    # A fleet chooses default arms itself and keeps them as the request's.
    named = request.arms if request else () if given.get("fleet") else session.request.arms
    return session.exit_code(named)


def _kept(store: Store, latest: Session) -> Session:
    """Return the session as stored: its guest, arms that were not run, disturbed runs. Return the local one if the
    store is unavailable."""
    from kit.model.session import INTERRUPTED

    try:
        return store.get(latest.id)
    except KitError:
        return replace(latest, status=INTERRUPTED)


def _report_interrupted(latest: Session, store: Store, given: Mapping[str, Any]) -> None:
    if latest.samples:
        _report_so_far(_kept(store, latest), given["rank"], given["reference"])
    elif latest.resume_command:
        click.echo(f"nothing was measured yet; to run it: {latest.resume_command}{named_store().option}")


def _as_measured(latest: Session | None) -> KeyboardInterrupt:
    """Return the interrupt of a session; that of a fleet with a session for each machine is not known here."""
    return UnmeasuredError() if latest and not latest.samples else KeyboardInterrupt()


def _report_so_far(session: Session, rank: str, reference: str) -> None:
    """Report an interrupted session, which may lack the ranking's metric or reference."""
    try:
        report(session, {}, rank, reference)
    except UsageError:
        report(session, {})


def report(session: Session, outputs: Mapping[str, str], rank: str = "", reference: str = "") -> None:
    """Print the answer, unless a file goes to stdout instead, and write the files, also if the reader of stdout has
    gone."""
    from kit.analysis.session.analyse import analyse
    from kit.report import render

    analysis = analyse(session, rank, reference)
    try:
        if "-" not in outputs.values():
            click.echo(render("answer", session, analysis), nl=False)
            for extra in EXTRAS:
                if extra.after_answer and (text := extra.load(extra.after_answer)(session)):
                    click.echo(f"\n{text}", nl=False)
            say_store()
    finally:
        for name, path in sorted(outputs.items(), key=lambda item: item[1] == "-"):
            write(path, render(name, session, analysis))


def _describe(request: Request | None, given: Mapping[str, Any]) -> None:
    """Describe the plan of a request: everything is read and looked up, nothing is built, mounted or started."""
    from kit.model.default_driver import lacking
    from kit.model.plan import check_reference
    from kit.session.plan.check import check_request
    from kit.session.plan.planning import the_docker

    if request is None:
        raise UsageError("--dry-run works with a new session only", "use kit show SESSION to see what it has measured")
    docker, on_fleet = the_docker(request), bool(given.get("fleet"))
    prepared = check_request(request, docker=docker, wipe=_wiped(given), here=not on_fleet)
    scenarios, plan = prepared.scenarios, prepared.plan
    check_reference(given["reference"], plan.arms)
    baselines = dict(plan.baselines)
    for point, scenario in scenarios.items():
        values = ", ".join(f"{key}={value}" for key, value in scenario.values)
        at = f" at {point}" if point else ""
        phases = ", ".join(step.name for step in scenario.phases)
        click.echo(f"{scenario.label}{at}: {phases}; {values or 'no parameters'}")
    click.echo(f"  image {prepared.image}" if prepared.image else "  no image: the host's own programs")
    for name, text in (*prepared.request.commands, *prepared.request.revisions):
        click.echo(f"  {name}: {text}")
    for arm in plan.arms:
        against = f", vs {baselines[str(arm)]}" if str(arm) in baselines else ""
        reasons = (lacking(part.engine, part.driver, docker) for part in arm.parts if not on_fleet)
        reason = next(filter(None, reasons), "")
        click.echo(f"  {arm}{against}" + (f"; not run: {reason}" if reason else ""))
    if on_fleet and not (request.arms or request.guest):
        click.echo("these are the default arms of this machine; those of a fleet follow the Docker of its machines")
    runs = plan.rounds * len(plan.arms) * len(plan.points)
    least = "at least " if plan.open_ended else ""
    guest = f"; in a guest ({request.guest})" if request.guest else ""
    traced = f", then {TRACED_ROUNDS} traced rounds" if request.explain_calls or request.profile else ""
    click.echo(f"{least}{plan.rounds} rounds, {runs} runs{traced}, caches {plan.cache}{guest}")
    if request.guest and not request.kernel:
        from kit.core.paths import find_paths
        from kit.session.place import find_places

        for line in find_places().ahead(request, plan.arms, find_paths().cache):
            click.echo(line)


def _wiped(given: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple(Path(name).absolute() for name in given["wipe"])


def _request(command: tuple[str, ...], given: dict[str, Any]) -> Request:
    from kit.filesystem import read_profiles
    from kit.model.arm import arm_names
    from kit.model.session import Request
    from kit.model.sweep import COPIES

    if sum(map(bool, (given["scenario"], command, given["commands"]))) != 1:
        hint = "use kit compare smoke, or kit compare -- make, or --command; list scenarios with kit scenarios"
        raise UsageError("a session needs one scenario, or one command behind --, or --command", hint)
    for option in ("source", "prepare") if given["scenario"] else ():
        if given[option]:
            raise UsageError(
                f"--{option} works with -- COMMAND and --command only",
                f"set a parameter of the scenario: --param {option}=…",
            )
    if given["image"] and given["rootfs"]:
        raise UsageError("--image and --rootfs exclude each other", "give one of them")
    filesystems = tuple(name.strip() for name in given["filesystems"].split(",") if name.strip())
    listed = given["arms"] or ("bare" if filesystems else "")
    profiles = read_profiles(Path(given["fs_file"])) if given["fs_file"] else {}
    options = read_parameters(given) | {"guest": _guest(given)}
    return Request(
        **options,
        scenario=given["scenario"] or "",
        params=(*pairs(given["params"], "--param"), *((COPIES, text) for text in (given["copies"],) if text)),
        command=command,
        arms=arm_names(listed, filesystems) if listed else (),
        device=given["device"],
        mkfs=word_pairs(given["mkfs"], "--mkfs"),
        mount=pairs(given["mount"], "--mount"),
        profiles=tuple((name, profile.text) for name, profile in profiles.items()),
        export=given["export"],
        guest_memory=size(given["guest_memory"], "--guest-memory") if given["guest_memory"] else 0,
        guest_cores=given["guest_cores"] or 0,
        thin_device=given["thin_device"],
        load_params=pairs(given["load_params"], "--load-param"),
    )


def _guest(given: dict[str, Any]) -> str:
    """Return the guest: --kernel implies one; options of a guest are invalid without one."""
    if given["kernel"]:
        return given["guest"] or "auto"
    for name in ("modules", "guest_memory", "guest_cores"):
        if given[name] and (name == "modules" or not given["guest"]):
            needed = "--kernel" if name == "modules" else "--guest"
            raise UsageError(f"--{name.replace('_', '-')} needs {needed}", f"add {needed}; see kit compare --help-all")
    return str(given["guest"])
