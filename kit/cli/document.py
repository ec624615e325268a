"""A document that a command writes, and its JSON Schema, made from the types of what it contains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal, TypedDict, get_type_hints

import msgspec

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Document:
    """One kind of document. ``written_by``: the commands. ``of``: the keys beside ``schema``, with their types.
    ``after``: of an extra's, the document that is listed before it."""

    written_by: str
    of: Mapping[str, Any]
    version: int = 1
    after: str = ""

    def schema(self, name: str) -> dict[str, Any]:
        made = msgspec.json.schema(record(name, schema=Literal[self.version], **self.of), schema_hook=_hook)
        for table in (made, *made.get("$defs", {}).values()):
            _drop_defaults(table)
        return {"$schema": _DRAFT, "title": name, "description": f"Written by {self.written_by}.", **made}


def _hook(kind: type) -> dict[str, Any]:
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError


def _drop_defaults(table: dict[str, Any]) -> None:
    """Every field is written, also one with a default."""
    properties = table.get("properties", {})
    for item in properties.values():
        item.pop("default", None)
    table.update({"required": list(properties)} if properties else {})
    for text in ("title", "description"):  # docstrings, which tell of Python
        table.pop(text, None)


def record(name: str, /, **keys: Any) -> Any:
    return TypedDict(name, keys)  # type: ignore[operator]


def list_of(kind: Any) -> Any:
    return GenericAlias(list, (kind,))


def fields_of(kind: type, *left_out: str, **more: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with their types, as ``asdict`` gives them."""
    known = get_type_hints(kind, include_extras=True)
    return {item.name: known[item.name] for item in fields(kind) if item.name not in left_out} | more
