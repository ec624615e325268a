"""Build hook of the wheel: the probe as a program, a bill of materials, and a man page for each command."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: The machines of published wheels. Compilers, the kernel and the tags of wheels give them the same names.
MACHINES = ("aarch64", "x86_64")


class CompleteWheel(BuildHookInterface[Any]):
    """Adds what a checkout lacks. ``CC`` is the compiler of the probe, with options; it may be a cross compiler."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from hatch_bill import bill

        self._made = tempfile.TemporaryDirectory()
        made, compiler = Path(self._made.name), shlex.split(os.environ.get("CC") or "cc")
        program = self._probe(made, compiler)
        if program:
            machine = program.name.rpartition("-")[2]
            build_data["force_include"][str(program)] = f"kit/arms/probe/{program.name}"
            build_data["pure_python"] = False
            # A static program fits every C library.
            build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"
        listed = made / f"{self.metadata.core.name}.cdx.json"
        listed.write_text(bill(self.metadata, program, compiler), "utf-8")
        build_data["sbom_files"].append(str(listed))
        # Into ``share/man/man1`` of the environment that the wheel is installed in.
        for name, text in pages():
            path = made / f"{name}.1"
            path.write_text(text, "utf-8")
            build_data["shared_data"][str(path)] = f"share/man/man1/{name}.1"

    def _probe(self, directory: Path, compiler: Sequence[str]) -> Path | None:
        """Return the compiled probe. Without a compiler for it the wheel is for every machine, and its kit compiles."""
        from kit.arms.probe import compile_probe, program_name
        from kit.core.errors import KitError
        from kit.host.command import require, run

        try:
            require(compiler[0])
            target = run([*compiler, "-dumpmachine"]).strip()
            machine = target.partition("-")[0]
            if machine not in MACHINES or "linux" not in target:
                raise KitError(f"the compiler is for {target}", f"use one for Linux on {' or '.join(MACHINES)}")
            program = directory / program_name(machine)
            compile_probe(program, compiler)
        except KitError as error:
            self.app.display_warning(f"the wheel has no probe, its kit will need a C compiler: {error.message}")
            return None
        return program


def pages() -> Iterator[tuple[str, str]]:
    """Return the name and the text of each page: ``kit``, ``kit-compare``, ``kit-image-list``."""
    import click

    from kit import __version__
    from kit.cli import cli

    def walk(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
        name = context.command_path.replace(" ", "-")
        context.meta["kit.help_all"] = True
        yield name, _page(name, __version__, command.get_short_help_str(200), command.get_help(context))
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                found = command.get_command(context, each)
                if found is not None:
                    yield from walk(found, found.context_class(found, info_name=each, parent=context))

    yield from walk(cli, cli.context_class(cli, info_name="kit", max_content_width=78, terminal_width=78))


def _page(name: str, version: str, summary: str, text: str) -> str:
    """Return the help as it is on a screen, below the headings of a man page."""
    usage, _, rest = text.partition("\n\n")
    usage = usage.removeprefix("Usage: ")
    return (
        f'.TH {name.upper()} 1 "" "kit {version}" "User Commands"\n.SH NAME\n{name} \\- {_escaped(summary)}\n'
        f".SH SYNOPSIS\n.nf\n{_escaped(usage)}\n.fi\n.SH DESCRIPTION\n.nf\n{_escaped(rest)}\n.fi\n"
    )


def _escaped(text: str) -> str:
    """Return text of which troff reads no line as a request and no character as an escape."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines)
