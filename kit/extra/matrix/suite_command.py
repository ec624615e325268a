"""``kit compare suite:NAME``: several scenarios within one budget, and the matrix of what they found."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kit.cli.named_store import say_store
from kit.cli.options import check_the_store, the_store
from kit.cli.scenario_kind import ScenarioKind
from kit.cli.streams import complain
from kit.core.errors import KitError, UsageError
from kit.core.exit_code import NOT_RUN, worst
from kit.core.quantity import duration, pairs
from kit.extra.matrix.renderers import MATRIX
from kit.model.options import OPTIONS, read_options
from kit.model.plan import DEFAULT_MARGIN
from kit.model.session import DONE
from kit.model.settings import SHARED_OPTIONS
from kit.report.renderer import find

if TYPE_CHECKING:
    from kit.extra.history.analysis.night import Task
    from kit.extra.history.nightly.job import Job
    from kit.extra.matrix.suite import SuitePart
    from kit.model.session import Request, Session
    from kit.model.sweep import Values
    from kit.store import Store

#: Options that replace what a suite's file says of each task, and those of the start.
_OF_REQUESTS = ("arms", *(name for name, option in OPTIONS.items() if option.in_suite))
_OF_START = (
    "scenario", "budget", "resume", "quiet", "wait", "wait_idle", "store_url", "dry_run", "cache_from", "params"
)  # fmt: skip
#: Those that may not change while a run goes on; a session stores the others as files and guests that it found.
_ALIKE = {*_OF_REQUESTS} - {"docker", "guest", "kernel"}
#: Settings that would take the suite's budget away from undecided arms.
_NO_SETTINGS = ("rounds", "precision", "budget")


def compare_suite(context: click.Context, values: Mapping[str, Any]) -> int:
    """Run the suite, print the matrix, and return the exit code. Raises KitError, KeyboardInterrupt."""
    from kit.extra.matrix.suite import find_suite
    from kit.host.remote_cache import use_peers

    fix = "leave it out, or write a suite of your own: kit compare suite:FILE.toml"
    if context.meta.get("kit.command"):
        raise UsageError("a command after -- does not work with a suite", fix)
    explicit = {name for name in values if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    for option in context.command.params:
        if option.name in explicit - {*_OF_REQUESTS, *_OF_START}:
            raise UsageError(f"{option.opts[0]} does not work with a suite", fix)
    use_peers(values["cache_from"])
    job = find_suite(values["scenario"])
    if "budget" in explicit:
        job = replace(job, budget=duration(values["budget"], "--budget"))
    set_ = {name for name in values if context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP}
    settings = _fields(values, (set_ & {"arms", *SHARED_OPTIONS}) - {*_NO_SETTINGS})
    change = partial(_changed, overrides=_fields(values, explicit & {*_OF_REQUESTS}), settings=settings)
    job = replace(job, tasks=tuple(replace(task, request=change(task.request)) for task in job.tasks))
    if params := pairs(values["params"], "--param"):
        job = _with_params(job, params)
    if values["dry_run"]:
        from kit.extra.history.nightly.command import describe

        describe(job, "scenario")
        check_the_store(values["store_url"])
        return 0
    return _run(job, values, explicit)


def _changed(request: Request, overrides: Mapping[str, Any], settings: Mapping[str, Any]) -> Request:
    """Return the request with what the command line names, and with settings where the suite's file has none."""
    from kit.extra.history.nightly.file import usual_request

    usual = usual_request()
    more = {name: value for name, value in settings.items() if getattr(request, name) == getattr(usual, name)}
    return replace(request, **{**more, **overrides})


def _with_params(job: Job, assignments: Values) -> Job:
    """Return the job with each parameter set in the scenarios that have it. Raises UsageError."""
    from kit.session.plan.planning import find_scenario

    def param_names(task: Task) -> set[str]:
        name = task.request.scenario
        return {param.name for param in find_scenario(name).params} if name else set()

    def changed(task: Task) -> Task:
        params = {
            **dict(task.request.params),
            **{name: text for name, text in assignments if name in param_names(task)},
        }
        return replace(task, request=replace(task.request, params=tuple(params.items())))

    names = set().union(*map(param_names, job.tasks))
    if strange := [name for name, _ in assignments if name not in names]:
        fix = f"use one of: {', '.join(sorted(names)) or 'none'}"
        raise UsageError(f"no scenario of suite '{job.name}' has a parameter '{strange[0]}'", fix)
    return replace(job, tasks=tuple(map(changed, job.tasks)))


