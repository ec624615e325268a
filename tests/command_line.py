"""The command line in a process of its own: a new one, or, in milliseconds, a fork of the one that tests."""

import importlib
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NoReturn

import kit
from kit.cli import main

Kit = Callable[..., subprocess.CompletedProcess[str]]


def in_new_process(*words: str | Path, timeout: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
    """As a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "kit", *map(str, words)],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def in_fork(*words: str | Path, timeout: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
    """For what starts no session: Python and libraries, most of a short command's time, are there already."""
    _warm_up()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become_kit([str(word) for word in words], env, out.fileno(), err.fileno())
        before = signal.signal(signal.SIGALRM, _too_late)
        signal.setitimer(signal.ITIMER_REAL, timeout)
        try:
            status = os.waitpid(child, 0)[1]
        except subprocess.TimeoutExpired:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (out, err)]
    return subprocess.CompletedProcess(list(map(str, words)), os.waitstatus_to_exitcode(status), *said)


@cache
def _warm_up() -> None:
    """All modules, and what libraries import and learn on first use: forks do it no more, each anew."""
    from kit.analysis.session.analyse import analyse
    from kit.report import render
    from kit.report.page.html import render_html
    from kit.report.page.page import view
    from kit.report.renderer import SESSION, names
    from tests.nights import night
    from tests.stores import new_store

    for module in pkgutil.walk_packages(kit.__path__, "kit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    session = night(1, 0.05)
    with tempfile.TemporaryDirectory() as directory:
        store = new_store(Path(directory) / "kit.db")
        store.add(session)
        store.history(session.title, session.arms[1])
        store.close()
    for name in names(SESSION):
        render(name, session, analyse(session))
    render_html(session.title, [view(session, analyse(session))])


def _too_late(number: int, frame: FrameType | None) -> None:
    raise subprocess.TimeoutExpired("kit", 0)


def _become_kit(words: list[str], env: Mapping[str, str], out: int, err: int) -> NoReturn:
    """Nothing of the process that tests is left to be done in this one, whatever happens."""
    code = 70
    try:
        for number in (signal.SIGALRM, signal.SIGVTALRM):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((nothing, out, err)):
            os.dup2(source, target)
        sys.stdin = os.fdopen(0, encoding="utf-8")
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace")
        os.environ.update(env)
        sys.argv = ["kit", *words]
        main()
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def joined(output: str) -> str:
    """Return output whose broken command lines are whole, as a shell joins them."""
    return re.sub(r" \\\n +", " ", output)
