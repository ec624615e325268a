"""Safe display of sessions, comparisons and nights: no secrets in texts, no control characters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from kit.core.sanitize import printable, visible
from kit.model.sample import Sample
from kit.model.session import Session

T = TypeVar("T")
#: Fields that identify things: they contain no secrets, and different values must remain different.
_NAMES = frozenset({"id", "session", "arm", "arms", "baseline", "baselines", "point"})

_OF_SAMPLE = attrgetter("digests", "arm", "kind", "status", "error", "log", "point", "flags", "load")
_OF_PHASE = attrgetter("name", "status")
_SLICE = 2_000
#: Sessions that are safe to show, as long as they exist: a million samples are checked once.
_FIT: WeakValueDictionary[int, Session] = WeakValueDictionary()


def shown(value: T) -> T:
    """Return the same value of dataclasses, tuples and mappings with safe texts; the value itself if all are safe."""
    if _FIT.get(id(value)) is value:
        return value
    safe: T = _shown(value, "")
    if safe is value and isinstance(value, Session):
        _FIT[id(value)] = value
    return safe


def _shown(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return visible(value) if name in _NAMES else printable(value)
    if isinstance(value, tuple):
        if name == "samples" and not any(text != printable(text) for text in _texts(value)):
            return value
        elements = tuple(_shown(element, name) for element in value)
        return (
            elements
            if any(element is not original for element, original in zip(elements, value, strict=True))
            else value
        )
    if isinstance(value, Mapping):
        pairs = {visible(key): _shown(entry, name) for key, entry in value.items()}
        return pairs if pairs != value else value
    if is_dataclass(value) and not isinstance(value, type):
        attributes = {key: getattr(value, key) for key in _names(type(value))}
        texts = {
            key: attribute
            for key, attribute in attributes.items()
            if attribute is not None and not isinstance(attribute, int | float)
        }
        changed = {key: safe for key, attribute in texts.items() if (safe := _shown(attribute, key)) is not attribute}
        return replace(value, **changed) if changed else value
    return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _texts(samples: tuple[Sample, ...]) -> set[str]:
    """Return the texts of samples: a million samples have few distinct ones, and visiting each sample would take
    minutes."""
    distinct: set[str] = set()
    for at in range(0, len(samples), _SLICE):  # a few at a time: those that go together are mostly the same, too
        part = samples[at : at + _SLICE]
        for digests, *texts in set(map(_OF_SAMPLE, part)):
            distinct.update(texts, *digests)
        phases = list(chain.from_iterable(map(attrgetter("phases"), part)))
        distinct.update(*set(map(_OF_PHASE, phases)))
        for figure in chain.from_iterable(map(attrgetter("reported"), phases)):
            distinct.update((figure.name, figure.unit, figure.better))
        for task in chain.from_iterable(map(attrgetter("tasks"), phases)):
            distinct.update((task.kind, task.recipe))
        for call in chain.from_iterable(map(attrgetter("calls"), phases)):
            distinct.update((call.kind, call.name, *(name for name, _ in call.errors)))
    return distinct
