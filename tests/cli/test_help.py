"""Help: what a newcomer sees first."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kit import __file__ as package
from kit import __version__
from kit.cli import COMMANDS, SECTIONS, cli
from kit.cli.compare import compare
from kit.cli.completion import complete_help
from kit.core.exit_code import MEANINGS
from kit.session.machines import find_machines
from tests.command_line import in_fork as kit


def test_kit_alone_says_in_a_few_lines_what_to_try() -> None:
    done = kit()
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert len(lines) <= 8
    assert "On this machine: " in done.stdout and "kit compare smoke" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_same_summary_in_both_places(name: str) -> None:
    (listed,) = (section[name][1] for section in SECTIONS.values() if name in section)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None and command.help is not None
    assert command.help.splitlines()[0] == listed
    assert len(listed.split()) <= 12


def test_compare_shows_the_common_options_and_with_help_all_every_option() -> None:
    short, every = kit("compare", "--help").stdout, kit("compare", "--help-all").stdout
    assert len(short.splitlines()) <= 40
    assert "Common:" in short and "--arms" in short and "--thin-device" not in short
    fleet = ["Fleet"] if find_machines() else []
    for heading in ("Common", "Measurement", "Tracing", "Guest kernel", *fleet, "Output and store"):
        assert f"\n{heading}:\n" in every
    for parameter in compare.params:
        if isinstance(parameter, click.Option):
            assert len(re.findall(rf"\n  {parameter.opts[0]}(?![\w-])", every)) == 1, parameter.opts


def test_the_version_names_the_file_that_runs() -> None:
    """Another distribution has the name kit too."""
    said = kit("--version").stdout
    assert said == f"kit {__version__} ({Path(package).parent}), Python {platform.python_version()}\n"


def test_a_directory_with_a_percent_sign_has_a_version(tmp_path: Path) -> None:
    (tmp_path / "50%d").mkdir()
    (tmp_path / "50%d/kit").symlink_to(Path(package).parent)
    words = [sys.executable, "-m", "kit", "--version"]
    done = subprocess.run(words, cwd=tmp_path / "50%d", capture_output=True, text=True, check=False)
    assert f"({tmp_path}/50%d/kit)" in done.stdout, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_exit_codes_have_one_list(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    of_codes = re.findall(r"Exit codes:([^.]*)\.?", command.epilog or "")
    known = {f"{code} {short}" for code, (short, _) in MEANINGS.items()}
    assert all({item.strip() for item in text.split(",")} <= known for text in of_codes)


def test_kit_help_explains_arms_and_commands() -> None:
    said = kit("help", "arms").stdout
    assert "layer:DRIVER" in said and "overlay2" in said and "ext4" in said
    for words in (("compare",), ("image", "build"), ()):
        assert kit("help", *words).stdout == kit(*words, "--help").stdout
    assert kit("help", "image", "nosuch").returncode == 2


@pytest.mark.parametrize(("word", "fix"), [("arm", "use arms"), ("compair", "use compare"), ("qqqq", "kit --help")])
def test_what_kit_help_does_not_know_is_one_line_with_near_names(word: str, fix: str) -> None:
    done = kit("help", word)
    first, second = done.stderr.splitlines()
    assert (done.returncode, first) == (2, f"kit: no help of '{word}'") and fix in second


def test_what_kit_help_explains_is_completed() -> None:
    help_ = cli.get_command(click.Context(cli), "help")
    assert help_ is not None
    context = click.Context(help_, parent=click.Context(cli))
    assert complete_help(context, help_.params[0], "ar") == ["arms"]
    assert complete_help(context, help_.params[0], "compare-s") == ["compare-sessions"]
