"""Commands that measure a scenario or the words after ``--``, and their options for fields of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import cloup
from click.core import ParameterSource

from kit.model.options import OPTIONS


class MeasuringCommand(cloup.Command):
    """Splits off the words after ``--``: the command to measure. Files with settings give defaults of its options."""

    #: Options that mean something else than those of ``kit compare``, for which the files are.
    own_defaults: tuple[str, ...] = ()

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            context.meta["kit.command"] = tuple(args[cut + 1 :])
            args = args[:cut]
            if not context.meta["kit.command"]:
                raise click.UsageError("no command after --: name the command to measure", context)
        if not context.resilient_parsing and not {"-h", "--help", "--help-all"} & {*args}:
            from kit.host.settings_files import find_settings
            from kit.model.settings import option_values

            found = option_values(find_settings())
            context.default_map = {name: value for name, value in found.items() if name not in self.own_defaults}
        left = super().parse_args(context, args)
        of_files = (context.default_map or {}).get("labels")
        if of_files and context.get_parameter_source("labels") is ParameterSource.COMMANDLINE:
            context.params["labels"] = (*of_files, *context.params["labels"])  # of one name, the last counts
        return left


def request_option(name: str, **more: Any) -> Callable[[Any], Any]:
    """Return the option for this field of a request. ``more``: arguments for click alone."""
    item = OPTIONS[name]
    if item.kind is bool:
        return cloup.option(item.words, is_flag=True, default=item.default, help=item.help)
    if item.kind is dict:
        return cloup.option(item.words, item.name, metavar=item.metavar, multiple=True, help=item.help)
    if item.choices:
        more["type"] = click.Choice(item.choices)
    return cloup.option(item.words, item.name, metavar=item.metavar, default=item.default, help=item.help, **more)
