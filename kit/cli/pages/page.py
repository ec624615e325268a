"""Whole pages: with the parts that are generated from the code, and for ``kit help`` without links to files."""

from __future__ import annotations

import posixpath
import re

from kit.cli.lazy import LazyGroup
from kit.cli.pages.parts import parts
from kit.cli.pages.topics import Topic, find_topic

#: A line of a page that stands for a generated part.
MARK = re.compile(r"^<!-- generate: ([a-z-]+) -->$", re.MULTILINE)
#: A link to a file of the repository that is no page.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:examples|images|scenarios|[A-Z]+\.md)[^)]*)\)")
#: A link to a page, or to a heading of the same page.
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#\s]*)(?:#[^)\s]*)?\)")
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
#: The page that most links lead to. They are left out: it explains a word, and the reader may know it.
_GLOSSARY = "glossary"


def complete_page(markdown: str, root: LazyGroup) -> str:
    """Return a page of the site. ``root``: the command whose commands are listed."""
    made = parts(root)
    return _OUTSIDE.sub(r"`\2`", MARK.sub(lambda mark: made[mark[1]](), markdown))


def read_page(topic: Topic, root: LazyGroup) -> str:
    """Return a page of ``kit help``: each link names the command that prints its page."""
    directory = posixpath.dirname(topic.page)

    def named(link: re.Match[str]) -> str:
        page = posixpath.normpath(posixpath.join(directory, link[2])) if link[2] else topic.page
        found = find_topic(page)
        if found is None or found.page in (topic.page, _GLOSSARY):
            return link[1]
        return f"{link[1]} (`kit help {found.name}`)"

    return _LINK.sub(named, _COMMENT.sub("", complete_page(topic.text, root)))
