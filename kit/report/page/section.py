"""A section that an extra adds to the page of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kit.analysis.session.analyse import Analysis
from kit.extensions import added
from kit.model.session import Session
from kit.report.plot.picture import Picture


@dataclass(frozen=True)
class SectionView:
    """What a section shows of a session, and the pictures in it."""

    template: str  # which sees this view as ``section``
    content: Any
    pictures: Sequence[Picture] = ()
    beside_answer: bool = False  # else before every run


@dataclass(frozen=True)
class PageSection:
    """One section."""

    #: None where there is nothing to show.
    show: Callable[[Session, Analysis], SectionView | None]
    method: str = ""  # a sentence on it below each page
    script: str = ""  # a file beside its template


def page_sections() -> tuple[PageSection, ...]:
    """Return the sections of all extras."""
    return tuple(section for sections in added("sections") for section in sections)
