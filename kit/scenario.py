"""Scenarios: one workload each, read from one TOML file. Pure: takes text, gives a Scenario or a UsageError."""

from __future__ import annotations

import hashlib
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from kit.errors import UsageError
from kit.parsers import PARSERS

#: Names that every scenario may use in braces beside its own parameters: those of a place depend on the arm; ``here``
#: is the directory of the scenario's file. ``lower`` and ``engine`` are there where the scenario asks for them.
PLACE_NAMES = ("tree", "inputs", "lower", "engine")
MACHINE_NAMES = ("cores", "here")
PARAM_TYPES = ("text", "int", "words")

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_BRACES = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*)\}")
_TOP_KEYS = {"name", "summary", "image", "user", "env", "params", "inputs", "prepare", "phases", "variants"}
_TOP_KEYS |= {"lower", "engine"}
_PARAM_KEYS = {"default", "type", "help", "choices"}
_INPUT_KEYS = {"source", "into", "strip", "exclude", "fetch"}
_INTO = ("tree", "inputs", "directory")
_STEP_KEYS = {"name", "run", "cwd", "report"}


@dataclass(frozen=True)
class Param:
    name: str
    default: str
    type: str = "text"
    help: str = ""
    choices: tuple[str, ...] = ()

    def check(self, value: str) -> str:
        if self.type == "int" and not re.fullmatch(r"\d+", value):
            raise UsageError(f"parameter {self.name}={value!r} is not a whole number", f"for example {self.name}=4")
        if self.choices and value not in self.choices:
            raise UsageError(f"parameter {self.name}={value!r} is unknown", f"use one of: {', '.join(self.choices)}")
        return value


