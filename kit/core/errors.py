"""Errors a user can cause or fix: one line that says what and where, and one that says how to fix it."""

from __future__ import annotations

from kit.core import exit_code as codes
from kit.core.sanitize import printable

#: Most characters of an error, which quotes files and programs: a line of 400 with ``kit: `` before.
LONGEST_ERROR = 390
_LOOKED_AT = 5_000


def brief(text: str) -> str:
    """Return the text in one printable line without secrets, its middle left out if it is too long: the cause is at one
    of its ends. It may quote a workload, a file or a program, and is shown, stored and sent."""
    parts = text.splitlines()
    line = " ".join(part.strip() for part in parts) if len(parts) > 1 else "".join(parts)
    # Half a secret cannot be recognised; none has as many characters as are checked.
    line = printable(line if len(line) <= 2 * _LOOKED_AT else line[:_LOOKED_AT] + line[-_LOOKED_AT:])
    half = LONGEST_ERROR // 2
    return f"{line[: LONGEST_ERROR - half - 1]}…{line[len(line) - half :]}" if len(line) > LONGEST_ERROR else line


class KitError(Exception):
    """What went wrong and where (``message``), and what to do about it (``hint``), each in one line of 390 characters
    at most. Bad input, by its exit code."""

    exit_code = codes.USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = brief(message)
        self.hint = brief(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.hint}" if self.hint else self.message


#: The fix for a full backing filesystem.
MORE_ROOM = "give the backing filesystem more room, for example --size 40G"


#: Where the log of a program is that the kit has started.
SESSION_LOG = "see session.log, of a guest guest.log, in the directory of the session's logs"


def said_by_system(error: OSError) -> str:
    """Return what failed, and why, in one line."""
    return brief(f"{error.filename or 'system'}: {error.strerror or error}")


class UsageError(KitError):
    """The command line, an arm or a file names something that does not exist or is not valid."""


class MachineError(KitError):
    """This machine lacks a tool, a right or a feature that was asked for."""


def not_installed(what: str, package: str, extra: str) -> MachineError:
    """Return the error for ``what``, which needs a package that an extra of the kit brings."""
    hint = f"run pip install 'storage-driver-test-kit[{extra}]'"
    return MachineError(f"{what} the package {package}, which is not installed", hint)


class UnavailableError(MachineError):
    """A workload's sources or other needs are unavailable here: its arms are not run."""


class RunError(KitError):
    """Something that was running failed: a build, a daemon, a container."""

    exit_code = codes.FAILED


class TimedOut(RunError):  # noqa: N818 (the word of the field)
    """A command of a workload exceeded its deadline and was ended, with all that it had started."""


class AwayError(RunError):
    """A server does not answer now; data for it can wait."""


class BusyError(KitError):
    """Another session uses the machine; concurrent sessions would disturb each other."""

    exit_code = codes.BUSY


def causes_of(error: BaseException) -> list[BaseException]:
    """Return the error, its cause, and so on; the first cause is the last."""
    causes = [error]
    while cause := causes[-1].__cause__:
        causes.append(cause)
    return causes
