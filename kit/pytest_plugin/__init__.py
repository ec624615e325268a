"""pytest: scenario files collected as benchmarks, one test per scenario and arm; a fixture and markers for tests of
one's own.

Inactive unless --kit-arms is given or the fixture is used. The process enters a private mount namespace when it
measures as root, so what it mounts is not seen outside. Imports session, fleet, report, the store and words.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from kit.model.drivers import DEFAULT_ENGINE, SESSION_ENGINES
from kit.pytest_plugin.compare import kit_compare
from kit.pytest_plugin.items import ScenarioFile, ScenarioItem
from kit.pytest_plugin.runner import RUNNER, SessionRunner, refuse_xdist

__all__ = ["kit_compare"]

_MARKERS = (
    "kit_scenario(name, **params): what kit_compare() runs in this test, for example kit_scenario('smoke', jobs=2)",
    "kit_arms(*arms): the arms on which kit_compare() runs it, for example kit_arms('bare', 'layer:overlay2')",
    "kit_threshold(text, undecided='warn'): what each comparison of this test must keep to, for example "
    "kit_threshold('layer:overlay2 < 10 %'); undecided='fail' where an interval that holds the limit is not enough",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kit", "storage driver test kit")
    add = group.addoption
    add("--kit-arms", metavar="A,B,…", help="collect scenario files and run them on these arms; 'default': all")
    add("--kit-rounds", type=int, metavar="N", help="number of rounds (default: until decided)")
    add("--kit-precision", default="", metavar="P%", help="go on until every ratio is known that well")
    add("--kit-budget", default="", metavar="TIME", help="stop each scenario after this long (default 10m)")
    add("--kit-margin", default="3%", metavar="P%", help="treat differences below this as equivalent (default 3%%)")
    add("--kit-timeout", default="", metavar="TIME", help="end a run that takes longer, with all that it started")
    add("--kit-cache", choices=("warm", "cold"), help="state of the caches (default warm)")
    add("--kit-seed", type=int, metavar="S", help="order of the runs (default random, recorded)")
    add("--kit-param", action="append", default=[], metavar="K=V", help="a parameter of the scenario files")
    add("--kit-fs", default="", metavar="FS,FS", help="put arms that name no filesystem on each of these")
    add("--kit-load", default="", metavar="SCENARIO", help="run this beside every run, niced")
    add("--kit-interleave", default="auto", metavar="MODE",
        help="interleave the arms of a round: auto (default), off, or a slice length such as 0.5s")  # fmt: skip
    add("--kit-guest", choices=("auto", "qemu", "uml"), default="", help="boot a guest kernel and run them in it")
    add("--kit-variant", default="", metavar="NAME", help="variant of the scenario files, for example short")
    add("--kit-engine", choices=SESSION_ENGINES, default=DEFAULT_ENGINE, help="private daemons or the running")
    add("--kit-threshold", action="append", default=[], metavar="T",
        help="fail an arm that costs more: 'layer:overlay2 build < 10 %%' (repeatable)")  # fmt: skip
    add("--kit-no-rerun", action="store_true", help="make no run again that something outside has hit")
    add("--kit-explain-calls", action="store_true", help="trace three more rounds: which system calls cost what")
    add("--kit-profile", action="store_true", help="take stacks in three more rounds: which functions cost what")
    add(
        "--kit-fleet",
        default="",
        metavar="SCHEDULER",
        help="like machines of this fleet share the rounds; see kit fleet",
    )
    add("--kit-fleet-tls", default=os.environ.get("KIT_FLEET_TLS", ""), metavar="DIR", help="its certificates")
    add("--kit-machines", type=int, default=0, metavar="N", help="so many of them (default all that fit)")
    add("--kit-class", default="", metavar="NAME", help="only machines of this class")
    add("--kit-where", default="", metavar="COND,…", help="only machines of which that holds: cores>=32")
    add("--kit-store", default=os.environ.get("KIT_STORE", ""), metavar="URL",
        help="database of results (default $KIT_STORE, or that of kit compare)")  # fmt: skip
    add("--kit-compare", default="", metavar="SESSION",
        help="compare with an earlier session too: last (of the same scenario), or an id")  # fmt: skip
    add("--kit-json", metavar="FILE", help="write sessions, samples and comparisons")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUNNER] = SessionRunner(config)
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    if config.getoption("kit_arms"):
        refuse_xdist(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not parent.config.getoption("kit_arms") or file_path.suffix != ".toml":
        return None
    if "[[phases]]" not in file_path.read_text(encoding="utf-8", errors="replace"):
        return None  # some other TOML file
    collector: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collector


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The first arm has all arms run, interleaved; each one's duration is that of its own runs all the same."""
    report = yield
    if isinstance(item, ScenarioItem) and call.when == "call" and item.seconds is not None:
        report.duration = item.seconds
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    from kit.report import render

    runner = config.stash[RUNNER]
    for session in runner.sessions:
        terminalreporter.section(f"kit {session.title}")
        terminalreporter.write_line(render("answer", session))
        if config.getoption("kit_compare"):
            terminalreporter.section(f"kit {session.title}, against an earlier session", sep="-")
            terminalreporter.write_line(runner.between(session))


def pytest_sessionfinish(session: pytest.Session) -> None:
    from kit.analysis.analyse import analyse
    from kit.report.structured import document

    name = session.config.getoption("kit_json")
    sessions = session.config.stash[RUNNER].sessions
    if not name or not sessions:
        return
    documents = [document(item, analyse(item)) for item in sessions]
    whole = documents[0] if len(documents) == 1 else {"schema": documents[0]["schema"], "sessions": documents}
    Path(name).write_text(json.dumps(whole, indent=1), encoding="utf-8")
