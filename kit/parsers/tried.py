"""With which versions of its program a parser was tried: each parser's file says it of its own. Pure."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Tried:
    """``program``: whose output the parser reads. ``versions``: their programs wrote what tests read. ``forms``: tests
    have their form only, by the program's own source or by files that people have posted. ``refused``: by name."""

    program: str
    versions: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    refused: str = ""


def tried(makers: Iterable[str]) -> Iterator[Tried]:
    """Yield what the files of these parsers say. ``makers``: rows of a registry, ``MODULE:FUNCTION``."""
    for module in dict.fromkeys(maker.partition(":")[0] for maker in makers):
        yield from getattr(importlib.import_module(module), "TRIED", ())
