"""Commands that measure a scenario or the words after ``--``; their options, grouped as the help shows them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import cloup
from click.core import ParameterSource
from cloup import option, option_group

from kit.cli.completion import (
    complete_arms,
    complete_filesystems,
    complete_images,
    complete_scenarios,
    complete_sessions,
)
from kit.cli.fleet_compare import fleet_options
from kit.cli.options import (
    cache_from_option,
    file_option,
    rank_options,
    store_option,
    wait_idle_option,
    wait_option,
)
from kit.core.exit_code import BUSY, DONE, FAILED, INTERRUPTED, NOT_RUN, USAGE, described
from kit.model.option import Option
from kit.model.options import COMMON, GUEST, MEASUREMENT, OPTIONS, OUTPUT, PLACES, TRACING
from kit.report.renderer import offered


class MeasuringCommand(cloup.Command):
    """Splits off the words after ``--``: the command to measure. Files with settings give defaults of its options."""

    #: Options that mean something else than those of ``kit compare``, for which the files are.
    own_defaults: tuple[str, ...] = ()

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        from kit.host.command import which

        if "--" in args:
            cut = args.index("--")
            context.meta["kit.command"] = tuple(args[cut + 1 :])
            args = args[:cut]
            if not context.meta["kit.command"]:
                raise click.UsageError("no command after --: name the command to measure", context)
        if not context.resilient_parsing and not {"-h", "--help", "--help-all"} & {*args}:
            from kit.host.settings_files import find_settings
            from kit.model.settings import option_values

            settings = option_values(find_settings())
            context.default_map = {name: value for name, value in settings.items() if name not in self.own_defaults}
        try:
            extra_args = super().parse_args(context, [*args])
        except click.UsageError as error:
            command = self._command(context, args)
            if command and (not getattr(error, "possibilities", None) or which(command[0])):
                raise MissingDashesError(error.message, context, args, command) from None
            raise
        command = self._command(context, args)
        if command and which(command[0]):
            raise MissingDashesError(f"unknown scenario '{command[0]}'", context, args, command)
        of_files = (context.default_map or {}).get("labels")
        if of_files and context.get_parameter_source("labels") is ParameterSource.COMMANDLINE:
            context.params["labels"] = (*of_files, *context.params["labels"])  # of one name, the last counts
        return extra_args

    def _command(self, context: click.Context, args: list[str]) -> list[str]:
        """Return the first word that is no option and all behind it, if they look like a command without its ``--``:
        that word is no scenario. Else return no words."""
        if context.resilient_parsing or context.meta.get("kit.command"):
            return []
        parser = self.make_parser(context)
        parser.allow_interspersed_args = False
        try:
            words, following, _ = parser.parse_args([*args])
        except click.UsageError:  # an option before it
            return []
        word = words.get("scenario")
        return [word, *following] if isinstance(word, str) and not _is_scenario(word) else []


def _is_scenario(word: str) -> bool:
    from kit.session.plan.planning import scenario_names

    return word.startswith("suite:") or ".toml" in word or word.partition(":")[0] in scenario_names()


class MissingDashesError(click.UsageError):
    """A command to measure is given without ``--`` before it. ``fix``: the command line with it."""

    def __init__(self, message: str, context: click.Context, args: list[str], command: list[str]) -> None:
        super().__init__(message, context)
        options = args[: len(args) - len(command)]
        self.fix = f"put -- before the command: {shlex.join([*context.command_path.split(), *options])} -- "
        self.fix += shlex.join(command)


#: Options whose values a shell completes.
_COMPLETED: Mapping[str, Any] = {"image": complete_images, "baseline": complete_arms, "load": complete_scenarios}


def session_option(field: Option) -> Callable[[Any], Any]:
    """Return an option of sessions for click."""
    more: dict[str, Any] = {}
    if field.kind is bool:
        return cloup.option(field.words, is_flag=True, default=field.default, help=field.help)
    if field.kind is dict:
        return cloup.option(field.words, field.name, metavar=field.metavar, multiple=True, help=field.help)
    if field.choices:
        more["type"] = click.Choice(field.choices)
    elif field.kind is int and not field.read:
        more["type"] = click.IntRange(1)
    if field.alone:
        more |= {"is_flag": False, "flag_value": field.alone}
    if field.name in _COMPLETED:
        more["shell_complete"] = _COMPLETED[field.name]
    return cloup.option(field.words, field.name, metavar=field.metavar, default=field.default, help=field.help, **more)


def grouped(
    title: str, *, first: Sequence[Any] = (), after: Mapping[str, Sequence[Any]] | None = None, last: Sequence[Any] = ()
) -> Callable[[Any], Any]:
    """Return a group of the help: options of sessions that name it, in their order, and others of this command.
    ``after``: those that follow an option of sessions, by its name."""
    options = [*first]
    for name, field in OPTIONS.items():
        if field.group == title:
            options += [session_option(field), *(after or {}).get(name, ())]
    return cloup.option_group(title, *options, *last)


EPILOG = f"""\b
Examples:
  kit compare smoke                                                check the set-up, one minute
  kit compare kernel:short                                         which driver for compiling?
  kit compare suite:storage                                        which driver for all builds? an hour
  kit compare --source . --arms bare,layer:overlay2,layer:btrfs -- make -j8
  kit compare kernel --arms bare,bind:overlay2@xfs,layer:overlay2@xfs --cache cold
  kit compare kernel:short --param jobs=1,2,4 --arms bare,layer:overlay2
  kit compare --source . --arms layer:overlay2 --command 'a=make -j2' --command 'b=make -j4'
  kit compare --image debian:12 --arms bare,layer:overlay2 -- sh -c 'find / -xdev | wc -l'
  kit compare kernel:short --guest uml --arms bare,bind:devicemapper,layer:devicemapper
  kit compare --resume last --budget 30m

