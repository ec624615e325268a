"""Commands that measure a scenario or the words after ``--``, and their options for fields of a request."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import cloup
from click.core import ParameterSource

from kit.cli.completion import complete_arms, complete_images, complete_scenarios
from kit.model.options import OPTIONS, Option


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


def session_option(option: Option) -> Callable[[Any], Any]:
    """Return an option of sessions for click."""
    more: dict[str, Any] = {}
    if option.kind is bool:
        return cloup.option(option.words, is_flag=True, default=option.default, help=option.help)
    if option.kind is dict:
        return cloup.option(option.words, option.name, metavar=option.metavar, multiple=True, help=option.help)
    if option.choices:
        more["type"] = click.Choice(option.choices)
    elif option.kind is int and not option.read:
        more["type"] = click.IntRange(1)
    if option.alone:
        more |= {"is_flag": False, "flag_value": option.alone}
    if option.name in _COMPLETED:
        more["shell_complete"] = _COMPLETED[option.name]
    return cloup.option(
        option.words, option.name, metavar=option.metavar, default=option.default, help=option.help, **more
    )


def grouped(
    title: str, *, first: Sequence[Any] = (), after: Mapping[str, Sequence[Any]] | None = None, last: Sequence[Any] = ()
) -> Callable[[Any], Any]:
    """Return a group of the help: options of sessions that name it, in their order, and others of this command.
    ``after``: those that follow an option of sessions, by its name."""
    options = [*first]
    for name, option in OPTIONS.items():
        if option.group == title:
            options += [session_option(option), *(after or {}).get(name, ())]
    return cloup.option_group(title, *options, *last)
