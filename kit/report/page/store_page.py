"""A page of the store that an extra adds to ``kit serve`` and ``kit site``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from kit.extensions import EXTRAS


@dataclass(frozen=True)
class PageContent:
    """A template with its values."""

    template: str
    values: Mapping[str, Any]


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


def store_pages() -> tuple[StorePage, ...]:
    """Return the pages of all extras."""
    return tuple(page for extra in EXTRAS if extra.pages for page in extra.load(extra.pages))


def address_of(path: str, **query: str) -> str:
    """Return an address as links have it: empty values left out, names in order."""
    pairs = sorted((name, value) for name, value in query.items() if value)
    return f"{path}?{urlencode(pairs)}" if pairs else path


def slug(text: str) -> str:
    """Return a file's name: words that people know, and a digest that no other text has."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
    return f"{words or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
