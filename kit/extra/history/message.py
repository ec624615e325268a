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
    """A message to users."""

    title: str
    body: str  # plain text, the most important lines first
    bad: bool  # whether something became worse
    attachment: Attachment | None = None