The words after -- run without a shell, in a build tree with fresh sources for each run.
{described(DONE, FAILED, USAGE, NOT_RUN, BUSY, INTERRUPTED)}"""

#: Shown with every option.
MORE_EXAMPLES = """\b
More examples:
  kit compare kernel:short --rounds 5 --json result.json
  kit compare kernel --param config=defconfig --param targets='vmlinux modules'
  kit compare kernel:short --arms bare,runtime,bind:overlay2,layer:overlay2 --precision 2% --budget 1h
  kit compare kernel:short --arms runtime+cgroup=none+seccomp=unconfined,runtime+seccomp=unconfined,runtime
  kit compare fio --arms bare --fs ext4,ext4-tuned,tmpfs,tmpfs-sync
  kit compare git --arms bare,layer:overlay2 --fs ext4,mine --fs-file profiles.toml
  kit compare kernel:short --load kernel:loop --arms bare,layer:overlay2
  kit compare smoke --kernel ~/linux/arch/x86/boot/bzImage --arms bare,layer:aufs
  kit compare --source ~/project --arms bare,layer:overlay2 --title 'our build' -- make -j8
  kit compare --source ~/project --source-rev v1.0,main --arms layer:overlay2 -- make -j8
  kit compare kernel:short --arms bare,layer:overlay2 --explain-calls --profile
  kit compare kernel:short --cache-from /mnt/builders/b1/cache --cache-from https://b2.example.org/kit
  kit compare kernel:short --fleet fleet.example.org --fleet-tls ~/kit-fleet --split --machines 8 --rounds 24"""

#: Key in a context's ``meta``: every group of options is shown.
_HELP_ALL = "kit.help_all"


class CompareCommand(MeasuringCommand):
    """Shows one group of options unless asked for all."""

    def format_params(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        every = self.option_groups
        self.option_groups = every if context.meta.get(_HELP_ALL) else every[:1]
        try:
            super().format_params(context, formatter)
        finally:
            self.option_groups = every

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        if context.meta.get(_HELP_ALL):
            formatter.write_paragraph()
            formatter.write_text(MORE_EXAMPLES)
        super().format_epilog(context, formatter)

    def get_default_option_group(
        self, ctx: click.Context, is_the_only_visible_option_group: bool = False
    ) -> cloup.OptionGroup:
        """Return no group: each option has one, --help as well."""
        return cloup.OptionGroup("Other options", hidden=True)


def _show_help(context: click.Context, parameter: click.Parameter, requested: bool) -> None:
    if requested and not context.resilient_parsing:
        context.meta[_HELP_ALL] = parameter.name == "help_all"
        click.echo(context.get_help(), color=context.color)
        context.exit()


def _help_option(*names: str, help: str) -> Callable[[Any], Any]:  # noqa: A002 -- click's word
    return option(*names, is_flag=True, is_eager=True, expose_value=False, callback=_show_help, help=help)


_COMMON = grouped(
    COMMON,
    first=[
        option("--arms", metavar="A,B,…", shell_complete=complete_arms,
               help="Arms to compare; see kit help arms.  [those that this machine can run]"),
    ],
    after={"margin": [
        option("--param", "params", metavar="K=V", multiple=True,
               help="Set a parameter of the scenario (repeatable); K=V,W sweeps these values."),
    ]},
    last=[
        option("--resume", metavar="SESSION", shell_complete=complete_sessions,
               help="Continue a session (id or last); with --budget, an undecided one."),
        file_option("json"),
        option("--dry-run", is_flag=True, help="Show what would run."),
        option("-q", "--quiet", is_flag=True, help="Print only the answer, no progress."),
        _help_option("-h", "--help", help="Show this message."),
        _help_option("--help-all", help="Show every option."),
    ],
)  # fmt: skip

_MEASUREMENT = grouped(
    MEASUREMENT,
    after={
        "cache": [option("--copies", default="", metavar="N,N,…",
                         help="Run this many copies of the workload at once.  [1]")],
        "load": [option("--load-param", "load_params", metavar="K=V", multiple=True,
                        help="Set a parameter of the load.")],
    },
    last=[wait_option, wait_idle_option],
)  # fmt: skip

_PLACES = grouped(
    PLACES,
    first=[
        option("--fs", "filesystems", metavar="FS,FS,…", default="", shell_complete=complete_filesystems,
               help="Put each arm that names no filesystem on each of these."),
        option("--fs-file", default="", metavar="FILE", help="Read filesystem profiles from this TOML file."),
        option("--mkfs", multiple=True, metavar="FS=OPTIONS", help="Add options to mkfs (repeatable)."),
        option("--mount", multiple=True, metavar="FS=OPTIONS", help="Add mount options (repeatable)."),
    ],
    after={
        "directory": [
            option("--device", default="", metavar="/dev/X", help="Make the backing filesystem on this empty device."),
            option("--thin-device", default="", metavar="/dev/X",
                   help="Make the pool of devicemapper+thinpool on this empty device."),
            option("--wipe", multiple=True, metavar="/dev/X",
                   help="Destroy what this device holds first (repeatable)."),
            option("--export", default="", metavar="HOST:/PATH", help="NFS export for @nfs."),
        ],
        "rootfs": [cache_from_option],
    },
)  # fmt: skip

_GUEST = grouped(
    GUEST,
    last=[
        option("--guest-memory", default="", metavar="SIZE",
               help="Memory of the guest.  [half of the host's, 4G at most]"),
        option("--guest-cores", type=click.IntRange(1),
               help="CPUs of the guest.  [the host's; User-Mode Linux has one]"),
    ],
)  # fmt: skip

_OUTPUT = grouped(
    OUTPUT,
    last=[
        rank_options,
        *(file_option(renderer.name) for renderer in offered() if renderer.name != "json"),
        store_option,
    ],
)


def compare_options(command: Any) -> Any:
    """Decorate with every group, in the order of the help."""
    for group in reversed(
        (_COMMON, _MEASUREMENT, _PLACES, grouped(TRACING), _GUEST, option_group("Fleet", fleet_options), _OUTPUT)
    ):
        command = group(command)
    return command
