"""Scenario files: one TOML file describes one scenario. Pure: takes text, gives a Scenario or a UsageError."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sized
from pathlib import PurePath
from typing import Any

from kit.core.errors import UsageError
from kit.core.toml import parse_toml
from kit.model.scenario import BRACES, Input, Param, Scenario, Step
from kit.parsers import PARSERS

#: Names that every scenario may use in braces beside its own parameters: those of a place depend on the arm; ``here``
#: is the directory of the scenario's file. ``lower`` and ``engine`` are there where the scenario asks for them.
PLACE_NAMES = ("tree", "inputs", "lower", "engine")
MACHINE_NAMES = ("cores", "here")
PARAM_TYPES = ("text", "int", "words")
#: Of phases, steps, parameters, inputs, variants, each: far more than anything real has.
MOST = 100

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,59}")
_PARAM_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
#: A file's or directory's name, in the cache and in the arm: never one above, never a path.
_INPUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,59}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USER = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
_TOP_KEYS = {"name", "summary", "image", "user", "env", "params", "inputs", "prepare", "phases", "variants"}
_TOP_KEYS |= {"lower", "engine"}
_PARAM_KEYS = {"default", "type", "help", "choices"}
_INPUT_KEYS = {"source", "into", "strip", "exclude", "fetch"}
_INTO = ("tree", "inputs", "directory")
_STEP_KEYS = {"name", "run", "cwd", "report"}


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

    def named(self, value: Any, where: str, names: re.Pattern[str], form: str) -> dict[str, Any]:
        """A table of things that have names. ``form`` says how such a name is written."""
        table = self.table(value, where)
        self.count(table, where)
        for name in table:
            if not names.fullmatch(name):
                raise self.fail(where, f"{name!r} is no name", form)
        return table

    def count(self, listed: Sized, where: str) -> None:
        if len(listed) > MOST:
            raise self.fail(where, f"has {len(listed)} entries", f"{MOST} at most")

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
        form = f"lower-case letters, digits and _; not {', '.join((*PLACE_NAMES, *MACHINE_NAMES))}"
        for name, value in self.named(doc.get("params", {}), "params", _PARAM_NAME, form).items():
            where = f"params.{name}"
            if name in (*PLACE_NAMES, *MACHINE_NAMES):
                raise self.fail(where, "is a name of the kit's own", form)
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
        form = "letters, digits, and . _ + - behind the first"
        for name, value in self.named(doc.get("inputs", {}), "inputs", _INPUT_NAME, form).items():
            where = f"inputs.{name}"
            table = self.table(value, where, _INPUT_KEYS)
            into = self.string(table, "into", where, "tree")
            if into not in _INTO:
                raise self.fail(f"{where}.into", f"is '{into}'", f"use one of: {', '.join(_INTO)}")
            strip = table.get("strip", 0)
            if type(strip) is not int or not 0 <= strip <= MOST:
                raise self.fail(f"{where}.strip", "is not a whole number", "for example strip = 1")
            exclude = self.strings(table.get("exclude", []), f"{where}.exclude")
            fetch = self.fetch(table.get("fetch", []), f"{where}.fetch")
            source = self.string(table, "source", where, "" if fetch else None)
            found.append(Input(name, source, into, strip, exclude, fetch))
        return tuple(found)

    def fetch(self, value: Any, where: str) -> tuple[Step, ...]:
        if not isinstance(value, list):
            raise self.fail(where, "is not a list of commands", 'for example [["git", "clone", "…"]]')
        self.count(value, where)
        steps = tuple(Step("fetch", self.strings(words, where)) for words in value)
        if not all(step.run for step in steps):
            raise self.fail(where, "holds an empty command", 'for example [["git", "clone", "…"]]')
        return steps

    def steps(self, doc: Mapping[str, Any], key: str) -> tuple[Step, ...]:
        listed = doc.get(key, [])
        if not isinstance(listed, list):
            raise self.fail(key, "is not an array of tables", f"write [[{key}]]")
        self.count(listed, key)
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
            for name in BRACES.findall(text):
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
    doc = parse_toml(text, path)
    reader.table(doc, "", _TOP_KEYS)
    form = "lower-case letters, digits, _ and -"
    named = reader.named(doc.get("variants", {}), "variants", _NAME, form)
    variants = {name: reader.table(table, f"variants.{name}") for name, table in named.items()}
    summaries = [(name, reader.string(table, "summary", f"variants.{name}", "")) for name, table in variants.items()]
    if variant:
        if variant not in variants:
            hint = f"it has: {', '.join(variants)}" if variants else "it has none"
            raise UsageError(f"{path}: no variant '{variant}'", hint)
        doc = _merge(doc, {key: value for key, value in variants[variant].items() if key != "summary"})
        reader.table(doc, "", _TOP_KEYS)
    env = reader.named(doc.get("env", {}), "env", _VARIABLE, "letters, digits and _")
    if not isinstance(doc.get("engine", False), bool):
        raise reader.fail("engine", "is not true or false", "engine = true")
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
        variants=tuple(summaries),
        here=str(PurePath(path).parent),
        lower=reader.string(doc, "lower", "", ""),
        engine=doc.get("engine", False),
    )
    if not _NAME.fullmatch(scenario.name):
        raise reader.fail("name", f"'{scenario.name}' is not usable", "lower-case letters, digits and -")
    if not _USER.fullmatch(scenario.user):
        raise reader.fail("user", f"is '{scenario.user}'", 'numbers, as the image has them: user = "1000:1000"')
    if not scenario.phases:
        raise reader.fail("", "has no [[phases]]: nothing would be timed", "add one")
    reader.names(scenario)
    return scenario


def find_line(text: str, where: str) -> int | None:
    """The line of a key such as ``params.jobs.type`` or ``phases[1].run``; tomllib keeps no positions."""
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
    wanted, skip = (f"[[{match[1]}]]", int(match[2])) if match else (f"[{header}]", 0)
    for number, line in enumerate(text.splitlines(), 1):
        if line.split("#")[0].strip() == wanted:
            if skip == 0:
                return number
            skip -= 1
    return None
