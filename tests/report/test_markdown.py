"""Markdown as GitHub reads it: issues, and the step summary of its CI."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from kit.analysis.session.analyse import analyse
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.report.night import render_summary
from kit.model.session import Session
from kit.report import render
from tests.nights import ladder_session


def renamed(session: Session, arm: str, name: str) -> Session:
    """The session with another name for an arm, as imported commands have."""
    return replace(
        session,
        arms=tuple(name if item == arm else item for item in session.arms),
        baselines=tuple((name if item == arm else item, base) for item, base in session.baselines),
        samples=tuple(replace(item, arm=name) if item.arm == arm else item for item in session.samples),
    )


def summary(session: Session) -> str:
    part = Part(Task(session.request), session, analyse(session))
    return render_summary(Night("night", session.created, (part,)))


@pytest.mark.parametrize("make", [lambda session: render("markdown", session), summary], ids=["session", "night"])
def test_a_bar_in_a_command_begins_no_cell(make: Callable[[Session], str]) -> None:
    session = renamed(ladder_session(), "layer:vfs", "cat x | grep `y|z`")
    page = MarkdownIt("commonmark").enable("table").render(make(session))
    tables = re.findall(r"<table>.*?</table>", page, re.DOTALL)
    assert tables and not re.search(r"^\|", page, re.MULTILINE)
    assert any("cat x | grep" in table for table in tables)
    for table in tables:
        counts = {row.count("<td>") for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)[1:]}
        assert counts == {table.count("<th>")}
