"""What a front shows of several machines at once."""

from __future__ import annotations

from typing import Protocol

from kit.session.context import Observer


class Watcher(Observer, Protocol):
    """An observer of several machines."""

    def machine(self, name: str) -> None:
        """What it is told next is of this one; '' for of none."""
