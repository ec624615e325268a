"""The command ``kit``. Each subcommand is one file, imported on use, so that ``kit --help`` stays fast.

Imports whatever it starts: session, fleet, report, the store, and what those lie on; no extra, which
kit.extensions names.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from kit import __version__
from kit.cli.lazy import LazyGroup
from kit.cli.named_store import NamedStore
from kit.cli.streams import ReaderGoneError, UnmeasuredError, complain, drop_unread, flush_streams, take_streams
from kit.core import exit_code
from kit.core.errors import KitError, UsageError, said_by_system
from kit.core.private import take_umask
from kit.extensions import EXTRAS, extra_commands, merged
from kit.host.interrupt import take_interrupts

#: Commands that measure, so that there may be something to keep after Ctrl-C.
_MEASURING = ("compare", *(command.name for extra in EXTRAS for command in extra.commands if command.measures))
_EXAMPLES = "".join(f"\n  {command.example}" for extra in EXTRAS for command in extra.commands if command.example)
#: The core's subcommands below their headings of --help: module and line of each.
_CORE = {
    "Measure": {
        "compare": ("kit.cli.compare:compare", "Run a build on several arms and show what each costs."),
        "scenarios": ("kit.cli.scenarios:scenarios", "List scenarios, variants and parameters."),
    },
    "Look at results": {
        "show": ("kit.cli.sessions:show", "Show a session again, in any format."),
        "sessions": ("kit.cli.sessions:sessions", "List sessions, newest first."),
        "compare-sessions": ("kit.cli.compare_sessions:compare_sessions", "Compare each penalty of two sessions."),
        "report": ("kit.cli.report:report", "Write an HTML page with plots, or the plots."),
    },
    "Many machines": {
        "fleet": ("kit.cli.fleet:fleet", "Measure on many machines: scheduler, workers, status."),
    },
    "Set up": {
        "doctor": ("kit.cli.doctor:doctor", "Try what works on this machine; show fixes."),
        "image": ("kit.cli.image:image", "Build, save, list and remove images."),
        "prune": ("kit.cli.prune:prune", "Remove old sessions, logs and unused cache entries."),
        "clean": ("kit.cli.clean:clean", "Undo what a killed session left, and record its end."),
        "config": ("kit.cli.config:config", "Show current settings with their files."),
        "schema": ("kit.cli.schema:schema", "Print the JSON Schema of a document."),
        "completion": ("kit.cli.completion:completion", "Print the completion script for bash, zsh or fish."),
        "help": ("kit.cli.help:help_", "Explain arms or a command."),
    },
}

#: Those of extras as well.
SECTIONS = {heading: merged(section, extra_commands(heading)) for heading, section in _CORE.items()}

_PROGRAM = "kit "
#: Where the kit that runs is, for a %-format: another distribution has the name kit too.
_HOME = str(Path(__file__).parents[1]).replace("%", "%%")
_PYTHON = ".".join(map(str, sys.version_info[:3]))

COMMANDS = [name for section in SECTIONS.values() for name in section]

_EPILOG = f"""\b
Examples:
  kit compare smoke
  kit compare kernel --arms bare,bind:overlay2,layer:overlay2 --rounds 5
  kit compare --source . --arms bare,layer:overlay2,layer:btrfs -- make -j8
  kit show last --format markdown{_EXAMPLES}

{exit_code.described(*exit_code.MEANINGS)}"""

#: Number of new objects before a search for reference cycles, instead of 700. Commands make some hundred thousand
#: lasting objects, of modules and of stored data; searching them takes a tenth of the time.
_GARBAGE = 100_000


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="kit", message=f"%(prog)s %(version)s ({_HOME}), Python {_PYTHON}")
@click.pass_context
def cli(context: click.Context) -> None:
    """Measure what Docker storage drivers cost a build."""
    if context.invoked_subcommand is None:
        from kit.cli.welcome import welcome

        click.echo(welcome())


def main() -> NoReturn:
    """Run the command; print an error as one line and exit with its code."""
    take_umask()
    take_interrupts()
    gc.set_threshold(_GARBAGE)
    take_streams()
    try:
        code = _run()
    finally:
        drop_unread()
    sys.exit(code)


def _run() -> int:
    store = NamedStore()
    try:
        _check_words(sys.argv[1:])
        code = cli.main(standalone_mode=False, prog_name="kit", obj=store)
        flush_streams()
    except ReaderGoneError as error:
        code = exit_code.INTERRUPTED if _interrupted(error) else exit_code.DONE
    except KitError as error:
        complain(f"kit: {error}")
        code = error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        complain(f"kit: interrupted{_what_is_kept(error, store.option)}")
        code = exit_code.INTERRUPTED
    except click.ClickException as error:
        complain(f"kit: {usage_error(error)}")
        code = exit_code.USAGE
    except OSError as error:  # a right or a file that is missing where no one foresaw it
        complain(f"kit: {said_by_system(error)}")
        code = KitError.exit_code
    return code if isinstance(code, int) else exit_code.DONE


def _what_is_kept(error: BaseException, store_option: str) -> str:
    """Return what an interrupted command has kept; '' if it measured nothing, or measures nothing at all.
    ``store_option``: names the store, '' for the default one."""
    first = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    unmeasured = any(isinstance(each, UnmeasuredError) for each in (error, error.__cause__))  # click wraps it
    if first not in _MEASURING or unmeasured:
        return ""
    return f"; what was measured is kept: kit show last{store_option}"


def _interrupted(error: BaseException | None) -> bool:
    """Return whether an error came up after Ctrl-C, which also ends ``tee`` in ``kit compare smoke | tee FILE``."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or _interrupted(error.__context__))


def _check_words(words: list[str]) -> None:
    """Check that words and settings are valid text, since others could be neither stored nor printed. Raises
    UsageError."""
    settings = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("KIT_")]
    for word in (*words, *settings):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{word!a} is not UTF-8", "give that word in UTF-8, or in a file") from None


def usage_error(error: click.ClickException) -> UsageError:
    """Return the kit's error for click's."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "kit"
    close = getattr(error, "possibilities", None)
    fix = f"use {' or '.join(close)}; see {path} --help" if close else f"see {path} --help"
    fix = getattr(error, "fix", fix)
    return UsageError(_what(error) if path == "kit" else f"{path.removeprefix(_PROGRAM)}: {_what(error)}", fix)


def _what(error: click.ClickException) -> str:
    """Return what is wrong, in one line that names the option or the argument."""
    text = error.format_message() if isinstance(error, click.BadParameter) else error.message
    text = " ".join(text.split()).rstrip(".").replace("No such", "unknown")
    return text[:1].lower() + text[1:]
