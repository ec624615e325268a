"""Whatever a store holds of a session is shown by every renderer: odd figures and texts, none of them a traceback."""

from __future__ import annotations

import json
import math
import random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.analysis.session.analyse import analyse
from kit.analysis.session.entry import make_entry
from kit.analysis.session.outcome import outcomes
from kit.analysis.session.session_diff import compare_sessions
from kit.core.sanitize import visible
from kit.extra.history.analysis.changepoint import track
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.report.history import Subject, render_history, render_history_csv, render_history_json
from kit.extra.history.report.junit import render_junit
from kit.extra.history.report.night import render_night_json, render_summary
from kit.extra.history.report.page import track_views
from kit.model.session import Session
from kit.report import render
from kit.report.data.structured import session_facts
from kit.report.page.html import render_html
from kit.report.page.page import view
from kit.report.renderer import SESSION, SESSIONS, names, renderers
from kit.report.text.session_diff import render_between
from tests.mutation import mutated
from tests.nights import night

_NUMBERS = ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height")


def render_everywhere(session: Session) -> None:
    """By every renderer. Raises whatever they raise, and where what they made is not what it claims."""
    analysis = analyse(session)
    for name in names(SESSION):
        text = render(name, session, analysis)
        text.encode()
        assert visible(text) == text or name == "json"
        if name == "json":
            _strict(text)
    _strict(json.dumps(session_facts(session)))
    found = outcomes(analysis.runs, analysis.comparisons)
    tracks = []
    for item in [item for item in found if item.comparison.ratio and item.comparison.metric == "real"][:3]:
        entries = [make_entry(night(i, 0.05), item) for i in range(4)] + [make_entry(session, item)]
        tracks.append(track(entries, session.id))
        subject = Subject(session.title, item.comparison.arm, item.comparison.baseline, "real")
        render_history(subject, tracks[-1:])
        _strict(render_history_json(subject, tracks[-1:]))
        render_history_csv(subject, tracks[-1:])
    made = view(session, analysis, track_views(tracks, session.id))
    render_html(session.title, [made])
    for picture in made.pictures:
        for element in ElementTree.fromstring(picture.file()).iter():
            numbers = [element.attrib[name] for name in _NUMBERS if name in element.attrib]
            assert all(math.isfinite(float(number)) for number in numbers), (picture.title, element.attrib)
    for renderer in renderers(SESSIONS):
        text = renderer.render([session])
        assert visible(text) == text
        if renderer.suffix == "json":
            _strict(text)
    part = Part(Task(session.request), session, analysis, tracks=tuple(tracks))
    night_ = Night(session.title, 1.7e9, (part,))
    ElementTree.fromstring(render_junit(night_))
    render_summary(night_)
    _strict(render_night_json(night_))
    other = night(2, 0.1)
    render_between(other, session, compare_sessions((other, analyse(other)), (session, analysis)))


def _strict(text: str) -> None:
    """JSON as others read it: it knows neither infinity nor what is not a number."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    json.loads(text, parse_constant=refuse)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=max(5, settings().max_examples // 8))  # a quarter of a second each
@given(st.integers(0, 2**32))
def test_every_session_that_can_be_stored_is_shown(seed: int) -> None:
    render_everywhere(mutated(random.Random(seed)))
