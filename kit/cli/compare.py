"""``kit compare``: plan, run, table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kit.cli.compare_options import EPILOG, CompareCommand, compare_options
from kit.cli.completion import complete_scenarios
from kit.cli.fleet_compare import check_fleet_options, compare_each, fleet_context
from kit.cli.options import check_writable, the_store, wanted_files, write
from kit.core.errors import KitError, UsageError
from kit.core.quantity import duration, pairs, percentage, size, word_pairs
from kit.model.plan import TRACED_ROUNDS
from kit.report.renderer import FARM, find

if TYPE_CHECKING:
    from kit.fleet.run import FleetContext
    from kit.model.session import Request, Session
    from kit.store import Store


@click.command(cls=CompareCommand, epilog=EPILOG, add_help_option=False)
@click.argument("scenario", required=False, metavar="[SCENARIO | -- COMMAND…]", shell_complete=complete_scenarios)
@compare_options
@click.pass_context
def compare(context: click.Context, /, quiet: bool, wait: bool, wait_idle: str, store_url: str, **given: Any) -> int:
    """Run a build on several arms and show what each costs."""
    from kit.core.paths import find_paths
    from kit.host.peers import use_peers
    from kit.report.progress import make_observer
    from kit.session.planning import plan_of
    from kit.session.start import Patience, launch, resume

    check_fleet_options(given)
    use_peers(given["cache_from"])
    outputs = wanted_files(given)
    for path in outputs.values():
        check_writable(path)
    command: tuple[str, ...] = context.meta.get("kit.command", ())
    request = None if given["resume"] else _request(command, given)
    if given["resume"] and (given["scenario"] or command):
        raise UsageError("--resume takes no scenario: the session knows its own", "kit compare --resume SESSION")
    if given["dry_run"]:
        _describe(request)
        return 0
    store = the_store(store_url, patient=True)
    if given["reference"]:
        planned = plan_of(request).arms if request else store.get(given["resume"]).arms
        _check_reference(given["reference"], tuple(map(str, planned)))
    observer = make_observer(quiet)
    paths = find_paths()
    wipe = [Path(name).absolute() for name in given["wipe"]]
    patience = Patience(wait, duration(wait_idle, "--wait-idle") if wait_idle else None)
    try:
        if given["fleet"] and request and not given["split"]:
            found = compare_each(request, fleet_context(given, store, observer), outputs, observer.close)
            return max(map(exit_code, found))
        if given["fleet"]:
            session = _split(request, given["resume"], fleet_context(given, store, observer))
        elif request:
            session = launch(request, paths, store, observer, patience, wipe)
        else:
            session = resume(given["resume"], paths, store, observer, patience, wipe, _limits(given).get("budget"))
    except KeyboardInterrupt:
        observer.close()
        if observer.latest and observer.latest.samples:
            _report_so_far(_kept(store, observer.latest), given["rank"], given["reference"])
        raise
    finally:
        observer.close()
    report(session, outputs, given["rank"], given["reference"])
    return exit_code(session)


def _split(request: Request | None, resumed: str, fleet: FleetContext) -> Session:
    """One session that machines share, or what is left of it."""
    from kit.fleet.run import resume_split, run_split

    return run_split(request, fleet) if request else resume_split(resumed, fleet)


def _kept(store: Store, latest: Session) -> Session:
    """As the store has it: in which guest it ran, what was not run, which runs a burst has hit. What is known here
    where the store is away."""
    from kit.model.session import INTERRUPTED

    try:
        return store.get(latest.id)
    except KitError:
        return replace(latest, status=INTERRUPTED)


def _report_so_far(session: Session, rank: str, reference: str) -> None:
    """Of a session that was stopped; what it was to be ranked by or against may not have been measured yet."""
    try:
        report(session, {}, rank, reference)
    except UsageError:
        report(session, {})


def _check_reference(reference: str, arms: Sequence[str]) -> None:
    """Before hours of measuring, not after. Raises UsageError."""
    if reference not in arms:
        raise UsageError(f"--reference {reference}: no arm of this session", f"use one of: {', '.join(arms)}")


def report(session: Session, outputs: Mapping[str, str], rank: str = "", reference: str = "") -> None:
    """Print the answer, unless a file's place on stdout takes its own, and write the files."""
    from kit.analysis.analyse import analyse
    from kit.analysis.split_session import answer_split
    from kit.model.fact import makers
    from kit.report import render

    analysis = analyse(session, rank, reference)
    if "-" not in outputs.values():
        click.echo(render("answer", session, analysis), nl=False)
        if makers(session.facts):
            click.echo("\n" + find(FARM, "table").render(answer_split(session)), nl=False)
    for name, path in outputs.items():
        write(path, render(name, session, analysis))


