"""What a user of the kit reads is in the words of the glossary: strings of the sources, help, and generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import kit
from kit.analysis.session.analyse import analyse
from kit.cli import COMMANDS, cli
from kit.report.page.html import render_html
from kit.report.page.page import view
from kit.report.renderer import SESSION, find, names
from tests.glossary import Found, avoided_words
from tests.nights import ladder_session
from tests.sources import literals

ROOT = Path(kit.__file__).parent
BESIDE = [Path(__file__).parents[1] / name for name in ("images", "scenarios", "examples")]
_TEXTS = {".j2", ".toml", ".yml", ".service", ".timer", ".md"}


def wrong(where: str, text: str, line: int = 1) -> list[str]:
    return [f"{where}: {Found(line + item.line - 1, item.word, item.instead)}" for item in avoided_words(text)]


def test_strings_of_the_sources() -> None:
    found, seen = [], 0
    for path in sorted(ROOT.rglob("*.py")):
        if "_data" not in path.parts:
            for line, text in literals(path):
                seen += 1
                found += wrong(str(path.relative_to(ROOT)), text, line)
    assert found == [] and seen > 5000


def test_templates_scenarios_images_and_examples() -> None:
    found, seen = [], 0
    for root in (ROOT, *BESIDE):
        for path in sorted(root.rglob("*")):
            if path.suffix in _TEXTS and "_data" not in path.parts:
                seen += 1
                found += wrong(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
    assert found == [] and seen > 20


def helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    for parameter in command.params:
        yield context.command_path, getattr(parameter, "help", "") or ""  # hidden options too
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from helps(below, below.make_context(name, [], parent=context, resilient_parsing=True))


def test_help_of_every_command() -> None:
    listed = list(helps(cli, click.Context(cli, info_name="kit")))
    assert [item for path, text in listed for item in wrong(path, text)] == []
    assert len({path for path, _ in listed}) > 25


def test_users_are_sent_to_help_not_to_files() -> None:
    """By errors and other strings, and by help: an installed kit has no checkout."""
    texts = [text for path in sorted(ROOT.rglob("*.py")) if "_data" not in path.parts for _, text in literals(path)]
    texts += [text for _, text in helps(cli, click.Context(cli, info_name="kit"))]
    assert not [text for text in texts if re.search(r"\bdocs/[\w/-]+\.md", text)]
    named = {name for text in texts for name in re.findall(r"\bkit help\s([a-z/-]+[a-z])", text)}
    named |= {name for text in texts for name in re.findall(r"\bkit\s([a-z-]+)(?:\s[a-z-]+)?\s--help\b", text)}
    assert {"arms", "kernel", "fleet"} <= named <= {"arms", *COMMANDS}


@pytest.mark.parametrize("name", [name for name in names(SESSION) if name not in ("json", "csv")])
def test_a_session_in_every_format(name: str) -> None:
    session = ladder_session()
    assert wrong(name, find(SESSION, name).render(session, analyse(session))) == []


def test_a_page() -> None:
    session = ladder_session()
    page = render_html("x", [view(session, analyse(session))])
    assert wrong("page", page.partition("<script")[0]) == []


def test_the_test_finds_such_a_word() -> None:
    assert wrong("x", "no difference told between them") and wrong("store/schema/tables.py", "told")
