"""A message to people, as chats and mail take it. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attachment:
    name: str  # of a file
    content: bytes
    mime: str


@dataclass(frozen=True)
class Message:
    """``body``: plain text, the most important lines first. ``bad``: whether something became worse."""

    title: str
    body: str
    bad: bool
    attachment: Attachment | None = None
