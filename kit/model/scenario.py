"""Scenarios: one workload each, with the values of its parameters. Pure; kit.model.scenariofile reads them."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from kit.core.errors import UsageError
from kit.core.quantity import split_words
from kit.model.sweep import COPIES, Values, map_values, points

#: Names in braces in commands and sources; ``${…}`` is a shell's.
BRACES = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*)\}")
#: Most characters of a command after substitution: no word may be longer (MAX_ARG_STRLEN of Linux), and nested
#: parameters grow without end.
LONGEST_COMMAND = 128 << 10
#: Interfaces of engines: Docker's API, and commands of containerd's ctr.
DOCKER, CTR = ENGINE_INTERFACES = ("docker", "ctr")


@dataclass(frozen=True)
class Param:
    name: str
    default: Annotated[str, "needed: its value without `--param`"]
    type: Annotated[str, "`text`, `int` or `words`"] = "text"
    help: Annotated[str, "one line for `kit scenarios NAME`"] = ""
    choices: Annotated[tuple[str, ...], "all values that it may have"] = ()

    def check(self, value: str) -> str:
        if self.type == "int" and not re.fullmatch(r"[0-9]{1,18}", value):
            raise UsageError(f"parameter {self.name}={value!r} is not a whole number", f"use for example {self.name}=4")
        if self.choices and value not in self.choices:
            raise UsageError(f"parameter {self.name}={value!r} is unknown", f"use one of: {', '.join(self.choices)}")
        return value


#: The parameter that every scenario has.
_COPIES = Param(COPIES, "1", "int")
#: Most copies of a scenario that run at once.
MOST_COPIES = 256


@dataclass(frozen=True)
class Input:
    """Files brought into every run untimed."""

    name: str
    #: deb:PACKAGE#SUITE, git:URL#BRANCH, git:DIRECTORY#COMMIT, a tarball or a directory; '' for none.
    source: str = ""
    #: ``tree``: unpacked in the build tree; ``inputs``: as {inputs}/NAME.tar.zst, read-only;
    #: ``directory``: as {inputs}/NAME/, read-only.
    into: str = "tree"
    strip: int = 0
    exclude: tuple[str, ...] = ()
    #: Commands that are run once for each machine instead, in the image and with a network, in a tree with the
    #: inputs before this one; what they leave in NAME/ is the input.
    fetch: tuple[Command, ...] = ()
    revision: str = ""  # of which arms it is the input; '' for all


@dataclass(frozen=True)
class Command:
    """One command, run without a shell."""

    name: Annotated[str, "needed for a phase"]
    run: Annotated[tuple[str, ...], "needed: the command, a list of words"]
    cwd: Annotated[str, "where it runs, below the build tree"] = "."
    report: Annotated[str, "how to read figures that the phase prints, below"] = ""  # one of kit.parsers.PARSERS
    #: Not in the digest: how a run's output is read does not change the run.
    reporter: Annotated[tuple[str, ...], "a command that prints figures or tasks after the phase, untimed"] = field(
        default=(), repr=False
    )

    @property
    def printer(self) -> Command | None:
        """Return the command that only prints the figures."""
        return Command(self.name, self.reporter, self.cwd) if self.reporter else None

    def render(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """Return the words of the command with ``{tree}``, ``{inputs}`` … replaced by their values in the current
        arm."""
        return tuple(_substitute(word, names) for word in self.run)


@dataclass(frozen=True)
class Scenario:
    """One workload."""

    name: str
    summary: str
    image: str
    phases: tuple[Command, ...]
    prepare: tuple[Command, ...] = ()
    params: tuple[Param, ...] = ()
    inputs: tuple[Input, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    user: str = "0:0"
    variant: str = ""
    variants: tuple[tuple[str, str], ...] = ()  # name, summary
    #: Empty until ``bind`` has put the parameters' values into the steps.
    values: tuple[tuple[str, str], ...] = ()
    here: str = ""
    #: A directory of the image that the phases find as {lower}: in the lower layers if the tree is in the writable
    #: layer, else a copy in the tree.
    lower: str = ""
    #: The interfaces through which phases can control the arm's engine, of ENGINE_INTERFACES; {engine} is a socket with
    #: the name of the engine's interface, empty for arms without an engine.
    engine: tuple[str, ...] = ()
    registry: str = ""  # the input that a registry serves at {registry}, HOST:PORT, beside each run
    #: Names and shell commands, of which each arm runs one as {command}.
    commands: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name}:{self.variant}" if self.variant else self.name

    @property
    def digest(self) -> str:
        """Return the digest of everything that decides what is run: samples with different digests are not compared."""
        # An input's location does not define its content, which has a digest of its own, as an arm's command has.
        inputs = tuple(
            dict.fromkeys(
                (input_.name, input_.into, input_.strip, input_.exclude, input_.fetch) for input_ in self.inputs
            )
        )
        sources = {input_.source for input_ in self.inputs}
        values = tuple((name, value) for name, value in self.values if value not in sources)
        what = (self.phases, self.prepare, inputs, self.env, self.user, values, self.lower)
        return hashlib.sha256(repr(what).encode()).hexdigest()

    @property
    def copies(self) -> int:
        """Return how many copies of it run at once."""
        return int(dict(self.values).get(COPIES, "1"))

    def with_sources(self, values: Values, change: Callable[[str], str]) -> Values:
        """Return the parameters with ``change`` applied to those that only state where an input comes from, and the
        defaults that it changes. For a scenario that is not bound yet."""
        used = {input_.source for input_ in self.inputs}
        defaults = {param.name: param.default for param in self.params if f"{{{param.name}}}" in used}
        names = {name for name, _ in values}
        changed = [(name, text) for name, text in defaults.items() if name not in names and change(text) != text]
        return tuple(
            (name, map_values(text, change) if name in defaults else text) for name, text in (*values, *changed)
        )

    def at_points(self, params: Values, cores: int) -> dict[str, Scenario]:
        """Return the bound scenario at each point of a sweep, by the point's label; one, labelled '', without a sweep.
        Raises UsageError."""
        return {label: self.bind(dict(values), cores) for label, values in points(params).items()}

    def bind(self, chosen: Mapping[str, str], cores: int) -> Scenario:
        """Put the parameters' values (``chosen`` over defaults) into inputs and steps. Raises UsageError."""
        params = (*self.params, _COPIES) if COPIES in chosen else self.params
        by_name = {param.name: param for param in params}
        for name in chosen:
            if name not in by_name:
                hint = (
                    f"use one of: {', '.join(by_name)}" if by_name else "leave it out: the scenario has no parameters"
                )
                raise UsageError(f"scenario {self.name} has no parameter '{name}'", hint)
        names: dict[str, str] = {"cores": str(cores), "here": self.here}
        for param in params:
            text = chosen.get(param.name, _substitute(param.default, names))
            names[param.name] = param.check(text)
        if not 1 <= int(names.get(COPIES, "1")) <= MOST_COPIES:
            raise UsageError(f"copies={names[COPIES]}: not from 1 to {MOST_COPIES}", "use for example --copies 1,2,4")
        if self.engine and int(names.get(COPIES, "1")) > 1:
            raise UsageError(
                f"{self.name} drives the engine itself: its copies would share their containers' names",
                "leave out --copies",
            )
        words = frozenset(param.name for param in self.params if param.type == "words")
        return replace(
            self,
            phases=tuple(_bind_step(step, names, words) for step in self.phases),
            prepare=tuple(_bind_step(step, names, words) for step in self.prepare),
            inputs=tuple(_bind_input(input_, names, words) for input_ in self.inputs),
            commands=tuple((name, _substitute(text, names)) for name, text in self.commands),
            values=tuple((param.name, names[param.name]) for param in params),
        )


