"""Options that several subcommands share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kit.cli.completion import complete_arms, complete_metrics
from kit.cli.named_store import named_store
from kit.cli.streams import complain
from kit.core.errors import UsageError
from kit.host.output_file import check_output, write_output
from kit.report.renderer import SESSION, Renderer, find, flags, names, offered

if TYPE_CHECKING:
    from kit.store import Store

Command = TypeVar("Command", bound=Callable[..., Any])


def store_option(command: Command) -> Command:
    return click.option(
        "--store", "store_url", metavar="URL", default="", envvar="KIT_STORE",
        help="Store of results, SQLite or PostgreSQL.  [SQLite in the user's data directory]",
    )(command)  # fmt: skip


def figure_options(command: Command) -> Command:
    """Add options that name one figure: phase and metric."""
    from kit.model.metric import COMPARED

    command = click.option(
        "--metric", default="real", show_default=True, metavar="METRIC", shell_complete=complete_metrics,
        help=f"{', '.join(COMPARED)}, or one of the workload's.",
    )(command)  # fmt: skip
    return click.option("--phase", default="", help="Show this phase.  [the whole run]")(command)


def tls_option(command: Command) -> Command:
    return click.option(
        "--tls", metavar="DIR", default="", envvar="KIT_FLEET_TLS",
        help="Certificates of the fleet, made by kit fleet certificates.",
    )(command)  # fmt: skip


def cache_from_option(command: Command) -> Command:
    """Add the option whose value goes to kit.host.remote_cache.use_peers."""
    return click.option(
        "--cache-from", multiple=True, metavar="PLACE",
        help="Copy missing images and inputs from this cache, a directory or URL (repeatable).  [KIT_CACHE_FROM]",
    )(command)  # fmt: skip


def fleet_tls_option(command: Command) -> Command:
    """Add the TLS option for ``--fleet``."""
    return click.option(
        "--fleet-tls", metavar="DIR", default="", envvar="KIT_FLEET_TLS", help="Certificates of the fleet."
    )(command)  # fmt: skip


def wait_option(command: Command) -> Command:
    """Add --wait. Errors about a machine in use name this option."""
    return click.option("--wait", is_flag=True, help="Wait for a running session instead of refusing.")(command)


def wait_idle_option(command: Command) -> Command:
    return click.option(
        "--wait-idle", is_flag=False, flag_value="1h", default="", metavar="[DURATION]",
        help="Wait until the machine is idle, this long at most.  [1h]",
    )(command)  # fmt: skip


def rank_options(command: Command) -> Command:
    """Add options for the ranking's metric and reference arm."""
    metric = click.option(
        "--rank", metavar="METRIC", default="", shell_complete=complete_metrics,
        help="Rank arms by this metric: real, cpu_total, …, or one of the workload's.  [durable: real + flush]",
    )  # fmt: skip
    reference = click.option(
        "--reference", metavar="ARM", default="", shell_complete=complete_arms,
        help="Rank against this arm.  [layer on the default driver, else the best arm]",
    )  # fmt: skip
    return metric(reference(command))


def machine_option(command: Command) -> Command:
    """Add the option whose value goes to kit.store.session_query.SessionFilter."""
    return click.option(
        "--machine", metavar="ID", default="",
        help="Only this machine: its id (the fact 'machine') or its name in a fleet, or the beginning of either.",
    )(command)  # fmt: skip


def format_option(of: str) -> Callable[[Command], Command]:
    """Add ``--format NAME``: any renderer of that subject."""
    return click.option(
        "--format", "format_", type=click.Choice(names(of)), default=names(of)[0], show_default=True,
        help="Output format.",
    )  # fmt: skip


def format_flags(command: Command) -> Command:
    """Add renderers of a session as options of their own; ``flagged`` returns the given ones."""
    for renderer in reversed(flags()):
        name, what = renderer.name, renderer.what
        help_ = f"{what[0].upper()}{what[1:]}: the same as --format {name}."
        command = click.option(f"--{name}", f"as_{name}", is_flag=True, help=help_)(command)
    return command


