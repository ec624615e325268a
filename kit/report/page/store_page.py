"""A page of the store that an extra adds to ``kit serve`` and ``kit site``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from kit.analysis.session.analyse import Analysis
from kit.extensions import added
from kit.model.session import Session
from kit.report.format.units import machine_name


@dataclass(frozen=True)
class PageContent:
    """A template with its values."""

    template: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class PageLinks:
    """Links from a session's page to one of the store."""

    words: str  # before them
    links: Sequence[tuple[str, Mapping[str, str]]]  # of each the label and the choices
    first: bool = False  # above the session, not below


def _always(store: Any, static: bool) -> bool:
    return True


def _no_links(session: Session, analysis: Analysis) -> PageLinks | None:
    return None


@dataclass(frozen=True)
class StorePage:
    """One page, or one for each choice. Its functions are called with a kit.store.Store, which no report knows."""

    path: str  # on the server
    link: str  # to it, on the list of sessions
    choices: tuple[str, ...]  # by name in the query
    #: Returns the page for these choices. Raises UsageError.
    show: Callable[[Any, Mapping[str, str]], PageContent]
    #: Yields the address and the file of each that becomes a static page.
    files: Callable[[Any], Iterator[tuple[str, str]]]
    #: Returns whether the list of sessions links to it. Called with the store, and whether the list is a static page.
    listed: Callable[[Any, bool], bool] = _always
    #: Returns the links to it from the page of a session.
    session_links: Callable[[Session, Analysis], PageLinks | None] = _no_links


def store_pages() -> tuple[StorePage, ...]:
    """Return the pages of all extras."""
    return tuple(page for pages in added("pages") for page in pages)


def store_choices(store: Any) -> dict[str, Mapping[str, str]]:
    """Return scenarios, arms and machines of the store with their labels, by name in the query."""
    machines = {machine: machine_name(facts) for machine, facts in store.machines().items()}
    by_name = dict(sorted(machines.items(), key=lambda item: item[1]))
    return {"scenario": same(store.titles()), "arm": same(store.arms()), "machine": by_name}


def same(values: Sequence[str]) -> dict[str, str]:
    """Return choices with equal values and labels."""
    return {value: value for value in values}


def address_of(path: str, **query: str) -> str:
    """Return an address as links have it: empty values left out, names in order."""
    pairs = sorted((name, value) for name, value in query.items() if value)
    return f"{path}?{urlencode(pairs)}" if pairs else path


def slug(text: str) -> str:
    """Return a file's name: words that people know, and a digest that no other text has."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
    return f"{words or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
