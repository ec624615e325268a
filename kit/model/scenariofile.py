"""Scenario files: one TOML file describes one scenario. Pure: takes text, gives a Scenario or a UsageError."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from kit.core.errors import UsageError
from kit.core.table import MissingKeyError, UnknownKeyError, WrongTypeError, described_keys, read_table
from kit.core.toml import parse_toml
from kit.model.scenario import BRACES, ENGINE_INTERFACES, Command, Input, Param, Scenario
from kit.model.sweep import COPIES
from kit.parsers import PARSERS

#: Names that every scenario may use in braces beside its own parameters. Names of places depend on the arm; ``here`` is
#: the directory of the scenario's file. ``lower``, ``engine`` and ``registry`` exist if the scenario asks for them.
PLACE_NAMES = ("tree", "inputs", "lower", "engine", "registry")
MACHINE_NAMES = ("cores", "here")
_RESERVED = (*PLACE_NAMES, *MACHINE_NAMES, COPIES)
PARAM_TYPES = ("text", "int", "words")
#: Most phases, steps, parameters, inputs and variants, each: far above any real scenario.
MOST = 100

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,59}")
_PARAM_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
#: A name of a file or directory, in the cache and in the arm: never a parent directory or a path.
_INPUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,59}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USER = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
_INTO = ("tree", "inputs", "directory")
#: The form of each type's values; ``at``: a key with its tables, ``key``: the key alone.
_HINTS = {
    "a string": "quote it",
    "a table": "write [{at}]",
    "an array of tables": "write [[{at}]]",
    "a list of strings": 'use for example ["make", "-j4"]',
    "a list of commands": 'use for example [["git", "clone", "…"]]',
    "a whole number": "use for example {key} = 1",
    "true or false": "use {key} = true",
}
_MADE_UP = {"a string": '"…"', "a list of strings": '["make", "-j4"]'}
T = TypeVar("T")


@dataclass(frozen=True)
class _Document:
    """The keys of a scenario file. Tables with user-defined names, and arrays, are read one by one."""

    name: Annotated[str, "needed: lower-case letters, digits, _ and -"]
    summary: Annotated[str, "needed: one line"]
    image: Annotated[str, "needed: a recipe, a file or a reference, as for `--image`"]
    user: Annotated[str, "numbers of user and group, `0:0` by default"] = "0:0"
    lower: Annotated[str, "directory of the image for `{lower}`: where it lies in `layer`, a copy in other arms"] = ""
    engine: Annotated[
        tuple[str, ...],
        "interfaces that the phases know: `docker` (Docker's API), `ctr` (commands of ctr). `{engine}` is a socket "
        "with that name; it is empty for arms without an engine",
    ] = ()
    registry: Annotated[
        str,
        'an input with `into = "directory"`, the storage of a registry; `{registry}` is HOST:PORT of a docker-registry '
        "that serves it beside each run",
    ] = ""
    env: Annotated[dict[str, Any], "table of environment variables"] = field(default_factory=dict)
    params: Annotated[dict[str, Any], "a table for each parameter: `[params.NAME]`"] = field(default_factory=dict)
    inputs: Annotated[dict[str, Any], "a table for each input: `[inputs.NAME]`"] = field(default_factory=dict)
    prepare: Annotated[list[Any], "commands before each run, not timed: `[[prepare]]`"] = field(default_factory=list)
    phases: Annotated[list[Any], "timed commands: `[[phases]]`"] = field(default_factory=list)
    variants: Annotated[dict[str, Any], "any keys, which replace these in `SCENARIO:NAME`: `[variants.NAME]`"] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class _InputTable:
    source: Annotated[
        str | None,
        "a directory, a tarball, `deb:PACKAGE#SUITE` (a Debian package with a tarball of sources in /usr/src; without "
        "a suite that of this machine), `git:URL#BRANCH`, `git:DIRECTORY#BRANCH` or `git:DIRECTORY#COMMIT`",
    ] = None
    into: Annotated[
        str,
        "`tree`: unpacked into the build tree; `inputs`: a read-only tarball at `{inputs}/NAME.tar.zst`; `directory`: "
        "an unpacked directory at `{inputs}/NAME`",
    ] = "tree"
    strip: Annotated[int, Meta(ge=0, le=MOST), "leading directories to remove"] = 0
    exclude: Annotated[tuple[str, ...], "patterns to leave out"] = ()
    fetch: Annotated[tuple[tuple[str, ...], ...], "commands that fetch it once in the image, with a network"] = ()


def known_keys() -> dict[str, dict[str, str]]:
    """Return the keys of each table, and what each is; that of a parameter's name is the table's own."""
    tables: dict[str, Any] = {
        "top": _Document, "params.NAME": Param, "inputs.NAME": _InputTable, "[[phases]], [[prepare]]": Command,
    }  # fmt: skip
    return {
        where: {key: text for key, text in described_keys(kind).items() if kind is not Param or key != "name"}
        for where, kind in tables.items()
    }


class _Reader:
    """Checks one scenario file and names file, line and key of an error."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path

    def fail(self, where: str, what: str, hint: str) -> UsageError:
        line = find_line(self.text, where)
        at = f"{self.path}:{line}" if line else self.path
        return UsageError(f"{at}: {where}: {what}" if where else f"{at}: {what}", hint)

    def read(self, kind: type[T], value: Any, where: str, **fixed: Any) -> T:
        """Return a table with known keys."""
        try:
            return read_table(kind, value, **fixed)
        except MissingKeyError as error:
            raise self.fail(
                where, f"lacks the key '{error.key}'", f"add {error.key} = {_MADE_UP[error.wanted]}"
            ) from None
        except UnknownKeyError as error:
            at = f"{where}.{error.key}".lstrip(".")
            raise self.fail(at, "unknown key", f"use one of: {error.known}") from None
        except WrongTypeError as error:
            at = f"{where}.{error.key}".strip(".")
            hint = _HINTS[error.wanted].format(at=at, key=error.key)
            actual = error.found if error.wanted == "a string" else ""
            raise self.fail(at, f"is {actual}, not a string" if actual else f"is not {error.wanted}", hint) from None

    def string(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise self.fail(where, f"is {type(value).__name__}, not a string", _HINTS["a string"])
        return value

    def table(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(where, "is not a table", _HINTS["a table"].format(at=where))
        return value

    def named(self, value: Any, where: str, names: re.Pattern[str], form: str) -> dict[str, Any]:
        """Return a table of named things. ``form`` says how such a name is written."""
        table = self.table(value, where)
        self.count(table, where)
        for name in table:
            if not names.fullmatch(name):
                raise self.fail(where, f"{name!r} is not a valid name", form)
        return table

    def count(self, listed: Sized, where: str) -> None:
        if len(listed) > MOST:
            raise self.fail(where, f"has {len(listed)} entries", f"use {MOST} at most")

    def params(self, tables: Mapping[str, Any]) -> tuple[Param, ...]:
        params = []
        form = f"use lower-case letters, digits and _; not {', '.join(_RESERVED)}"
        for name, table in self.named(tables, "params", _PARAM_NAME, form).items():
            where = f"params.{name}"
            if name in _RESERVED:
                raise self.fail(where, "is a reserved name", form)
            param = self.read(Param, table, where, name=name)
            if param.type not in PARAM_TYPES:
                hint = f"use one of: {', '.join(PARAM_TYPES)}"
                raise self.fail(f"{where}.type", f"unknown type '{param.type}'", hint)
            params.append(param)
        return tuple(params)

    def inputs(self, tables: Mapping[str, Any]) -> tuple[Input, ...]:
        inputs = []
        form = "use letters, digits, and . _ + - behind the first"
        for name, value in self.named(tables, "inputs", _INPUT_NAME, form).items():
            where = f"inputs.{name}"
            table = self.read(_InputTable, value, where)
            if table.into not in _INTO:
                raise self.fail(f"{where}.into", f"is '{table.into}'", f"use one of: {', '.join(_INTO)}")
            self.count(table.fetch, f"{where}.fetch")
            if not all(table.fetch):
                raise self.fail(f"{where}.fetch", "holds an empty command", _HINTS["a list of commands"])
            if table.source is None and not table.fetch:
                raise self.fail(where, "lacks the key 'source'", 'add source = "…"')
            steps = tuple(Command("fetch", words) for words in table.fetch)
            inputs.append(Input(name, table.source or "", table.into, table.strip, table.exclude, steps))
        return tuple(inputs)

    def steps(self, tables: Sequence[Any], key: str) -> tuple[Command, ...]:
        self.count(tables, key)
        steps: list[Command] = []
        for index, table in enumerate(tables):
            where = f"{key}[{index}]"
            nameless = key == "prepare" and isinstance(table, dict)
            step = self.read(Command, {"name": key, **table} if nameless else table, where)
            if not _NAME.fullmatch(step.name) or step.name == "total":
                hint = "use lower-case letters, digits, -; not 'total'"
                raise self.fail(f"{where}.name", f"'{step.name}' is not usable", hint)
            if key == "phases" and step.name in [other.name for other in steps]:
                raise self.fail(f"{where}.name", f"'{step.name}' is used twice", "name each phase once")
            if not step.run:
                raise self.fail(f"{where}.run", "is empty", 'use for example run = ["make"]')
            if step.report and (step.report not in PARSERS or key != "phases"):
                raise self.fail(f"{where}.report", f"'{step.report}' is unknown", f"use one of: {', '.join(PARSERS)}")
            if step.reporter and not step.report:
                raise self.fail(f"{where}.reporter", "nothing reads what it prints", "add report = …")
            steps.append(step)
        return tuple(steps)

    def services(self, scenario: Scenario) -> None:
        """Check what the scenario needs beside its sandbox: interfaces of the engine, and a registry."""
        for name in scenario.engine:
            if name not in ENGINE_INTERFACES:
                raise self.fail("engine", f"'{name}' is unknown", f"use one of: {', '.join(ENGINE_INTERFACES)}")
        served = [input_.name for input_ in scenario.inputs if input_.into == "directory"]
        if scenario.registry and scenario.registry not in served:
            hint = f'name an input with into = "directory"{": " if served else ""}{", ".join(served)}'
            raise self.fail("registry", f"'{scenario.registry}' is no input that it can serve", hint)

    def names(self, scenario: Scenario) -> None:
        """Check that every name in braces is known: a typo would otherwise reach the command."""
        names = {param.name for param in scenario.params} | {*PLACE_NAMES, *MACHINE_NAMES}
        names -= {"lower"} if not scenario.lower else set()
        names -= {"engine"} if not scenario.engine else set()
        names -= {"registry"} if not scenario.registry else set()
        texts = [(f"phases[{i}].run", word) for i, step in enumerate(scenario.phases) for word in (*step.run, step.cwd)]
        texts += [(f"phases[{i}].reporter", word) for i, step in enumerate(scenario.phases) for word in step.reporter]
        texts += [(f"prepare[{i}].run", word) for i, step in enumerate(scenario.prepare) for word in step.run]
        texts += [(f"inputs.{input_.name}.source", input_.source) for input_ in scenario.inputs]
        steps = [(input_, step) for input_ in scenario.inputs for step in input_.fetch]
        texts += [(f"inputs.{input_.name}.fetch", word) for input_, step in steps for word in step.run]
        for where, text in texts:
            for name in BRACES.findall(text):
                if name not in names:
                    raise self.fail(where, f"unknown name {{{name}}}", f"use one of: {', '.join(sorted(names))}")


def _merge(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def parse_scenario(text: str, path: str, variant: str = "") -> Scenario:
    """Parse a scenario file, with the overrides of ``variant`` if one is named. Raises UsageError."""
    reader = _Reader(text, path)
    doc = parse_toml(text, path)
    form = "use lower-case letters, digits, _ and -"
    tables = reader.named(doc.get("variants", {}), "variants", _NAME, form)
    variants = {name: reader.table(table, f"variants.{name}") for name, table in tables.items()}
    summaries = [
        (name, reader.string(table.get("summary", ""), f"variants.{name}.summary")) for name, table in variants.items()
    ]
    if variant:
        if variant not in variants:
            hint = f"use one of: {', '.join(variants)}" if variants else "leave it out: the file has no variants"
            raise UsageError(f"{path}: no variant '{variant}'", hint)
        doc = _merge(doc, {key: value for key, value in variants[variant].items() if key != "summary"})
    document = reader.read(_Document, doc, "")
    env = reader.named(document.env, "env", _VARIABLE, "use letters, digits and _")
    scenario = Scenario(
        name=document.name,
        summary=document.summary,
        image=document.image,
        phases=reader.steps(document.phases, "phases"),
        prepare=reader.steps(document.prepare, "prepare"),
        params=reader.params(document.params),
        inputs=reader.inputs(document.inputs),
        env=tuple((name, reader.string(value, f"env.{name}")) for name, value in env.items()),
        user=document.user,
        variant=variant,
        variants=tuple(summaries),
        here=str(PurePath(path).parent),
        lower=document.lower,
        engine=document.engine,
        registry=document.registry,
    )
    if not _NAME.fullmatch(scenario.name):
        raise reader.fail("name", f"'{scenario.name}' is not usable", "use lower-case letters, digits and -")
    if not _USER.fullmatch(scenario.user):
        raise reader.fail("user", f"is '{scenario.user}'", 'use numbers of the image: user = "1000:1000"')
    if not scenario.phases:
        raise reader.fail("", "has no [[phases]]: nothing would be timed", "add [[phases]]")
    reader.services(scenario)
    reader.names(scenario)
    return scenario


def find_line(text: str, where: str) -> int | None:
    """Return the line of a key such as ``params.jobs.type`` or ``phases[1].run``; tomllib keeps no positions."""
    parts = where.split(".", 8)  # no key that is known lies deeper
    for cut in range(len(parts), -1, -1):
        start = _header_line(text, ".".join(parts[:cut])) if cut else 1
        if start is None:
            continue
        if cut == len(parts):
            return start
        key = re.compile(rf"\s*\"?{re.escape(parts[cut])}\"?\s*[.=]")
        for number, line in enumerate(text.splitlines()[start - 1 :], start):
            if number > start and line.lstrip().startswith("["):
                break
            if key.match(line):
                return number
        if cut:
            return start
    return None


def _header_line(text: str, header: str) -> int | None:
    match = re.fullmatch(r"(.+)\[(\d+)\]", header)
    marker, skip = (f"[[{match[1]}]]", int(match[2])) if match else (f"[{header}]", 0)
    for number, line in enumerate(text.splitlines(), 1):
        if line.split("#")[0].strip() == marker:
            if skip == 0:
                return number
            skip -= 1
    return None
