"""With which versions of its program a parser was tried: each parser's file says it of its own. Pure."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Tried:
    program: str  # whose output the parser reads
    versions: tuple[str, ...] = ()  # their programs wrote what tests read
    forms: tuple[str, ...] = ()  # tests have their form only, by the program's source or by files that people posted
    refused: str = ""  # by name, before a file is read
    command: str = ""  # writes a file for kit import; '' for what the kit itself starts
    figures: str = ""  # what is read of each run


def tried(makers: Iterable[str]) -> Iterator[Tried]:
    """Yield what the files of these parsers say. ``makers``: rows of a registry, ``MODULE:FUNCTION``."""
    for module in dict.fromkeys(maker.partition(":")[0] for maker in makers):
        yield from getattr(importlib.import_module(module), "TRIED", ())