def flagged(values: Mapping[str, Any]) -> list[str]:
    return [name for name in names(SESSION) if values.get(f"as_{name}")]


def file_option(name: str) -> Callable[[Command], Command]:
    """Add ``--json FILE`` or a similar option; ``wanted_files`` reads them."""
    renderer = find(SESSION, name)
    return click.option(f"--{name}", _key(renderer), metavar="FILE", help=f"Also write {renderer.what} (- for stdout).")


def file_options(command: Command) -> Command:
    """Add a ``file_option`` for each renderer with files."""
    for renderer in reversed(offered()):
        command = file_option(renderer.name)(command)
    return command


def wanted_files(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the path for each renderer whose output is wanted as a file."""
    paths = {renderer.name: values[_key(renderer)] for renderer in offered()}
    return {name: path for name, path in paths.items() if path}


def _key(renderer: Renderer) -> str:
    return f"{renderer.name.replace('-', '_')}_file"


def json_option(command: Command) -> Command:
    """Add ``--json [FILE]``; ``write_json`` writes it. A document on stdout replaces what the command prints."""
    return click.option(
        "--json", "json_file", is_flag=False, flag_value="-", default="", metavar="[FILE]", callback=_check_json_file,
        help="Also write JSON to this .json file; - prints it instead.  [-]",
    )(command)  # fmt: skip


def _check_json_file(context: click.Context, parameter: click.Parameter, path: str) -> str:
    """Refuse a name that may be the command's argument, as in ``kit show --json last``. Raises UsageError."""
    if path and path != "-" and not path.endswith(".json"):
        fix = "use for example --json out.json; or --json as the last word, for stdout"
        raise UsageError(f"--json {path}: FILE must end in .json", fix)
    check_writable(path)
    return path


def output_options(of: str) -> Callable[[Command], Command]:
    """Add ``--format``, ``-o`` and ``--json`` for renderers of that subject; ``write_rendered`` reads them."""

    def add(command: Command) -> Command:
        output = click.option("-o", "--output", default="-", metavar="FILE", help="Write to a file instead of stdout.")
        return format_option(of)(output(json_option(command)))

    return add


def write_rendered(format_: str, output: str, json_file: str, render: Callable[[str], str]) -> None:
    """Write what ``render`` makes of the names of formats. Raises UsageError."""
    if json_file == "-" and output != "-":
        raise UsageError("-o and --json both name an output", "use --json FILE")
    if json_file:
        write(json_file, _ended(render("json")))
    if json_file != "-":
        write(output, _ended(render(format_)))


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def write_json(path: str, document: Mapping[str, Any]) -> None:
    """Write a document to a file, or to stdout. Raises UsageError."""
    write(path, json.dumps(document, default=str, indent=1) + "\n")


def the_store(url: str, read_only: bool = False, patient: bool = False) -> Store:
    """Return the store of an option or a file, else the configured one."""
    from kit.core.paths import find_paths
    from kit.host.settings_files import configured_store
    from kit.store import open_store

    named_store().url = url if url != os.environ.get("KIT_STORE") else ""
    default = find_paths().store
    url = url or configured_store()
    return open_store(url, default, read_only, lambda text: complain(f"kit: {text}"), patient)


def check_the_store(url: str) -> str:
    """Check that ``the_store`` would succeed, and return the store's name. Nothing is made. Raises UsageError."""
    from kit.core.paths import find_paths
    from kit.host.settings_files import configured_store
    from kit.store import check_store

    return check_store(url or configured_store(), find_paths().store)


def check_writable(path: str | None) -> None:
    """Check before hours of measuring that ``write`` can write there. Raises UsageError."""
    if path and path != "-":
        check_output(Path(path))


def write(path: str, text: str) -> None:
    """Write a report; ``-`` is stdout. Raises UsageError."""
    if path == "-":
        click.echo(text, nl=False)
        return
    try:
        write_output(Path(path), text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a file in a directory that you may write to") from None
