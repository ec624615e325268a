"""Documents held against the JSON Schemas that the kit publishes: no key more, none less."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kit.cli.schemas import DOCUMENTS


def published(name: str) -> Any:
    return json.loads(json.dumps(DOCUMENTS[name].schema(name)))


def check_document(name: str, text: str) -> Any:
    """Return the document of that name, which is valid, also where keys beyond those of the schema are refused."""
    jsonschema = pytest.importorskip("jsonschema")
    schema, document = published(name), json.loads(text)
    for table in schema["$defs"].values():
        if "properties" in table:
            table["additionalProperties"] = False
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)
    assert [f"{item.json_path}: {item.message[:200]}" for item in found] == []
    assert isinstance(document["schema"], int)
    return document
