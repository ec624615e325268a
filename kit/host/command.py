"""Runs all subprocesses: with a clean environment, logged, and with a failure explained once by its stderr."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kit.core.errors import MORE_ROOM, SESSION_LOG, MachineError, RunError
from kit.host.machine import os_release
from kit.host.packages import MANAGERS, PACKAGES, ask_apt, install_words

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

log = logging.getLogger(__name__)

Process = subprocess.Popen[bytes]

#: Variables of the user's proxies.
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_KEPT = ("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "DM_DISABLE_UDEV", *PROXIES)

#: Where commands run that name no directory. Programs read settings of the current one, which may be another user's.
_NOWHERE = Path("/")


class CommandError(RunError):
    """A command ended with another status than 0. ``said``: all of its stderr, for callers that parse it."""

    def __init__(self, message: str, hint: str, said: str) -> None:
        super().__init__(message, hint)
        self.said = said


def environment() -> dict[str, str]:
    """Return the environment of subprocesses: no locale, no DOCKER_HOST, only paths and proxies of the user's shell. In
    PATH the current directory, which may be another user's, is left out."""
    inherited = {key: os.environ[key] for key in _KEPT if key in os.environ}
    path = [part for part in inherited.get("PATH", "/usr/bin:/bin").split(":") if part.startswith("/")]
    missing = [part for part in ("/usr/local/sbin", "/usr/sbin", "/sbin") if part not in path]
    return {**inherited, "PATH": ":".join([*path, *missing]), "LC_ALL": "C.UTF-8"}


def python_module(name: str, *words: str) -> list[str]:
    """Return the command that runs a module in this Python. Without -P it would be sought in the current directory
    first, and so would all that it imports."""
    return [sys.executable, "-P", "-m", name, *words]


def python_path() -> dict[str, str]:
    """Return the variable by which another Python finds the modules of this one."""
    return {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part.startswith("/"))}


def process_pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool of copies of this process. A new Python, which 3.14 starts by default, would first look for its own
    modules in the current directory. Make it before any thread starts."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(processes, get_context("fork"))


def which(tool: str) -> str | None:
    return shutil.which(tool, path=environment()["PATH"])


def require(tool: str, package: str = "") -> str:
    """Return the path of a tool. Raises MachineError with its package."""
    path = which(tool)
    if not path:
        raise MachineError(f"{tool} is not installed", install_fix(package or PACKAGES.get(tool, tool), tool))
    return path


def install_fix(packages: str, program: str = "") -> str:
    """Return how this machine installs Debian packages, in words; ``packages`` as in PACKAGES. ``program``: the one
    that is missing, by which other distributions find their package."""
    release = os_release()
    family = (release.get("ID", ""), *release.get("ID_LIKE", "").split())
    # Fedora and Arch have apt, too, for builders of Debian's images; it knows none of their packages.
    manager = "" if "debian" in family else next(filter(which, MANAGERS), "")
    offered = None if manager else _offered_packages(packages, which("apt-cache"))
    return install_words(packages, offered, manager, program)


@cache
def _offered_packages(packages: str, apt_cache: str | None) -> frozenset[str] | None:
    """Return what apt's sources have of the packages; None without apt."""
    if apt_cache is None:
        return None
    with suppress(RunError):
        return frozenset(line.split()[0] for line in run([apt_cache, *ask_apt(packages)]).splitlines())
    return frozenset()


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
    what: str = "",
    pass_fds: Sequence[int] = (),
) -> str:
    """Run a command to its end and return its stdout. Raises CommandError with the last lines of its stderr, RunError
    if the command exceeds ``timeout`` seconds."""
    return run_bytes(argv, env=env, cwd=cwd, timeout=timeout, what=what, pass_fds=pass_fds).decode(errors="replace")


def run_bytes(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
    what: str = "",
    pass_fds: Sequence[int] = (),
) -> bytes:
    """Run a command as ``run`` does; return its output as bytes."""
    words = _words(argv, "run", cwd)
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment(), **(env or {})},
        cwd=cwd or _NOWHERE,
        pass_fds=tuple(pass_fds),
        start_new_session=True,  # the kit handles Ctrl-C: the tool must not be killed half-way
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end_group(process)
        raise RunError(f"{what or argv[0]}: no end after {timeout:g} s", SESSION_LOG) from None
    except BaseException:
        _end_group(process)
        raise
    _check(process.returncode, words, errors, what or str(argv[0]))
    return output


