"""What renderers show of sessions, comparisons and nights: texts without secrets, without characters that act."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from kit.redact import redact
from kit.sample import Sample
from kit.visible import visible

T = TypeVar("T")
#: Fields by which things are told apart: they hold no secrets, and what differs must go on differing.
_NAMES = frozenset({"id", "session", "arm", "arms", "baseline", "baselines", "point"})


def shown(value: T) -> T:
    """The same value of dataclasses, tuples and mappings with its texts as they may be shown; itself if all may be."""
    made: T = _shown(value, "")
    return made


def shown_text(text: str) -> str:
    return visible(redact(text))


def _shown(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return visible(value) if name in _NAMES else shown_text(value)
    if isinstance(value, tuple):
        if name == "samples" and not any(text != shown_text(text) for text in set(_texts(value))):
            return value
        items = tuple(_shown(item, name) for item in value)
        return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
    if isinstance(value, Mapping):
        pairs = {visible(key): _shown(item, name) for key, item in value.items()}
        return pairs if pairs != value else value
    if is_dataclass(value) and not isinstance(value, type):
        found = {item.name: getattr(value, item.name) for item in fields(value)}
        changed = {key: made for key, item in found.items() if (made := _shown(item, key)) is not item}
        return replace(value, **changed) if changed else value
    return value


def _texts(samples: tuple[Sample, ...]) -> Iterator[str]:
    """All that samples hold: of a million samples few texts differ, and walking through each would take minutes."""
    for item in samples:
        yield from (item.arm, item.kind, item.status, item.error, item.log, item.point, item.flags, item.load)
        for pair in item.digests:
            yield from pair
        for phase in item.phases:
            yield from (phase.name, phase.status)
            for figure in phase.reported:
                yield from (figure.name, figure.unit, figure.better)
