"""``kit completion``: a shell's script to complete the kit's words, and the words."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from kit.cli.streams import complain
from kit.core.errors import KitError

if TYPE_CHECKING:
    from kit.store import Store

_EPILOG = """\b
Examples:
  eval "$(kit completion bash)"                              in this shell
  kit completion bash > /etc/bash_completion.d/kit           for everyone
  kit completion zsh > "${fpath[1]}/_kit"
  kit completion fish > ~/.config/fish/completions/kit.fish

Commands, options, scenarios, arms, filesystems, images, metrics and sessions are completed."""

#: Words that no shell reads as anything else, whole or in part.
_PLAIN = re.compile(r"[\w./][\w./:@=+,-]*")
#: Bash splits words at some of : = @ before a completion sees them, and replaces the last part alone.
_BASH = r"""
_kit_completion() {
    local line=${COMP_LINE:0:COMP_POINT} breaks=${COMP_WORDBREAKS//[^:=@]/}
    local words word before= response type value
    IFS=$' \t\n' read -ra words <<< "$line"
    word=${line##*[[:space:]]}
    [[ $breaks ]] && before=${word%"${word##*[$breaks]}"}
    response=$(env COMP_WORDS="$line" COMP_CWORD=$((${#words[@]} - (${#word} > 0))) _KIT_COMPLETE=bash_complete "$1")
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$before"}") ;;
        esac
    done <<< "$response"
}
complete -o nosort -F _kit_completion kit
"""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for bash, zsh or fish."""
    kind = get_completion_class(shell)
    root = context.find_root().command
    if kind is None:  # click knows these three
        raise click.UsageError(f"no completion for {shell}", context)
    script = kind(root, {}, "kit", "_KIT_COMPLETE")
    # Not source(), which asks the shell for its version: the shell may be on another machine.
    click.echo(_BASH.strip("\n") if shell == "bash" else script.source_template % script.source_vars())
    if sys.stdout.isatty():
        complain(f'# into your shell: eval "$(kit completion {shell})"')


def complete_scenarios(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return bundled scenarios with their variants, and those of extras, as suites."""
    from kit.cli.scenario_kind import scenario_kinds
    from kit.session.plan.planning import find_scenario, scenario_names

    kinds = scenario_kinds() if context.command.name == "compare" else ()
    names = [name for kind in kinds for name in kind.names()]
    for name in scenario_names():
        with suppress(KitError):
            names += [name, *(f"{name}:{variant}" for variant, _ in find_scenario(name).variants)]
    return _beginning(names, incomplete)


def complete_sessions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return sessions of the store that the command line names so far."""
    with suppress(KitError):
        return _beginning(("last", *_store(context).names(incomplete)), incomplete)
    return []


def complete_stored_arms(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the arms of the newest sessions of the store."""
    with suppress(KitError):
        return _beginning(_store(context).arms(), incomplete)
    return []


def complete_arms(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return arms of every driver; after a comma those of a list; after an @ filesystems."""
    from kit.model.arm import CONTAINED
    from kit.model.drivers import DRIVERS, UNION, arm_words, default_placement

    before, comma, last = incomplete.rpartition(",")
    arm, at, _ = last.rpartition("@")
    if at:
        return [f"{before}{comma}{text}" for text in _beginning([f"{arm}@{name}" for name in _filesystems()], last)]
    arms = ["bare", "host", "runtime"]
    for engine, drivers in DRIVERS.items():
        contained = [name for name in CONTAINED if name not in ("runtime", "build")]
        placements = [UNION] if engine == UNION else ["build"] if default_placement(engine) == "build" else contained
        names = [driver.name if engine == UNION else arm_words(engine, driver.name) for driver in drivers]
        arms += [f"{placement}:{name}" for placement in placements for name in names]
    return [f"{before}{comma}{name}" for name in _beginning(arms, last)]


def complete_filesystems(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return bundled filesystems; after a comma those of a list."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(_filesystems(), last)]


def complete_images(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return recipes and cached images, else files."""
    from kit.arms.image import recipes

    names = _beginning(dict.fromkeys((*recipes(), *_cached())), incomplete)
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


def complete_cached_images(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return _beginning(dict.fromkeys(_cached()), incomplete)


def complete_help(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return what kit help explains: arms, and commands."""
    root = context.find_root().command
    return _beginning(["arms", *(root.list_commands(context) if isinstance(root, click.Group) else [])], incomplete)


def complete_metrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from kit.model.metric import COMPARED

    return _beginning(COMPARED, incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin so. A shell puts them into the command line as they are: what it would expand, run or
    take for an option is left out, since a store has texts of others."""
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _filesystems() -> list[str]:
    from kit.arms.filesystem import bundled

    return list(bundled())


def _cached() -> list[str]:
    from kit.arms.image import ImageCache
    from kit.core.paths import find_paths

    with suppress(KitError):
        return [image.name for image in ImageCache(find_paths().cache).list()]
    return []


def _store(context: click.Context) -> Store:
    """Return the store that the command line names so far. Raises KitError."""
    from kit.core.paths import find_paths
    from kit.host.settings_files import configured_store
    from kit.store import open_store

    params: dict[str, Any] = context.params
    return open_store(params.get("store_url") or configured_store(), find_paths().store, read_only=True)
