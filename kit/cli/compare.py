"""``kit compare``: plan, run, table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kit.cli.completion import complete_scenarios
from kit.cli.drivers import described, filesystems, unions
from kit.cli.fleet_compare import check_fleet_options, compare_each, fleet_context, fleet_options
from kit.cli.options import (
    cache_from_option,
    check_writable,
    file_options,
    rank_options,
    store_option,
    the_store,
    wait_idle_option,
    wait_option,
    wanted_files,
    write,
)
from kit.core.errors import KitError, UsageError
from kit.core.quantity import duration, pairs, percentage, size, word_pairs
from kit.model.drivers import DEFAULT_ENGINE, SESSION_ENGINES
from kit.model.plan import AUTO_ROUNDS, TRACED_ROUNDS
from kit.report.renderer import FARM, find

if TYPE_CHECKING:
    from kit.fleet.run import FleetContext
    from kit.model.session import Request, Session
    from kit.store import Store

_EPILOG = f"""\b
Arms:
  bare[@FS]                     chroot into the image, unpacked in a plain directory: the baseline
  runtime[@FS]                  that same directory, entered as a container: no driver is touched
  bind:DRIVER[@FS]              root filesystem from the driver, build tree on a bind mount
  volume:DRIVER[@FS]            … build tree on a volume
  layer:DRIVER[@FS]             … build tree in the container's writable layer
  tmpfs:DRIVER[@FS]             … build tree on a tmpfs
  union:UNION[@FS]              a union of plain directories, no engine: {unions()}
  host[@FS]                     the host's own toolchain, no chroot
  options: +seccomp=unconfined +cgroup=none +cpus=N +memory=SIZE; +control: an identical second copy
{described()}
{filesystems()}

\b
Examples:
  kit compare smoke
  kit compare kernel:short --rounds 5 --json result.json
  kit compare kernel --arms bare,bind:overlay2@xfs,layer:overlay2@xfs --cache cold
  kit compare kernel --param config=defconfig --param targets='vmlinux modules'
  kit compare kernel:short --param jobs=1,2,4 --arms bare,layer:overlay2
  kit compare kernel:short --arms bare,runtime,bind:overlay2,layer:overlay2 --precision 2% --budget 1h
  kit compare kernel:short --arms runtime+cgroup=none+seccomp=unconfined,runtime+seccomp=unconfined,runtime
  kit compare fio --arms bare --fs ext4,ext4-tuned,tmpfs,tmpfs-sync
  kit compare git --arms bare,layer:overlay2 --fs ext4,mine --fs-file profiles.toml
  kit compare kernel:short --load kernel:loop --arms bare,layer:overlay2
  kit compare kernel:short --guest uml --arms bare,bind:devicemapper,layer:devicemapper,layer:overlay2
  kit compare smoke --kernel ~/linux/arch/x86/boot/bzImage --arms bare,layer:aufs
  kit compare --source ~/project --arms bare,layer:overlay2,layer:btrfs --title 'our build' -- make -j8
  kit compare --image debian:12 --arms bare,layer:overlay2 -- sh -c 'find / -xdev | wc -l'
  kit compare kernel:short --arms bare,layer:overlay2 --explain-calls
  kit compare kernel:short --arms bare,layer:overlay2 --profile
  kit compare kernel:short --cache-from /mnt/builders/b1/cache --cache-from https://b2.example.org/kit
  kit compare --resume last
  kit compare kernel:short --fleet farm.example.org --fleet-tls ~/kit-fleet --split --machines 8 --rounds 24

The first word after -- is run without a shell, in the build tree; the sources are put there fresh for every run.
Exit codes: 0 done, 1 an arm failed, 2 usage or bad input, 130 interrupted."""


def _rounds(context: click.Context, option: click.Parameter, value: str) -> int:
    """Return a number of rounds, AUTO_ROUNDS for ``auto``."""
    if value != "auto" and not (value.isdecimal() and int(value)):
        raise UsageError(f"--rounds {value}: no number of rounds", "use auto, or a number from 1 on")
    return AUTO_ROUNDS if value == "auto" else int(value)


class _CompareCommand(click.Command):
    """Keeps what stands behind ``--`` apart: it is the command to measure."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            context.meta["kit.command"] = tuple(args[cut + 1 :])
            args = args[:cut]
            if not context.meta["kit.command"]:
                raise click.UsageError("nothing stands behind --: name the command to measure", context)
        return super().parse_args(context, args)


@click.command(cls=_CompareCommand, epilog=_EPILOG)
@click.argument("scenario", required=False, shell_complete=complete_scenarios)
@click.option("--arms", metavar="A,B,…", help="Arms to compare.  [default: the ladder on overlay2, layer on the rest]")
@click.option("--fs", "filesystems", metavar="FS,FS,…", default="",
              help="Put each arm that names no filesystem on each of these. Without --arms: bare on each.")  # fmt: skip
@click.option(
    "--fs-file", default="", metavar="FILE", help="Filesystem profiles of your own, TOML; see docs/method.md."
)
@click.option("--export", default="", metavar="HOST:/PATH", help="The NFS export of @nfs.")
@click.option("--baseline", metavar="ARM", default="", help="Compare with this arm.  [default: bare, same filesystem]")
@click.option("--rounds", callback=_rounds, default="auto", show_default=True, metavar="N|auto",
              help="Number of rounds; auto stops when each arm is decided.")  # fmt: skip