def _describe(request: Request | None) -> None:
    """The plan of a request: everything is read and looked up, nothing is built, mounted or started."""
    from kit.host.machine import read_host
    from kit.session.planning import plan_session, with_guest_cores

    if request is None:
        raise UsageError("--dry-run goes with a new session", "kit show SESSION shows what a stopped one has measured")
    _, scenarios, plan = plan_session(request, with_guest_cores(request, read_host()))
    baselines = dict(plan.baselines)
    for point, scenario in scenarios.items():
        values = ", ".join(f"{key}={value}" for key, value in scenario.values)
        at = f" at {point}" if point else ""
        click.echo(
            f"{scenario.label}{at}: {', '.join(step.name for step in scenario.phases)}; {values or 'no parameters'}"
        )
    for arm in plan.arms:
        against = f", against {baselines[str(arm)]}" if str(arm) in baselines else ""
        click.echo(f"  {arm}{against}")
    runs = plan.rounds * len(plan.arms) * len(plan.points)
    least = "at least " if plan.open_ended else ""
    guest = f"; in a guest ({request.guest})" if request.guest else ""
    traced = f", then {TRACED_ROUNDS} traced rounds" if request.explain_calls or request.profile else ""
    click.echo(f"{least}{plan.rounds} rounds, {runs} runs{traced}, caches {plan.cache}{guest}")
    if request.guest and not request.kernel:
        from kit.core.paths import find_paths
        from kit.guest import AUTO, MACHINES
        from kit.session.guest_kernel import kernel_ahead

        kinds = tuple(MACHINES) if request.guest == AUTO else (request.guest,)
        for line in kernel_ahead(plan.arms, kinds, find_paths().cache):
            click.echo(line)


def exit_code(session: Session) -> int:
    """1 if a measured run failed, or nothing could run at all."""
    return 1 if session.failed or session.status == "failed" else 0


def _request(command: tuple[str, ...], given: dict[str, Any]) -> Request:
    from kit.filesystem import read_profiles
    from kit.model.arm import parse_arms
    from kit.model.session import Request

    if bool(given["scenario"]) == bool(command):
        raise UsageError(
            "name a scenario, or a command behind --", "kit compare smoke, or kit compare -- make; see kit scenarios"
        )
    if not command:
        for option in ("source", "prepare"):
            if given[option]:
                raise UsageError(f"--{option} goes with -- COMMAND", f"scenarios have parameters: --param {option}=…")
    if given["image"] and given["rootfs"]:
        raise UsageError("--image and --rootfs exclude each other", "give one of them")
    filesystems = tuple(name.strip() for name in given["filesystems"].split(",") if name.strip())
    listed = given["arms"] or ("bare" if filesystems else "")
    arms = parse_arms(listed, given["engine"], filesystems) if listed else ()
    profiles = read_profiles(Path(given["fs_file"])) if given["fs_file"] else {}
    return Request(
        scenario=given["scenario"] or "",
        title=given["title"],
        params=pairs(given["params"], "--param"),
        command=command,
        source=given["source"],
        prepare=given["prepare"],
        image=given["image"],
        rootfs=given["rootfs"],
        arms=tuple(map(str, arms)),
        engine=given["engine"],
        baseline=given["baseline"],
        rounds=given["rounds"],
        seed=given["seed"] or 0,
        cache=given["cache"],
        fresh=given["fresh"],
        size=size(given["size_text"]),
        directory=given["directory"],
        device=given["device"],
        mkfs=word_pairs(given["mkfs"], "--mkfs"),
        mount=pairs(given["mount"], "--mount"),
        profiles=tuple((name, profile.text) for name, profile in profiles.items()),
        export=given["export"],
        guest=_guest(given),
        kernel=given["kernel"],
        modules=given["modules"],
        guest_memory=size(given["guest_memory"], "--guest-memory") if given["guest_memory"] else 0,
        guest_cores=given["guest_cores"] or 0,
        docker=given["docker"],
        thin_device=given["thin_device"],
        load=given["load"],
        load_params=pairs(given["load_params"], "--load-param"),
        control=given["control"],
        repeats=not given["no_rerun"],
        explain_calls=given["explain_calls"],
        profile=given["profile"],
        interleave=given["interleave"],
        **_limits(given),
    )


def _limits(given: dict[str, Any]) -> dict[str, float]:
    """What ends a run or a session, of what was given. Raises UsageError."""
    readers = {"margin": percentage, "precision": percentage, "budget": duration, "timeout": duration}
    return {name: read(given[name], f"--{name}") for name, read in readers.items() if given[name]}


def _guest(given: dict[str, Any]) -> str:
    """--kernel means a guest; what belongs to one means nothing without."""
    if given["kernel"]:
        return given["guest"] or "auto"
    for name in ("modules", "guest_memory", "guest_cores"):
        if given[name] and (name == "modules" or not given["guest"]):
            raise UsageError(
                f"--{name.replace('_', '-')} goes with {'--kernel' if name == 'modules' else '--guest'}",
                "kit compare --help has examples",
            )
    return str(given["guest"])
