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
    """One kind of document."""

    written_by: str  # the commands
    of: Mapping[str, Any]  # the keys beside schema, with their types
    version: int = 1
    after: str = ""  # of an extra's, the document that is listed before it

    def schema(self, name: str) -> dict[str, Any]:
        schema = msgspec.json.schema(record(name, schema=Literal[self.version], **self.of), schema_hook=_hook)
        for table in (schema, *schema.get("$defs", {}).values()):
            _drop_defaults(table)
        return {"$schema": _DRAFT, "title": name, "description": f"Written by {self.written_by}.", **schema}


def _hook(kind: type) -> dict[str, Any]:
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError


def _drop_defaults(table: dict[str, Any]) -> None:
    """Every field is written, also one with a default."""
    properties = table.get("properties", {})
    for field_schema in properties.values():
        field_schema.pop("default", None)
    table.update({"required": list(properties)} if properties else {})
    for text in ("title", "description"):  # docstrings, which tell of Python
        table.pop(text, None)


def record(name: str, /, **keys: Any) -> Any:
    return TypedDict(name, keys)  # type: ignore[operator]


def list_of(kind: Any) -> Any:
    return GenericAlias(list, (kind,))


def fields_of(kind: type, *left_out: str, **more: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with their types, as ``asdict`` gives them."""
    types = get_type_hints(kind, include_extras=True)
    return {field.name: types[field.name] for field in fields(kind) if field.name not in left_out} | more
