"""The bill of materials of a wheel, in CycloneDX: what the wheel contains, and what it expects beside it.

Equal builds have equal bills: there is no time in them and no serial number."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hatchling.metadata.core import ProjectMetadata

Component = dict[str, Any]


def bill(metadata: ProjectMetadata[Any], program: Path | None, compiler: Sequence[str]) -> str:
    """Return the bill as JSON. ``program``: the probe, if the wheel has it, made by this compiler."""
    name = metadata.core.name
    kit = _component("application", name, f"pkg:pypi/{name}@{metadata.version}", metadata.version, "Apache-2.0")
    tools = [_component("application", "hatchling", "pkg:pypi/hatchling", version("hatchling"))]
    parts = _expected(metadata)
    needs = {kit["bom-ref"]: [part["bom-ref"] for part in parts]}
    if program:
        probe, library = _probe(program), _c_library(compiler)
        tools.append(_component("application", _said(compiler, "--version").splitlines()[0], "compiler"))
        parts += [probe, library]
        needs[kit["bom-ref"]].append(probe["bom-ref"])
        needs[probe["bom-ref"]] = [library["bom-ref"]]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "version": 1,
        "metadata": {"lifecycles": [{"phase": "build"}], "tools": {"components": tools}, "component": kit},
        "components": parts,
        "dependencies": [{"ref": reference, "dependsOn": found} for reference, found in needs.items()],
    }
    return json.dumps(document, indent=1) + "\n"


def _component(kind: str, name: str, reference: str, version: str = "", licence: str = "") -> Component:
    """Return a component. ``reference``: its package URL, or a name in this bill alone."""
    made: Component = {"type": kind, "bom-ref": reference, "name": name}
    if version:
        made["version"] = version
    if licence:
        made["licenses"] = [{"license": {"id": licence}}]
    if reference.startswith("pkg:"):
        made["purl"] = reference
    return made


def _expected(metadata: ProjectMetadata[Any]) -> list[Component]:
    """Return the packages that are installed beside the kit. Who installs them chooses their versions."""
    core = metadata.core
    extras = (item for each in core.optional_dependencies_complex.values() for item in each.values())
    found: dict[str, Component] = {}
    for scope, items in (("required", core.dependencies_complex.values()), ("optional", extras)):
        for item in items:
            if item.name != core.name:
                part = _component("library", item.name, f"pkg:pypi/{item.name}")
                accepted = "|".join(sorted(map(str, item.specifier)))
                part |= {"scope": scope, "isExternal": True, "versionRange": f"vers:pypi/{accepted or '*'}"}
                found.setdefault(item.name, part)
    return list(found.values())


def _probe(program: Path) -> Component:
    content = hashlib.sha256(program.read_bytes()).hexdigest()
    made = _component("application", program.name, program.name, licence="Apache-2.0")
    return made | {"hashes": [{"alg": "SHA-256", "content": content}]}


def _c_library(compiler: Sequence[str]) -> Component:
    """Return the C library that is a part of the probe, from what its headers define. musl's define no name."""
    macros = _said([*compiler, "-dM", "-E", "-include", "features.h", "-x", "c"], "/dev/null")
    glibc = dict(re.findall(r"^#define (__GLIBC(?:_MINOR)?__) (\d+)$", macros, re.MULTILINE))
    if glibc:
        number = f"{glibc['__GLIBC__']}.{glibc['__GLIBC_MINOR__']}"
        return _component("library", "glibc", f"pkg:generic/glibc@{number}", number, "LGPL-2.1-or-later")
    return _component("library", "musl", "pkg:generic/musl", licence="MIT")


def _said(compiler: Sequence[str], argument: str) -> str:
    from kit.host.command import run

    return run([*compiler, argument])
