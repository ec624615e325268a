"""``kit bisect``: find the commit, or the version of an engine, that made a build slower."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kit.cli.completion import complete_arms, complete_images, complete_scenarios
from kit.cli.measuring_command import MeasuringCommand, request_option
from kit.cli.options import (
    cache_from_option,
    check_writable,
    json_option,
    store_option,
    the_store,
    wait_idle_option,
    wait_option,
    write,
)
from kit.cli.streams import complain
from kit.core.errors import UsageError
from kit.core.exit_code import BUSY, DONE, FAILED, INTERRUPTED, USAGE, described
from kit.core.quantity import duration, pairs, percentage
from kit.report.renderer import BISECTION, find

if TYPE_CHECKING:
    from kit.bisection.candidates import BisectionRange
    from kit.bisection.steps import BisectionRequest

_EPILOG = f"""\b
Examples:
  kit bisect --good v1.0 --bad main --arm layer:overlay2 -- make -j8
  kit bisect --good v1.0 --bad main --arm bare --prepare make -- ./benchmark
  kit bisect --good docker@20.10 --bad docker@29 --arm layer:overlay2 kernel:short --threshold 10%
  kit bisect --good v1.0 --bad main --arm layer:overlay2 --dry-run -- make

Each step compares a candidate with the good end, in rounds of both, until a sequential test decides. The same command
goes on after an interruption.
Exit code 1 also means that no single first slow candidate is known.
{described(DONE, FAILED, USAGE, BUSY, INTERRUPTED)}"""


class BisectCommand(MeasuringCommand):
    """Its budget is that of all steps."""

    own_defaults = ("budget",)


def _request_options(command: Any) -> Any:
    """Add the options that each step has in common with ``kit compare``."""
    made: tuple[Callable[[Any], Any], ...] = (
        request_option("prepare"),
        request_option("image", shell_complete=complete_images),
        request_option("rootfs"),
        click.option("--param", "params", metavar="K=V", multiple=True,
                     help="Set a parameter of the scenario (repeatable)."),
        request_option("engine"),
        request_option("docker"),
        request_option("directory"),
        request_option("cache"),
        request_option("cpuset"),
        request_option("interleave"),
        request_option("timeout"),
        request_option("size"),
        request_option("title"),
    )  # fmt: skip
    for add in reversed(made):
        command = add(command)
    return command


@click.command(cls=BisectCommand, epilog=_EPILOG)
@click.argument("scenario", required=False, metavar="[SCENARIO | -- COMMAND…]", shell_complete=complete_scenarios)
@click.option("--good", required=True, metavar="REV", help="Fast revision, or ENGINE@VERSION.")
@click.option("--bad", required=True, metavar="REV", help="Slow revision, or ENGINE@VERSION.")
@click.option("--arm", required=True, metavar="ARM", shell_complete=complete_arms, help="Arm to run candidates on.")
@click.option("--threshold", default="5%", show_default=True, metavar="P%", help="Slowdown to look for.")
@click.option("--confidence", default="95%", show_default=True, metavar="P%", help="Confidence of the whole answer.")
@click.option("--source", default="", metavar="DIR", help="Git repository of the revisions.  [the current directory]")
@_request_options
@click.option("--budget", default="", metavar="DURATION", help="Begin no round that would end later.")
@click.option("--restart", is_flag=True, help="Measure all steps again, also stored ones.")
@click.option("--dry-run", is_flag=True, help="Show the candidates and the number of steps.")
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Print only the answer, no progress.")
@cache_from_option
@wait_option
@wait_idle_option
@store_option
@click.pass_context
def bisect(
    context: click.Context, /, json_file: str, quiet: bool, wait: bool, wait_idle: str, store_url: str, **given: Any
) -> int:
    """Find the commit or engine version that made a build slower."""
    from kit.host.remote_cache import use_peers

    use_peers(given["cache_from"])
    check_writable(json_file)
    asked = _asked(context.meta.get("kit.command", ()), given)
    if given["dry_run"]:
        _describe(asked)
        return DONE
    # Half of a command's start: the store and the statistics, which nothing above needs.
    from kit.bisection.steps import run_bisection
    from kit.core.paths import find_paths
    from kit.report.text.progress import make_observer
    from kit.session.prepared import StartOptions

    start = StartOptions(wait, duration(wait_idle, "--wait-idle") if wait_idle else None)
    observer = make_observer(quiet)
    try:
        found = run_bisection(asked, find_paths(), the_store(store_url, patient=True), observer, start)
    except KeyboardInterrupt:
        complain(f"kit: the same command{_without_restart(asked)} goes on from here")
        raise
    finally:
        observer.close()
    if json_file:
        write(json_file, find(BISECTION, "json").render(found))
    if json_file != "-":
        click.echo(find(BISECTION, "table").render(found), nl=False)
    return DONE if found.first else FAILED


def _asked(command: tuple[str, ...], given: dict[str, Any]) -> BisectionRequest:
    from kit.bisection.candidates import check_arm, find_range
    from kit.bisection.steps import BisectionRequest
    from kit.model.arm import parse_arm
    from kit.model.default import DEFAULT_ENGINE
    from kit.model.options import read_quantities
    from kit.model.session import Request
    from kit.model.sweep import points

    if bool(given["scenario"]) == bool(command):
        hint = "use kit bisect … kernel:short, or kit bisect … -- make"
        raise UsageError("a bisection needs one scenario, or one command behind --", hint)
    source = str(Path(given["source"]).absolute())
    range_ = find_range(given["good"], given["bad"], source)
    if range_.revisions and not command:
        raise UsageError("revisions are those of a command's sources", "give the command behind --")
    engine = given["engine"] if range_.revisions else DEFAULT_ENGINE  # versions are those of their own engine
    arm = parse_arm(given["arm"], engine)
    check_arm(arm, range_)
    params = pairs(given["params"], "--param")
    if len(points(params)) > 1:  # a step has one verdict, not one for each
        raise UsageError("a bisection sweeps no parameter", "give each --param one value")
    quantities = read_quantities({name: given[name] for name in ("timeout", "size")}, "--")
    request = Request(
        scenario=given["scenario"] or "",
        title=given["title"],
        params=params,
        command=command,
        source=source if given["source"] or range_.revisions else "",
        prepare=given["prepare"],
        image=given["image"],
        rootfs=given["rootfs"],
        engine=engine,
        docker=given["docker"],
        directory=given["directory"],
        cache=given["cache"],
        cpuset=given["cpuset"],
        interleave=given["interleave"],
        **quantities,
    )
    return BisectionRequest(
        request,
        arm,
        range_,
        percentage(given["threshold"], "--threshold"),
        1 - percentage(given["confidence"], "--confidence"),
        duration(given["budget"], "--budget") if given["budget"] else None,
        given["restart"],
    )


def _describe(asked: BisectionRequest) -> None:
    """Describe the search and its first step: everything is looked up, nothing is built or started."""
    from kit.bisection.steps import most_steps
    from kit.model.plan import SlowdownTest
    from kit.session.plan.check import check_request

    candidates = asked.range.candidates
    steps = most_steps(candidates)
    test = SlowdownTest(asked.threshold, asked.error / steps)
    request = asked.step(candidates[-1], test, asked.request.interleave)
    check_request(request)
    click.echo(f"{len(candidates)} {_noun(asked.range)} after {asked.range.good.name}:")
    for item in candidates:
        click.echo(f"  {item.name} {item.subject}".rstrip())
    click.echo(
        f"at most {steps} comparison{'s' if steps > 1 else ''} with {asked.range.good.name} on {asked.arm}, "
        "and one more for each candidate that fails; "
        f"threshold {100 * test.threshold:g} %; probability of a wrong answer: at most {100 * asked.error:.2g} %"
    )


def _without_restart(asked: BisectionRequest) -> str:
    return " without --restart" if asked.again else ""


def _noun(range_: BisectionRange) -> str:
    several = len(range_.candidates) > 1
    return f"{'commit' if range_.revisions else 'version'}{'s' if several else ''}"
