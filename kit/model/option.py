"""What the kit knows of an option: ``option`` declares it as the field of a dataclass. Pure: the pytest plugin imports
it at each start of pytest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kit.core.errors import UsageError


@dataclass(frozen=True)
class Option:
    """An option of a session. Its field's name is its own; its default stands here alone."""

    name: str
    help: str
    metavar: str | None = None
    default: Any = ""  # as a user would write it; None: not given
    kind: type = str  # its type in a file; that of a repeatable option is dict
    choices: tuple[str, ...] = ()
    read: Callable[[Any, str], Any] | None = None  # converts a user's value to the field's; errors name the option
    flag: str = ""  # its name on the command line, if different
    alone: str = ""  # its value where a command line has the option without one
    group: str = ""  # of the help of kit compare
    most: int = 1 << 60  # of a number
    night: str = ""  # the default in a night file, if different
    in_settings: bool = True  # False: it describes one workload or session, or a command line could not undo it
    in_pytest: bool = False  # pytest's command line and configuration have it
    on_fleet: bool = True  # it makes sense for other machines
    in_suite: bool = False  # it replaces what a suite's file says of each task

    @property
    def words(self) -> str:
        """Return the option as on the command line."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def file_type(self) -> Any:
        """Return the type of its value in a file."""
        return dict[str, Any] if self.kind is dict else self.kind

    def check_choice(self, value: Any, where: str) -> None:
        """Check the value of a file; ``where`` names the file. Raises UsageError."""
        if self.choices and value not in self.choices:
            choices = ", ".join(filter(None, self.choices))
            raise UsageError(f"{where}: unknown {self.name} = '{value}'", f"use one of: {choices}")

    def spelled(self, prefix: str) -> str:
        """Return the option as on a command line whose options begin with ``prefix``; '' means a file."""
        return self.words.replace("--", prefix, 1) if prefix else self.name

    def read_value(self, value: Any, prefix: str) -> Any:
        """Return the field's value for a user's. ``prefix``: as in ``spelled``, for errors. Raises UsageError."""
        if value is None:
            return self.value
        if self.read and (self.kind is dict or isinstance(value, str | int)):
            return self.read(value if self.kind is dict else str(value), self.spelled(prefix))
        return value

    @property
    def parameter(self) -> str:
        """Return the name under which click hands over its value."""
        return f"no_{self.name}" if self.negated else self.name

    @property
    def negated(self) -> bool:
        """Return whether the option on the command line sets the field to false."""
        return self.flag.startswith("--no-")

    @property
    def value(self) -> Any:
        """Return the default as the field has it."""
        if self.kind is dict:
            return ()
        if self.kind is bool:
            return not self.default if self.negated else self.default
        if self.read and self.default is not None:
            return self.read(self.default, self.words)
        return 0 if self.kind is int else self.default


def option(text: str, metavar: str | None = None, **more: Any) -> Any:
    """Return the field of an option. ``text``: its help. ``more``: other fields of ``Option``."""
    declared = Option("", text, metavar, **more)
    return field(default=declared.value, metadata={"option": declared})


def options_of(kind: Any) -> dict[str, Option]:
    """Return the options that a dataclass declares, by name."""
    declared = ((attribute.name, attribute.metadata.get("option")) for attribute in fields(kind))
    return {name: replace(option, name=name) for name, option in declared if option}


def check_numbers(options: Any) -> None:
    """Check that no number is negative or beyond its most: options also come from stores and other machines. Raises
    UsageError."""
    for option in options_of(type(options)).values():
        value = getattr(options, option.name)
        if isinstance(value, int | float) and not 0 <= value <= option.most:
            raise UsageError(f"{option.words} {value:.4g}: out of bounds", f"use a number from 0 to {option.most}")
