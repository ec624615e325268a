"""``kit compare … --fleet SCHEDULER``: the same on machines of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kit.cli.named_store import say_store
from kit.cli.options import Command, fleet_tls_option
from kit.core.errors import UsageError
from kit.core.exit_code import worst
from kit.core.listing import listed
from kit.extra.fleet.renderers import FLEET
from kit.model.options import OPTIONS
from kit.report.renderer import find
from kit.session.machines import Machines

if TYPE_CHECKING:
    from kit.extra.fleet.client.observer import FleetObserver
    from kit.extra.fleet.client.run import FleetContext
    from kit.model.session import Request, Session
    from kit.store import Store

#: Most sessions whose names follow the first one's.
_NAMED = 3
#: Options of one machine that are no options of sessions, by parameter.
_LOCAL = {
    "device": "--device", "thin_device": "--thin-device", "cache_from": "--cache-from", "wipe": "--wipe",
    "wait_idle": "--wait-idle",
}  # fmt: skip
_OPTIONS = (
    click.option("--fleet", metavar="SCHEDULER", default="", help="Run on machines of this fleet."),
    fleet_tls_option,
    click.option("--machines", type=click.IntRange(1), metavar="N", help="Number of machines.  [all that match]"),
    click.option("--class", "kind", default="", metavar="NAME", help="Only machines of this class."),
    click.option("--where", default="", metavar="'cores>=32,…'", help="Only machines matching these conditions."),
)  # fmt: skip


_SPLIT = click.option(
    "--split/--each", "split", default=None,
    help="Share one session's rounds among identical machines, or run one session on each.  [--each]",
)  # fmt: skip


def fleet_machines_options(command: Command) -> Command:
    """Add options that select machines of a fleet."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fleet_options(command: Command) -> Command:
    """Add all options of --fleet."""
    return fleet_machines_options(_SPLIT(command))


def check_fleet_options(given: Mapping[str, Any]) -> None:
    """Check options that require or exclude --fleet. Raises UsageError."""
    if given["fleet"]:
        local = {name: option.words for name, option in OPTIONS.items() if not option.on_fleet}
        for name, words in {**_LOCAL, **local}.items():
            if given.get(name):
                raise UsageError(
                    f"{words} works on one machine, not with --fleet",
                    "leave it out, or use it there, with kit compare or kit fleet worker",
                )
        return
    for name, option in (("machines", "--machines"), ("kind", "--class"), ("where", "--where"), ("split", "--split")):
        if given.get(name) not in (None, ""):
            raise UsageError(f"{option} needs --fleet SCHEDULER", "add --fleet SCHEDULER; see kit fleet --help")


def fleet_context(given: Mapping[str, Any], store: Store, observer: FleetObserver) -> FleetContext:
    """Return the connection data of a session on a fleet. Raises UsageError."""
    from kit.core.paths import find_paths
    from kit.extra.fleet.address import parse_address
    from kit.extra.fleet.client.run import FleetContext
    from kit.model.machine import Selection, parse_where

    selection = Selection(
        given["machines"] or 0, given["kind"], parse_where(given["where"]), bool(given.get("split", True))
    )
    address, reference = parse_address(given["fleet"], given["fleet_tls"]), given.get("reference", "")
    return FleetContext(address, selection, find_paths(), store, observer, reference)


def runner(given: Mapping[str, Any], store: Store, observer: FleetObserver) -> Callable[[Request], Session]:
    """Return what runs a request on machines that share its rounds, with the arms in the order of before. Raises
    UsageError."""
    from kit.extra.fleet.client.run import run_split

    return partial(run_split, context=replace(fleet_context(given, store, observer), keep_order=True))


def compare(
    request: Request | None, given: Mapping[str, Any], store: Store, observer: Any, outputs: Mapping[str, str]
) -> Session | int:
    """Run one session that machines share, or the rest of it, and return it; or a session on each machine, and return
    the exit code. Raises KitError."""
    from kit.extra.fleet.client.run import resume_split, run_split

    fleet = fleet_context(given, store, observer)
    if request is None:
        return resume_split(given["resume"], fleet)
    if given["split"]:
        return run_split(request, fleet)
    return worst(each.exit_code(request.arms) for each in compare_each(request, fleet, outputs, observer.close))


def compare_each(
    request: Request, fleet: FleetContext, outputs: Mapping[str, str], close: Callable[[], None]
) -> tuple[Session, ...]:
    """Run a session on each machine, and return the common answer; if interrupted, that of the finished ones.
    ``close``: ends the progress, before the answer."""
    from kit.extra.fleet.client.run import EachInterrupted, run_each

    if outputs:
        raise UsageError(
            "a file holds one session, and --each makes several", "use kit show SESSION --format NAME afterwards"
        )
    try:
        sessions = run_each(request, fleet)
    except EachInterrupted as stop:
        close()
        _report_each(stop.sessions)
        raise
    close()
    _report_each(sessions)
    return sessions


def _report_each(sessions: Sequence[Session]) -> None:
    from kit.analysis.session.analyse import analyse
    from kit.extra.fleet.analysis.answer import LeftOut, answer_sessions
    from kit.model.fact import WORKER
    from kit.model.session import DONE

    answer = answer_sessions([(session, analyse(session)) for session in sessions if session.status == DONE])
    unfinished = [
        LeftOut(WORKER.text(session.facts), session.id, session.status)
        for session in sessions
        if session.status != DONE
    ]
    answer = replace(answer, title=sessions[0].title, left_out=(*answer.left_out, *unfinished))
    click.echo(find(FLEET, "table").render(answer), nl=False)
    click.echo(f"each by itself: kit show {sessions[0].id}")
    say_store()
    if len(sessions) > 1:
        click.echo(f"the others: {listed([session.id for session in sessions[1:]], _NAMED)}")


MACHINES = Machines(fleet_options, fleet_machines_options, check_fleet_options, runner, compare)
