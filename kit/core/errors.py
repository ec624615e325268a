"""Errors a user can cause or mend: one line that says what and where, and one that says how to mend it."""

from __future__ import annotations


class KitError(Exception):
    """What went wrong and where (``message``), and what to do about it (``hint``). Exit code 2: bad input."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.hint}" if self.hint else self.message


#: What mends a backing filesystem that is full.
MORE_ROOM = "give the backing filesystem more room, for example --size 40G"


#: Where the log of a program is that the kit has started.
SESSION_LOG = "see session.log, of a guest guest.log, in the directory of the session's logs"


def said_by_system(error: OSError) -> str:
    """What failed, and why, in one line."""
    return f"{error.filename or 'system'}: {error.strerror or error}"


class UsageError(KitError):
    """The command line, an arm or a file names something that does not exist or does not fit."""


class MachineError(KitError):
    """This machine lacks a tool, a right or a feature that was asked for."""


def not_installed(what: str, package: str, extra: str) -> MachineError:
    """``what`` needs a package that an extra of the kit brings."""
    hint = f"pip install 'storage-driver-test-kit[{extra}]'"
    return MachineError(f"{what} the package {package}, which is not installed", hint)


class UnavailableError(MachineError):
    """A workload's sources, or what it needs besides, can't be had here: its arms are not run."""


class RunError(KitError):
    """Something that was running failed: a build, a daemon, a container. Exit code 1."""

    exit_code = 1


class TimedOut(RunError):  # noqa: N818 (the word of the field)
    """A command of a workload outlived its deadline and was ended, with all that it had started."""


class AwayError(RunError):
    """A server does not answer now; what it was to be told can wait."""


class BusyError(KitError):
    """Another session holds the machine; two at once would measure each other. Exit code 1."""

    exit_code = 1


def causes_of(error: BaseException) -> list[BaseException]:
    """Itself, what it was raised from, and so on; the first cause is the last."""
    found = [error]
    while cause := found[-1].__cause__:
        found.append(cause)
    return found