def _substitute(text: str, names: Mapping[str, str]) -> str:
    placeholders = BRACES.findall(text)
    if placeholders and len(text) + sum(len(names.get(name, "")) for name in placeholders) > LONGEST_COMMAND:
        raise _too_long(text)
    return BRACES.sub(lambda match: names.get(match[1], match[0]), text)


def _too_long(text: str) -> UsageError:
    return UsageError(
        f"'{text[:40]}…' with its parameters put in has more than {LONGEST_COMMAND} characters",
        "shorten the parameters' values, or put them in a file",
    )


def _bind_input(input_: Input, names: Mapping[str, str], words: frozenset[str]) -> Input:
    fetch = tuple(_bind_step(step, names, words) for step in input_.fetch)
    return replace(input_, source=_substitute(input_.source, names), fetch=fetch)


def _bind_step(step: Command, names: Mapping[str, str], words: frozenset[str]) -> Command:
    run = _bind_words(step, step.run, names, words)
    reporter = _bind_words(step, step.reporter, names, words) if step.reporter else ()
    return replace(step, run=run, reporter=reporter, cwd=_substitute(step.cwd, names))


def _bind_words(
    step: Command, command: tuple[str, ...], names: Mapping[str, str], words: frozenset[str]
) -> tuple[str, ...]:
    run: list[str] = []
    free = LONGEST_COMMAND
    for word in command:
        match = BRACES.fullmatch(word)
        split = match is not None and match[1] in words
        new = split_words(names[match[1]], f"parameter {match[1]}") if match and split else [_substitute(word, names)]
        free -= sum(map(len, new))
        if free < 0:
            raise _too_long(" ".join(command))
        run += new
    if not run:
        raise UsageError(f"the command of {step.name} is empty", "give its parameters a value")
    return tuple(run)


def command_scenario(
    command: tuple[str, ...],
    source: str | None = None,
    prepare: str | None = None,
    commands: tuple[tuple[str, str], ...] = (),
    revisions: tuple[tuple[str, str], ...] = (),
) -> Scenario:
    """Return a scenario of one command, for ``kit compare -- COMMAND``. ``commands``: several instead, by name.
    ``revisions``: commits of ``source``, a Git repository, by name."""
    steps = (Command("prepare", ("sh", "-c", prepare)),) if prepare else ()
    inputs = [Input("source", f"git:{source}#{commit}", revision=name) for name, commit in revisions]
    inputs += [Input("source", source)] if source and not revisions else []
    run = ("sh", "-c", "{command}") if commands else command
    summary = "; ".join(text for _, text in commands) or shlex.join(command)
    phases = (Command("run", run),)
    return Scenario("command", summary, "", phases, steps, inputs=tuple(inputs), commands=commands)
