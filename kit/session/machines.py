"""Many machines on which a session runs, as those of a fleet: an extra brings them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kit.core.errors import UsageError
from kit.extensions import added

if TYPE_CHECKING:
    from kit.model.session import Request, Session


@dataclass(frozen=True)
class Machines:
    """What the core asks of the extra. Of its functions, ``given`` are the values of the command's options, by
    parameter; the store and the observer of progress come next."""

    #: Adds the options of kit compare to a command.
    options: Callable[[Any], Any]
    #: Adds those that choose the machines.
    choice_options: Callable[[Any], Any]
    #: Checks options that require or exclude such machines. Raises UsageError.
    check: Callable[[Mapping[str, Any]], None]
    #: Returns what runs a request on machines that share its rounds. Raises UsageError.
    runner: Callable[[Mapping[str, Any], Any, Any], Callable[[Request], Session]]
    #: Runs a session that machines share, or the rest of one (no request), and returns it; or a session on each, with
    #: the answer of all, and returns the exit code. The last argument: files to write, by renderer. Raises KitError.
    compare: Callable[[Request | None, Mapping[str, Any], Any, Any, Mapping[str, str]], Session | int]


def find_machines() -> Machines | None:
    """Return None if no extra has any."""
    return next(added("machines"), None)


def the_machines() -> Machines:
    """Raises UsageError if no extra has any."""
    if machines := find_machines():
        return machines
    raise UsageError("this kit has no fleets", "leave out the options of a fleet")


def machine_choice_options(command: Any) -> Any:
    """Add options that choose the machines of a session, if there can be any but this one."""
    machines = find_machines()
    return machines.choice_options(command) if machines else command


def check_machine_options(given: Mapping[str, Any]) -> None:
    """Raises UsageError."""
    if machines := find_machines():
        machines.check(given)
