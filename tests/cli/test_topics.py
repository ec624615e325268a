"""``kit help``: the pages of the documentation, whole and without links to files that an installed kit lacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kit.cli import cli
from kit.cli.completion import complete_topics
from kit.cli.pages.page import read_page
from kit.cli.pages.terminal import lay_out
from kit.cli.pages.topics import Topic, find_topic, find_topics
from tests.command_line import in_fork as kit

ROOT = Path(__file__).parents[2]
_HAS_DOCS = (ROOT / "docs").is_dir()
pytestmark = pytest.mark.skipif(not _HAS_DOCS, reason="the kit is tested without its documents")


def test_every_page_is_a_topic_with_its_title() -> None:
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} - {"index.md"}
    topics = find_topics()
    assert sorted(f"{topic.page}.md" for topic in topics) == sorted(pages)
    assert len({topic.name for topic in topics}) == len(topics)
    lines = kit("help").stdout.splitlines()
    assert [line.rstrip(":") for line in lines if line.endswith(":")] == ["Start", "How to", "Reference", "Explanation"]
    for topic in topics:
        assert f"# {topic.title}" == (ROOT / "docs" / f"{topic.page}.md").read_text().splitlines()[0]
        assert any(line.split(maxsplit=1) == [topic.name, topic.title] for line in lines), topic


@pytest.mark.parametrize("topic", find_topics() if _HAS_DOCS else (), ids=lambda topic: topic.name)
def test_a_page_is_whole_and_links_to_topics(topic: Topic) -> None:
    page = read_page(topic, cli)
    assert page.startswith(f"# {topic.title}\n")
    assert not re.findall(r"<!--|\]\((?!https?:)", page)
    for name in re.findall(r"`kit help ([a-z/-]+)`", page):
        assert find_topic(name), name


def test_a_page_has_its_generated_part() -> None:
    said = kit("help", "arms").stdout
    assert "layer:DRIVER" in said and "overlay2" in said and "ext4" in said and "| placement |" in said
    assert "(`kit help choose-a-driver`) has the arms" in said and "An arm is one way" in said
    assert "### kit image build" in kit("help", "commands").stdout


def test_of_two_pages_of_one_name_the_second_has_its_directory() -> None:
    assert kit("help", "fleet").stdout.startswith("# Measure on a fleet")
    other = kit("help", "explanation/fleet").stdout
    assert other.startswith("# ") and not other.startswith("# Measure on a fleet")
    assert kit("help", "docs/how-to/fleet.md").stdout == kit("help", "fleet").stdout


def test_a_command_has_its_help() -> None:
    for words in (("compare",), ("image", "build")):
        assert kit("help", *words).stdout == kit(*words, "--help").stdout
    assert "`kit fleet --help` lists" in kit("help", "fleet").stdout
    assert kit("help", "image", "nosuch").returncode == 2


@pytest.mark.parametrize(
    ("word", "fix"),
    [("arm", "use arms"), ("trobleshooting", "use troubleshooting; "), ("qqqq", "list the topics with kit help")],
)
def test_an_unknown_topic_is_one_line_with_near_ones(word: str, fix: str) -> None:
    done = kit("help", word)
    first, second = done.stderr.splitlines()
    assert (done.returncode, first) == (2, f"kit: unknown topic '{word}'") and fix in second


def test_topics_are_completed() -> None:
    help_ = cli.get_command(click.Context(cli), "help")
    assert help_ is not None
    context = click.Context(help_, parent=click.Context(cli))
    assert complete_topics(context, help_.params[0], "troub") == ["troubleshooting"]
    assert complete_topics(context, help_.params[0], "compare-s") == ["compare-sessions"]


def test_a_page_is_laid_out() -> None:
    table = "| one | two |\n| --- | --- |\n| `a` | `b | c` |\n"
    text = re.sub(r"\x1b\[[0-9;]*m", "", lay_out(f"# Title\n\n{table}\n[x](https://e.org)\n", 60))
    assert "b | c" in text and text.count("|") == 1 and "https://e.org" in text
    assert "---" not in text and "`" not in text
    assert max(map(len, text.splitlines())) <= 60


def test_a_terminal_shows_a_page_in_a_pager(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho paged\ncat\n")
    pager.chmod(0o755)
    ours, theirs = os.openpty()
    env = {**os.environ, "PAGER": str(pager), "TERM": "xterm"}
    words = [sys.executable, "-m", "kit", "help", "exit-codes"]
    process = subprocess.Popen(words, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0 and b"paged" in said and b"Exit codes" in said
    assert b"# Exit codes" not in said and b"| code |" not in said