@click.option("--margin", metavar="P%", default="3%", show_default=True,
              help="Treat differences below this as equivalent.")  # fmt: skip
@click.option("--precision", metavar="P%", help="Go on until every ratio is known that well, 100 rounds at most.")
@click.option("--budget", metavar="TIME", help="Stop after this long.  [default: 10m with --rounds auto, else none]")
@click.option("--timeout", metavar="TIME", help="End a run that takes longer, preparations included: it has failed.")
@click.option(
    "--control/--no-control",
    default=None,
    help="Run the baseline twice in every round: what noise alone does.  [default: from 4 rounds on]",
)
@click.option("--no-repeats", is_flag=True, help="Make no run again that something outside the session has hit.")
@click.option("--interleave", metavar="MODE", default="auto", show_default=True,
              help="Interleave the arms of a round: auto, off, or a slice length such as 0.5s.")  # fmt: skip
@click.option("--cache", type=click.Choice(["warm", "cold"]), default="warm", show_default=True,
              help="warm: an unmeasured run of each arm first; cold: caches dropped before each run.")  # fmt: skip
@click.option("--seed", type=click.IntRange(1), help="Order of the runs.  [default: random, recorded]")
@click.option("--param", "params", metavar="K=V", multiple=True,
              help="A parameter of the scenario (repeatable). K=V,W,…: sweep these values in every round.")  # fmt: skip
@click.option("--engine", type=click.Choice(SESSION_ENGINES), default=DEFAULT_ENGINE, show_default=True,
              help="docker: private daemons; system: the Docker that is running, no root needed.")  # fmt: skip
@click.option("--docker", default="", metavar="PATH", help="Another dockerd, its directory, or docker-VERSION.tgz.")
@click.option("--image", default="", metavar="REF", help="Root filesystem: recipe, tarball or registry reference.")
@click.option("--rootfs", default="", metavar="DIR", help="Root filesystem from a directory.")
@click.option("--source", default="", metavar="DIR", help="With -- COMMAND: what the build tree holds at each start.")
@click.option("--prepare", default="", metavar="CMD", help="With -- COMMAND: shell command, untimed, before each run.")
@click.option("--size", "size_text", default="20G", show_default=True, help="Size of each (sparse) loop filesystem.")
@click.option("--dir", "directory", default="", metavar="DIR", help="Where arms on @dir keep their files.")
@click.option("--device", default="", metavar="/dev/X", help="Make the backing filesystem on this empty device.")
@click.option(
    "--wipe", multiple=True, metavar="/dev/X", help="Destroy what is on that device first (repeatable, at each start)."
)
@click.option(
    "--thin-device", default="", metavar="/dev/X", help="The pool of devicemapper+thinpool on this empty device."
)
@click.option("--mkfs", multiple=True, metavar="FS=OPTIONS", help="More options for mkfs (repeatable).")
@click.option("--mount", multiple=True, metavar="FS=OPTIONS", help="Mount options (repeatable).")
@click.option(
    "--load", default="", metavar="SCENARIO", help="Run this beside every run: niced, on the same filesystem."
)
@click.option("--load-param", "load_params", metavar="K=V", multiple=True, help="A parameter of it (repeatable).")
@click.option(
    "--explain-calls", is_flag=True, help="Trace three more rounds: which system calls cost what. See kit show --calls."
)
@click.option("--profile", is_flag=True,
              help="Take stacks in three more rounds: what functions cost what. See kit show --profile.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="A new filesystem for every run, not one per session.")
@click.option("--guest", is_flag=False, flag_value="auto", default="", type=click.Choice(["", "auto", "qemu", "uml"]),
              metavar="[qemu|uml]", help="Boot a guest kernel and run everything in it.")  # fmt: skip
@click.option("--kernel", default="", metavar="PATH", help="The guest's kernel: a bzImage, or a User-Mode Linux.")
@click.option("--modules", default="", metavar="DIR", help="Its /lib/modules/VERSION, where not all is built in.")
@click.option("--guest-memory", default="", metavar="SIZE", help="[default: half of the host's, 4G at most]")
@click.option("--guest-cores", type=click.IntRange(1), help="[default: the host's; User-Mode Linux has one]")
@click.option(
    "--title", default="", help="What to call the session.  [default: the scenario, or the command's first words]"
)
@click.option(
    "--resume",
    metavar="SESSION",
    help="Continue a session (an id, its beginning, or last); with --budget an undecided one.",
)
@wait_option
@fleet_options
@cache_from_option
@wait_idle_option
@file_options
@rank_options
@click.option("--dry-run", is_flag=True, help="Say what would be run, and end.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the answer.")
@store_option
@click.pass_context
def compare(context: click.Context, /, quiet: bool, wait: bool, wait_idle: str, store_url: str, **given: Any) -> int:
    """Run SCENARIO, or the command behind --, on several arms in random order, and print what each one costs."""
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
        repeats=not given["no_repeats"],
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