def _words(argv: Sequence[str | Path], verb: str, cwd: Path | None = None) -> list[str]:
    """Return the words of a command, its program found. Without ``cwd`` it runs elsewhere than here: paths are made
    absolute."""
    paths = (word.absolute() if isinstance(word, Path) and not cwd else word for word in argv[1:])
    words = [require(str(argv[0])), *map(str, paths)]
    log.debug("%s: %s", verb, shlex.join(words))
    return words


def _check(status: int, words: list[str], errors: bytes, what: str) -> None:
    """Log a command's output. If the command failed, raise CommandError with the last lines."""
    stderr = errors.decode(errors="replace").strip()
    if stderr:
        log.debug("stderr of %s: %s", Path(words[0]).name, stderr)
    if status != 0:
        lines = [line for line in stderr.splitlines() if line.strip()][-3:]
        reason = "; ".join(lines) or f"exit status {status}"
        hint = MORE_ROOM if "No space left" in reason else f"the command was: {shlex.join(words)[:500]}"
        raise CommandError(f"{what} failed: {reason}", hint, stderr)


def _end_group(process: Process) -> None:
    """Let an interrupted tool clean up after itself, for a limited time."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    if not ended(process, 10):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def spawn(
    argv: Sequence[str | Path],
    *,
    output: IO[bytes],
    cgroup_procs: Sequence[Path] = (),
    pass_fds: Sequence[int] = (),
) -> Process:
    """Start a process that dies with the kit (parent-death signal), in the given cgroups, in a session of its own."""
    words = _words(argv, "spawn")
    join = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1"; shift; n=$((n-1)); done; exec "$@"'
    start = ["sh", "-ec", join, "sh", str(len(cgroup_procs)), *map(str, cgroup_procs)]
    return subprocess.Popen(
        [*start, require("setpriv"), "--pdeathsig", "KILL", "--", *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment(),
        cwd=_NOWHERE,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
    )


def begin_copy() -> int:
    """Fork this process: return the child's ID, and 0 in the child. The child has a process group of its own, so a
    terminal interrupts the parent alone. Call it before any thread starts."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
    return child


def ended(process: Process, patience: float) -> bool:
    """Return whether the process ends within ``patience`` seconds."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    return process.returncode is not None


def died(process: Process) -> str:
    """Return how the process has ended, or '' while it runs."""
    status = process.poll()
    if status is None:
        return ""
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def stop(process: Process, patience: float = 10.0) -> None:
    """End a spawned process: SIGTERM, then SIGKILL after ``patience`` seconds. Waits for it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        if not ended(process, patience):
            process.kill()
            process.wait()


@contextmanager
def reading(argv: Sequence[str | Path], what: str = "", source: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Yield a command's output while the command runs; the block reads it to its end. ``source``: the command's input,
    from where its descriptor is. Raises CommandError if the command fails."""
    with _checked(argv, what, source or subprocess.DEVNULL, subprocess.PIPE) as process:
        assert process.stdout
        yield process.stdout


@contextmanager
def writing(argv: Sequence[str | Path], output: IO[bytes] | None = None, what: str = "") -> Iterator[IO[bytes]]:
    """Yield a command's input. ``output``: the target of its output, else none. Raises RunError if the command fails,
    or ends before it has read everything."""
    with _checked(argv, what, subprocess.PIPE, output or subprocess.DEVNULL) as process:
        assert process.stdin
        with suppress(BrokenPipeError), process.stdin as pipe:  # its stderr explains the failure
            yield pipe


@contextmanager
def _checked(
    argv: Sequence[str | Path], what: str, stdin: int | IO[bytes], stdout: int | IO[bytes]
) -> Iterator[Process]:
    words = _words(argv, "run")
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            words,
            stdin=stdin,
            stdout=stdout,
            stderr=errors,
            env=environment(),
            cwd=_NOWHERE,
            start_new_session=True,
        ) as process:
            try:
                yield process
            except BaseException:
                _end_group(process)
                raise
        errors.seek(0)
        _check(process.returncode, words, errors.read(), what or str(argv[0]))


@contextmanager
def talking(argv: Sequence[str | Path], what: str, env: Mapping[str, str] | None = None) -> Iterator[Process]:
    """Yield a program that outlives the kit, with pipes to and from it. At the end of the block its input is closed.
    Its end is awaited without a limit, and its stderr is logged as that of ``what``."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            _words(argv, "run"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**environment(), **(env or {})},
            cwd=_NOWHERE,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.communicate()
            errors.seek(0)
            log.debug("%s, %s; log:\n%s", what, died(process), errors.read().decode(errors="replace").strip())
