"""Topics of ``kit help``: the pages of the documentation, in the groups and the order of its index."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kit.core.paths import resource

#: Headings of the index, and its links to pages.
_ENTRY = re.compile(r"^## (?P<group>.+)$|\]\((?P<page>[\w/-]+)\.md\)", re.MULTILINE)
#: The group of pages above the first heading.
_FIRST = "Start"


@dataclass(frozen=True)
class Topic:
    """A page. ``name``: as users write it. ``page``: its path below docs, without the suffix."""

    name: str
    page: str
    group: str

    @property
    def text(self) -> str:
        """Return the page as it is written."""
        return _read(self.page)

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0].removeprefix("# ")


def find_topics() -> tuple[Topic, ...]:
    """Return all topics. Of pages of one name the first has it; others are named with their directory."""
    group = _FIRST
    groups: dict[str, str] = {}
    for entry in _ENTRY.finditer(_read("index")):
        if entry["page"]:
            groups.setdefault(entry["page"], group)
        else:
            group = entry["group"]
    found: dict[str, Topic] = {}
    for page, group in groups.items():
        name = page.rpartition("/")[2]
        name = page if name in found else name
        found[name] = Topic(name, page, group)
    return tuple(found.values())


def find_topic(word: str) -> Topic | None:
    """Return the topic of this name, or of this page: ``explanation/fleet``, ``docs/explanation/fleet.md``."""
    page = word.removeprefix("docs/").removesuffix(".md")
    return next((topic for topic in find_topics() if page in (topic.name, topic.page)), None)


def _read(page: str) -> str:
    return Path(resource("docs"), f"{page}.md").read_text(encoding="utf-8")
