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
def compare(context: click.Context, /, quiet: bool, wait: bool, wait_idle: str, store_url: str, **values: Any) -> int:
    """Run a build on several arms and show what each costs."""
    from kit.core.paths import find_paths
    from kit.host.remote_cache import use_peers

    if kind := find_kind(values["scenario"] or ""):
        every = {**values, "quiet": quiet, "wait": wait, "wait_idle": wait_idle, "store_url": store_url}
        return kind.compare(context, every)
    check_machine_options(values)
    use_peers(values["cache_from"])
    outputs = wanted_files(values)
    for path in outputs.values():
        check_writable(path)
    command: tuple[str, ...] = context.meta.get("kit.command", ())
    request = None if values["resume"] else _request(command, values)
    if values["resume"] and (values["scenario"] or command or values["commands"]):
        raise UsageError("--resume takes no scenario: the session has its own", "use kit compare --resume SESSION")
    if values["dry_run"]:
        _describe(request, values)
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
    start = StartOptions(wait, idle, _wiped(values), values["reference"])
    try:
        if values.get("fleet"):
            compared = the_machines().compare(request, values, store, observer, outputs)
            if isinstance(compared, int):
                return compared
            session = compared
        elif request:
            session = launch(request, paths, store, observer, start)
        else:
            explicit = context.get_parameter_source("budget") is ParameterSource.COMMANDLINE
            budget = read_parameters(values)["budget"] if explicit else None
            session = launch(Resumption(values["resume"], budget), paths, store, observer, start)
    except KeyboardInterrupt:
        observer.close()
        if observer.latest:
            _report_interrupted(observer.latest, store, values)
        raise _as_measured(observer.latest) from None
    finally:
        observer.close()
    report(session, outputs, values["rank"], values["reference"])
    # A fleet chooses default arms itself and keeps them as the request's.
    arms = request.arms if request else () if values.get("fleet") else session.request.arms
    return session.exit_code(arms)


def _kept(store: Store, latest: Session) -> Session:
    """Return the session as stored: its guest, arms that were not run, disturbed runs. Return the local one if the
    store is unavailable."""
    from kit.model.session import INTERRUPTED

    try:
        return store.get(latest.id)
    except KitError:
        return replace(latest, status=INTERRUPTED)


def _report_interrupted(latest: Session, store: Store, values: Mapping[str, Any]) -> None:
    if latest.samples:
        _report_so_far(_kept(store, latest), values["rank"], values["reference"])
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
        for name, path in sorted(outputs.items(), key=lambda output: output[1] == "-"):
            write(path, render(name, session, analysis))


def _describe(request: Request | None, values: Mapping[str, Any]) -> None:
    """Describe the plan of a request: everything is read and looked up, nothing is built, mounted or started."""
    from kit.model.drivers import lacking
    from kit.model.plan import check_reference
    from kit.session.plan.check import check_request
    from kit.session.plan.planning import the_docker

    if request is None:
        raise UsageError("--dry-run works with a new session only", "use kit show SESSION to see what it has measured")
    docker, on_fleet = the_docker(request), bool(values.get("fleet"))
    prepared = check_request(request, docker=docker, wipe=_wiped(values), here=not on_fleet)
    scenarios, plan = prepared.scenarios, prepared.plan
    check_reference(values["reference"], plan.arms)
    baselines = dict(plan.baselines)
    for point, scenario in scenarios.items():
        params = ", ".join(f"{key}={value}" for key, value in scenario.values)
        at = f" at {point}" if point else ""
        phases = ", ".join(step.name for step in scenario.phases)
        click.echo(f"{scenario.label}{at}: {phases}; {params or 'no parameters'}")
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


def _wiped(values: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple(Path(name).absolute() for name in values["wipe"])


def _request(command: tuple[str, ...], values: dict[str, Any]) -> Request:
    from kit.arms.filesystem import read_profiles
    from kit.model.arm import arm_names
    from kit.model.scenario import COPIES
    from kit.model.session import Request

    if sum(map(bool, (values["scenario"], command, values["commands"]))) != 1:
        hint = "use kit compare smoke, or kit compare -- make, or --command; list scenarios with kit scenarios"
        raise UsageError("a session needs one scenario, or one command behind --, or --command", hint)
    for option in ("source", "prepare") if values["scenario"] else ():
        if values[option]:
            raise UsageError(
                f"--{option} works with -- COMMAND and --command only",
                f"set a parameter of the scenario: --param {option}=…",
            )
    if values["image"] and values["rootfs"]:
        raise UsageError("--image and --rootfs exclude each other", "give one of them")
    filesystems = tuple(name.strip() for name in values["filesystems"].split(",") if name.strip())
    listed = values["arms"] or ("bare" if filesystems else "")
    profiles = read_profiles(Path(values["fs_file"])) if values["fs_file"] else {}
    options = read_parameters(values) | {"guest": _guest(values)}
    return Request(
        **options,
        scenario=values["scenario"] or "",
        params=(*pairs(values["params"], "--param"), *((COPIES, text) for text in (values["copies"],) if text)),
        command=command,
        arms=arm_names(listed, filesystems) if listed else (),
        device=values["device"],
        mkfs=word_pairs(values["mkfs"], "--mkfs"),
        mount=pairs(values["mount"], "--mount"),
        profiles=tuple((name, profile.text) for name, profile in profiles.items()),
        export=values["export"],
        guest_memory=size(values["guest_memory"], "--guest-memory") if values["guest_memory"] else 0,
        guest_cores=values["guest_cores"] or 0,
        thin_device=values["thin_device"],
        load_params=pairs(values["load_params"], "--load-param"),
    )


def _guest(values: dict[str, Any]) -> str:
    """Return the guest: --kernel implies one; options of a guest are invalid without one."""
    if values["kernel"]:
        return values["guest"] or "auto"
    for name in ("modules", "guest_memory", "guest_cores"):
        if values[name] and (name == "modules" or not values["guest"]):
            needed = "--kernel" if name == "modules" else "--guest"
            raise UsageError(f"--{name.replace('_', '-')} needs {needed}", f"add {needed}; see kit compare --help-all")
    return str(values["guest"])