def _fields(values: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """Return these options as fields of requests."""
    from kit.model.arm import arm_names

    fields = {name: values[name] for name in names}
    options = read_options(fields, "--")
    if "arms" in fields:
        fields["arms"] = arm_names(fields["arms"])
    if fields.get("kernel"):
        fields["guest"] = values["guest"] or "auto"
    return {**fields, **options}


def _run(job: Job, values: Mapping[str, Any], explicit: set[str]) -> int:
    """Run the suite. ``explicit``: options on the command line."""
    from kit.core.paths import find_paths
    from kit.extra.matrix.suite import Runner, find_run, new_run, run_suite
    from kit.host.machine import read_host
    from kit.report.text.progress import make_observer
    from kit.session.launch import launch
    from kit.session.prepared import StartOptions
    from kit.session.start import Resumption

    store, paths = the_store(values["store_url"], patient=True), find_paths()
    idle = duration(values["wait_idle"], "--wait-idle") if values["wait_idle"] else None
    start = StartOptions(values["wait"], idle)
    if values["resume"] not in (None, "", "last"):
        raise UsageError(f"--resume {values['resume']}: a suite continues its last run", "use --resume last")
    run, earlier = find_run(job, store, read_host().machine, paths.data) if values["resume"] else (new_run(job), {})
    for number, head in earlier.items():
        _check_begun(head, job.tasks[number - 1].request, explicit)
    observer = make_observer(values["quiet"])
    runner = Runner(
        lambda request: launch(request, paths, store, observer, start),
        lambda name, budget: launch(Resumption(name, budget), paths, store, observer, start),
        observer.tell,
    )
    try:
        parts = run_suite(job, run, earlier, runner)
    except KeyboardInterrupt:
        budget = values["budget"] if "budget" in explicit else ""
        complain(f"kit: to continue: {_again(values['scenario'], budget)}")
        raise
    finally:
        observer.close()
    return _report(parts, store, values["scenario"])


def _check_begun(head: Session, request: Request, explicit: set[str]) -> None:
    """A run goes on as it began. Raises UsageError if the command line says otherwise."""
    from kit.session.plan.planning import plan_of

    for name in sorted(explicit & _ALIKE):
        began, now = (getattr(each, name) for each in (head.request, request))
        if name == "arms":  # a session also has the arms that its plan added
            began, now = {*head.arms}, {*map(str, plan_of(request).arms)}
        if began != now:
            raise UsageError(
                f"--{name} differs from that of session {head.id}, with which this run began",
                "use its options, or leave out --resume to start another run",
            )


def _again(name: str, budget: str) -> str:
    """Return the command that continues the run."""
    more = f" --budget {budget}" if budget else ""
    return f"kit compare {shlex.quote(name)} --resume last{more}"


def _report(parts: tuple[SuitePart, ...], store: Store, name: str) -> int:
    """Print the matrix of the suite's sessions, and what did not run."""
    from kit.extra.matrix.stored import MatrixQuestion, find_matrix

    sessions = [part.session for part in parts if part.session and part.session.status == DONE and part.session.samples]
    margin = max((session.request.margin for session in sessions), default=DEFAULT_MARGIN)
    if sessions:
        question = MatrixQuestion(
            tuple(session.title for session in sessions),
            margin=margin,
            sessions=tuple(session.id for session in sessions),
        )
        try:
            click.echo(find(MATRIX, "table").render(find_matrix(store, question)), nl=False)
        except KitError as error:  # the sessions are stored all the same
            complain(f"kit: no matrix: {error}")
    for part in parts:
        if why := f"not run: {part.error}" if part.error else _why_not(part.session):
            click.echo(f"{part.task.name}: {why}")
    if any(part.session for part in parts):
        asked_margin = "" if margin == DEFAULT_MARGIN else f" --margin {100 * margin:g}%"
        click.echo(f"More: kit matrix{asked_margin}     Decide more: {_again(name, '1h')}")
        say_store()
    return worst(_code(part) for part in parts)


def _why_not(session: Session | None) -> str:
    """Return why a session has no figure; '' if it may have one."""
    if not session or (session.status == DONE and session.samples):
        return ""
    if _not_run(session):
        return f"not run: {session.not_run[0].reason}; fix: {session.not_run[0].fix}"
    errors = [f"{sample.arm}: {sample.error.splitlines()[0]}" for sample in session.failed if sample.error]
    return f"{session.status}: {errors[-1]}" if errors else f"its session is {session.status}"


def _not_run(session: Session) -> bool:
    return bool(session.not_run and not session.samples)


def _code(part: SuitePart) -> int:
    if part.session is None or _not_run(part.session):
        return NOT_RUN
    return part.session.exit_code(part.task.request.arms)


def _names() -> list[str]:
    from kit.extra.matrix.suite import suite_names

    return suite_names()


def _summary(name: str) -> str:
    from kit.extra.matrix.suite import find_suite

    return f"within one budget: {', '.join(task.name for task in find_suite(name).tasks)}"


SUITES = ScenarioKind(compare_suite, _names, _summary)
