"""pytest: scenario files collected as benchmarks, one test per scenario and arm; a fixture and markers for tests of
one's own.

Inactive unless --kit-arms is given or the fixture is used; until then it imports the options alone, since every run of
pytest where the kit is installed imports it. The process enters a private mount namespace when it measures as root, so
what it mounts is not seen outside. Imports session, report, the store and words.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.core.errors import KitError
from kit.extra.pytest_plugin import xdist
from kit.extra.pytest_plugin.runner import NOT_MEASURED, RUNNER, SessionRunner, refuse_unwritable
from kit.model.options import OPTIONS, PYTEST_PREFIX, SHARED, Option

if TYPE_CHECKING:
    from kit.extra.pytest_plugin.compare import Result

_MARKERS = (
    "kit_scenario(name, **params): what kit_compare() runs in this test, for example kit_scenario('smoke', jobs=2)",
    "kit_arms(*arms): the arms on which kit_compare() runs it, for example kit_arms('bare', 'layer:overlay2')",
    "kit_threshold(text, undecided='warn'): the limit of each comparison of this test, for example "
    "kit_threshold('layer:overlay2 < 10 %'); undecided='fail' fails also where the interval contains the limit",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kit", "storage driver test kit")
    add = group.addoption
    add("--kit-arms", metavar="A,B,…", help="collect scenario files and run them on these arms; 'default': all")
    for name in SHARED:
        option = OPTIONS[name]
        _add_shared(add, option)
        parser.addini(
            f"kit_{name}", f"{'false: ' if option.negated else ''}the same as {option.spelled(PYTEST_PREFIX)}"
        )
    parser.addini("kit_store", "the same as --kit-store")
    add("--kit-param", action="append", default=[], metavar="K=V", help="a parameter of the scenario files")
    add("--kit-fs", default="", metavar="FS,FS", help="put arms that name no filesystem on each of these")
    add("--kit-variant", default="", metavar="NAME", help="variant of the scenario files, for example short")
    add("--kit-threshold", action="append", default=[], metavar="T",
        help="fail an arm that costs more: 'layer:overlay2 build < 10 %%' (repeatable)")  # fmt: skip
    add(
        "--kit-fleet",
        default="",
        metavar="SCHEDULER",
        help="share the rounds among identical machines of this fleet; see kit fleet",
    )
    add("--kit-fleet-tls", default=os.environ.get("KIT_FLEET_TLS", ""), metavar="DIR", help="certificates of the fleet")
    add("--kit-machines", type=int, default=0, metavar="N", help="number of machines (default: all that match)")
    add("--kit-class", default="", metavar="NAME", help="only machines of this class")
    add("--kit-where", default="", metavar="COND,…", help="only machines matching these conditions: cores>=32")
    add("--kit-store", default=os.environ.get("KIT_STORE", ""), metavar="URL",
        help="database of results (default $KIT_STORE, or that of kit compare)")  # fmt: skip
    add("--kit-compare", default="", metavar="SESSION",
        help="compare with an earlier session too: last (of the same scenario), or an id")  # fmt: skip
    add("--kit-json", metavar="FILE", help="write sessions, samples and comparisons")


def _add_shared(add: Callable[..., None], item: Option) -> None:
    """Add an option of requests under the plugin's prefix."""
    words, name = item.spelled(PYTEST_PREFIX), f"kit_{item.name}"
    text = f"{item.help[0].lower()}{item.help[1:]}".replace("%", "%%")
    if item.kind is bool:
        action = "store_false" if item.negated else "store_true"
        add(words, dest=name, action=action, default=None, help=text)
        return
    if item.kind is dict:
        add(words, dest=name, action="append", metavar=item.metavar, help=text)
        return
    kind = str if item.read else item.kind
    metavar = "N" if kind is int else item.metavar
    add(words, dest=name, type=kind, metavar=metavar, choices=item.choices or None, help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUNNER] = SessionRunner(config)
    refuse_unwritable(config)
    config.pluginmanager.register(xdist, "kit-xdist")
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    if config.getoption("kit_arms"):
        from kit.extra.pytest_plugin import items

        xdist.refuse_xdist(config, "--kit-arms")
        config.pluginmanager.register(items, "kit-scenario-files")


@pytest.fixture
def kit_compare(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Run a command or a scenario on arms: ``kit_compare(["make"], arms="bare,layer:overlay2", source=path)``, or
    ``kit_compare()`` with the marker kit_scenario.

    Keywords are those of kit.model.session.Request; what is not given comes from markers, then from the command line.
    Fails the test if a run fails, an arm can't run here, or a kit_threshold of the test does not hold. What prevents
    the session itself is an error of set-up instead. While another session holds the machine, it waits.
    """
    from kit.extra.pytest_plugin.compare import comparing

    return comparing(request)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a session that could not be held as an error of set-up: no build has failed, and no limit is broken."""
    report = yield
    error = call.excinfo.value if call.when == "call" and call.excinfo else None
    if error and (isinstance(error, KitError) or error is item.stash.get(NOT_MEASURED, None)):
        report.when = "setup"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    runner = config.stash[RUNNER]
    if not runner.sessions:
        return
    from kit.report import render

    for session in runner.sessions:
        terminalreporter.section(f"kit {session.title}")
        terminalreporter.write_line(render("answer", session))
        if config.getoption("kit_compare"):
            terminalreporter.section(f"kit {session.title}, against an earlier session", sep="-")
            terminalreporter.write_line(runner.between(session))


def pytest_sessionfinish(session: pytest.Session) -> None:
    name = session.config.getoption("kit_json")
    sessions = session.config.stash[RUNNER].sessions
    if not name or not sessions:
        return
    from kit.analysis.session.analyse import analyse
    from kit.host.output_file import write_output
    from kit.report.data.structured import document

    documents = [document(measured, analyse(measured)) for measured in sessions]
    whole = documents[0] if len(documents) == 1 else {"schema": documents[0]["schema"], "sessions": documents}
    write_output(Path(name), json.dumps(whole, indent=1))