@dataclass(frozen=True)
class Input:
    """Files brought into every run untimed.

    ``into``: ``tree`` (unpacked in the build tree), ``inputs`` (as ``{inputs}/NAME.tar.zst``, read-only) or
    ``directory`` (as ``{inputs}/NAME/``, read-only). ``source``: ``deb:PACKAGE``, ``git:URL#BRANCH``, a tarball or a
    directory; none where it is empty. ``fetch``: commands that are run once for each machine instead, in the image and
    with a network, in a tree with the inputs before this one; what they leave in ``NAME/`` is the input.
    """

    name: str
    source: str = ""
    into: str = "tree"
    strip: int = 0
    exclude: tuple[str, ...] = ()
    fetch: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Step:
    """One command, run without a shell. ``cwd`` is relative to the build tree. ``report``: how to read the figures
    that a phase prints, one of kit.parsers.PARSERS."""

    name: str
    run: tuple[str, ...]
    cwd: str = "."
    report: str = ""

    def render(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """The words of the command with ``{tree}``, ``{inputs}`` … as they are called in the arm at hand."""
        return tuple(_substitute(word, names) for word in self.run)


@dataclass(frozen=True)
class Scenario:
    """One workload. ``values`` is empty until ``bind`` has put the parameters' values into the steps.

    ``lower``: a directory of the image that the phases find as ``{lower}``: as it lies in the layers below where the
    tree is in the writable layer, else a copy in the tree. ``engine``: whether they drive the arm's engine, through the
    socket ``{engine}``, which is empty where there is none.
    """

    name: str
    summary: str
    image: str
    phases: tuple[Step, ...]
    prepare: tuple[Step, ...] = ()
    params: tuple[Param, ...] = ()
    inputs: tuple[Input, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    user: str = "0:0"
    variant: str = ""
    variants: tuple[tuple[str, str], ...] = ()  # name, summary
    values: tuple[tuple[str, str], ...] = ()
    here: str = ""
    lower: str = ""
    engine: bool = False

    @property
    def label(self) -> str:
        return f"{self.name}:{self.variant}" if self.variant else self.name

    @property
    def digest(self) -> str:
        """Of everything that decides what is run: two samples with different digests are not compared."""
        # Where an input lies says nothing of what is in it, for which it has a digest of its own.
        inputs = tuple((item.name, item.into, item.strip, item.exclude, item.fetch) for item in self.inputs)
        sources = {item.source for item in self.inputs}
        values = tuple((name, value) for name, value in self.values if value not in sources)
        what = (self.phases, self.prepare, inputs, self.env, self.user, values, self.lower)
        return hashlib.sha256(repr(what).encode()).hexdigest()

    def bind(self, given: Mapping[str, str], cores: int) -> Scenario:
        """Put the parameters' values (``given`` over defaults) into inputs and steps. Raises UsageError."""
        known = {param.name: param for param in self.params}
        for name in given:
            if name not in known:
                hint = f"it has: {', '.join(known)}" if known else "it has no parameters"
                raise UsageError(f"scenario {self.name} has no parameter '{name}'", hint)
        names: dict[str, str] = {"cores": str(cores), "here": self.here}
        for param in self.params:
            text = given.get(param.name, _substitute(param.default, names))
            names[param.name] = param.check(text)
        words = frozenset(param.name for param in self.params if param.type == "words")
        return replace(
            self,
            phases=tuple(_bind_step(step, names, words) for step in self.phases),
            prepare=tuple(_bind_step(step, names, words) for step in self.prepare),
            inputs=tuple(_bind_input(item, names, words) for item in self.inputs),
            values=tuple((param.name, names[param.name]) for param in self.params),
        )


def _substitute(text: str, names: Mapping[str, str]) -> str:
    return _BRACES.sub(lambda match: names.get(match[1], match[0]), text)


def _bind_input(item: Input, names: Mapping[str, str], words: frozenset[str]) -> Input:
    fetch = tuple(_bind_step(step, names, words) for step in item.fetch)
    return replace(item, source=_substitute(item.source, names), fetch=fetch)


def _bind_step(step: Step, names: Mapping[str, str], words: frozenset[str]) -> Step:
    run: list[str] = []
    for word in step.run:
        match = _BRACES.fullmatch(word)
        if match and match[1] in words:
            run += shlex.split(names[match[1]])
        else:
            run.append(_substitute(word, names))
    return replace(step, run=tuple(run), cwd=_substitute(step.cwd, names))


def command_scenario(
    command: tuple[str, ...], source: str | None = None, prepare: str | None = None, user: str = "0:0"
) -> Scenario:
    """A scenario of one command, for ``kit compare -- COMMAND``."""
    steps = (Step("prepare", ("sh", "-c", prepare)),) if prepare else ()
    inputs = (Input("source", source),) if source else ()
    summary = shlex.join(command)
    return Scenario("command", summary, "", (Step("run", command),), steps, inputs=inputs, user=user)


class _Reader:
    """Checks one scenario file and names file, line and key of what is wrong."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path

    def fail(self, where: str, what: str, hint: str) -> UsageError:
        line = find_line(self.text, where)
        at = f"{self.path}:{line}" if line else self.path
        return UsageError(f"{at}: {where}: {what}" if where else f"{at}: {what}", hint)

    def table(self, value: Any, where: str, known: set[str] | None = None) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(where, "is not a table", f"write [{where}]")
        for key in value:
            if known is not None and key not in known:
                raise self.fail(f"{where}.{key}".lstrip("."), "unknown key", f"known here: {', '.join(sorted(known))}")
        return value

    def string(self, table: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if value is None:
            raise self.fail(where, f"lacks the key '{key}'", f'add {key} = "…"')
        if not isinstance(value, str):
            raise self.fail(f"{where}.{key}".lstrip("."), f"is {type(value).__name__}, not a string", "quote it")
        return value

    def strings(self, value: Any, where: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(where, "is not a list of strings", 'for example ["make", "-j4"]')
        return tuple(value)

    def params(self, doc: Mapping[str, Any]) -> tuple[Param, ...]:
        found = []
        for name, value in self.table(doc.get("params", {}), "params").items():
            where = f"params.{name}"
            table = self.table(value, where, _PARAM_KEYS)
            kind = self.string(table, "type", where, "text")
            if kind not in PARAM_TYPES:
                raise self.fail(f"{where}.type", f"unknown type '{kind}'", f"use one of: {', '.join(PARAM_TYPES)}")
            choices = self.strings(table.get("choices", []), f"{where}.choices")
            help_ = self.string(table, "help", where, "")
            found.append(Param(name, self.string(table, "default", where), kind, help_, choices))
        return tuple(found)

    def inputs(self, doc: Mapping[str, Any]) -> tuple[Input, ...]:
        found = []
        for name, value in self.table(doc.get("inputs", {}), "inputs").items():
            where = f"inputs.{name}"
            table = self.table(value, where, _INPUT_KEYS)
            into = self.string(table, "into", where, "tree")
            if into not in _INTO:
                raise self.fail(f"{where}.into", f"is '{into}'", f"use one of: {', '.join(_INTO)}")
            strip = table.get("strip", 0)
            if not isinstance(strip, int) or strip < 0:
                raise self.fail(f"{where}.strip", "is not a whole number", "for example strip = 1")
            exclude = self.strings(table.get("exclude", []), f"{where}.exclude")
            fetch = tuple(Step("fetch", self.strings(words, f"{where}.fetch")) for words in table.get("fetch", ()))
            source = self.string(table, "source", where, "" if fetch else None)
            found.append(Input(name, source, into, strip, exclude, fetch))
        return tuple(found)

    def steps(self, doc: Mapping[str, Any], key: str) -> tuple[Step, ...]:
        listed = doc.get(key, [])
        if not isinstance(listed, list):
            raise self.fail(key, "is not an array of tables", f"write [[{key}]]")
        found: list[Step] = []
        for index, value in enumerate(listed):
            where = f"{key}[{index}]"
            table = self.table(value, where, _STEP_KEYS)
            name = self.string(table, "name", where, key if key == "prepare" else None)
            if not _NAME.fullmatch(name) or name == "total":
                raise self.fail(
                    f"{where}.name", f"'{name}' is not usable", "lower-case letters, digits, -; not 'total'"
                )
            if key == "phases" and name in [step.name for step in found]:
                raise self.fail(f"{where}.name", f"'{name}' is used twice", "name each phase once")
            run = self.strings(table.get("run"), f"{where}.run")
            if not run:
                raise self.fail(f"{where}.run", "is empty", 'for example run = ["make"]')
            report = self.string(table, "report", where, "")
            if report and (report not in PARSERS or key != "phases"):
                raise self.fail(f"{where}.report", f"'{report}' is unknown", f"a phase's: {', '.join(PARSERS)}")
            found.append(Step(name, run, self.string(table, "cwd", where, "."), report))
        return tuple(found)

    def names(self, scenario: Scenario) -> None:
        """Every name in braces must be known: a typo would reach the command as it stands."""
        known = {param.name for param in scenario.params} | {*PLACE_NAMES, *MACHINE_NAMES}
        known -= {"lower"} if not scenario.lower else set()
        known -= {"engine"} if not scenario.engine else set()
        texts = [(f"phases[{i}].run", word) for i, step in enumerate(scenario.phases) for word in (*step.run, step.cwd)]
        texts += [(f"prepare[{i}].run", word) for i, step in enumerate(scenario.prepare) for word in step.run]
        texts += [(f"inputs.{item.name}.source", item.source) for item in scenario.inputs]
        steps = [(item, step) for item in scenario.inputs for step in item.fetch]
        texts += [(f"inputs.{item.name}.fetch", word) for item, step in steps for word in step.run]
        for where, text in texts:
            for name in _BRACES.findall(text):
                if name not in known:
                    raise self.fail(where, f"unknown name {{{name}}}", f"known: {', '.join(sorted(known))}")


def _merge(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def parse_scenario(text: str, path: str, variant: str = "") -> Scenario:
    """Parse a scenario file, with the overrides of ``variant`` if one is named. Raises UsageError."""
    reader = _Reader(text, path)
    try:
        doc = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not valid TOML: {error}", "mend the file at that line") from None
    reader.table(doc, "", _TOP_KEYS)
    variants = reader.table(doc.get("variants", {}), "variants")
    if variant:
        if variant not in variants:
            hint = f"it has: {', '.join(variants)}" if variants else "it has none"
            raise UsageError(f"{path}: no variant '{variant}'", hint)
        doc = _merge(doc, {key: value for key, value in variants[variant].items() if key != "summary"})
        reader.table(doc, "", _TOP_KEYS)
    env = reader.table(doc.get("env", {}), "env")
    scenario = Scenario(
        name=reader.string(doc, "name", ""),
        summary=reader.string(doc, "summary", ""),
        image=reader.string(doc, "image", ""),
        phases=reader.steps(doc, "phases"),
        prepare=reader.steps(doc, "prepare"),
        params=reader.params(doc),
        inputs=reader.inputs(doc),
        env=tuple((key, reader.string(env, key, "env")) for key in env),
        user=reader.string(doc, "user", "", "0:0"),
        variant=variant,
        variants=tuple((name, str(table.get("summary", ""))) for name, table in variants.items()),
        here=str(PurePath(path).parent),
        lower=reader.string(doc, "lower", "", ""),
        engine=doc.get("engine") is True,
    )
    if not _NAME.fullmatch(scenario.name):
        raise reader.fail("name", f"'{scenario.name}' is not usable", "lower-case letters, digits and -")
    if not scenario.phases:
        raise reader.fail("", "has no [[phases]]: nothing would be timed", "add one")
    reader.names(scenario)
    return scenario


def find_line(text: str, where: str) -> int | None:
    """The line of a key such as ``params.jobs.type`` or ``phases[1].run``; tomllib keeps no positions."""
    parts = where.split(".")
    for cut in range(len(parts), -1, -1):
        start = _header_line(text, ".".join(parts[:cut])) if cut else 1
        if start is None:
            continue
        if cut == len(parts):
            return start
        for number, line in enumerate(text.splitlines()[start - 1 :], start):
            if number > start and line.lstrip().startswith("["):
                break
            if re.match(rf"\s*\"?{re.escape(parts[cut])}\"?\s*[.=]", line):
                return number
        if cut:
            return start
    return None


def _header_line(text: str, header: str) -> int | None:
    match = re.fullmatch(r"(.+)\[(\d+)\]", header)
    wanted, skip = (f"[[{match[1]}]]", int(match[2])) if match else (f"[{header}]", 0)
    for number, line in enumerate(text.splitlines(), 1):
        if line.split("#")[0].strip() == wanted:
            if skip == 0:
                return number
            skip -= 1
    return None
