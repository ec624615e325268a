"""The sessions of one pytest session, and their settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.core.errors import KitError
from kit.model.options import read_quantities

if TYPE_CHECKING:
    from kit.model.session import Request, Session
    from kit.store import Store

#: Options of a request that pytest's command line also has.
SHARED = (
    "rounds", "precision", "budget", "margin", "timeout", "cache", "cpuset", "seed", "load", "interleave", "guest",
    "engine", "rerun", "explain_calls", "profile", "labels",
)  # fmt: skip
RUNNER = pytest.StashKey["SessionRunner"]()


@dataclass
class SessionRunner:
    """The sessions that this pytest session has run."""

    config: pytest.Config
    sessions: list[Session] = field(default_factory=list)
    by_scenario: dict[Path, Session] = field(default_factory=dict)
    _store: Store | None = None

    def run(self, request: Request) -> Session:
        """Run a request. Raises KitError."""
        from kit.core.paths import find_paths
        from kit.session.prepared import StartOptions
        from kit.session.start import launch

        refuse_xdist(self.config)
        if self.config.getoption("kit_fleet"):
            session = self._on_fleet(request)
        else:
            session = launch(request, find_paths(), self.store, _observer(self.config), StartOptions())
        self.sessions.append(session)
        return session

    def _on_fleet(self, request: Request) -> Session:
        """Run a request on equal machines, which share its rounds. Raises KitError."""
        from kit.core.paths import find_paths
        from kit.fleet.address import parse_address
        from kit.fleet.client.run import FleetContext, run_split
        from kit.model.machine import Selection, parse_where

        option = self.config.getoption
        selection = Selection(option("kit_machines"), option("kit_class"), parse_where(option("kit_where")), alike=True)
        address = parse_address(option("kit_fleet"), option("kit_fleet_tls"))
        return run_split(request, FleetContext(address, selection, find_paths(), self.store, _observer(self.config)))

    @property
    def store(self) -> Store:
        from kit.core.paths import find_paths
        from kit.store import open_store

        if self._store is None:
            url, default = self.config.getoption("kit_store"), find_paths().store
            self._store = open_store(url, default, patient=True)
        return self._store

    def settings(self) -> dict[str, Any]:
        """Return the settings from the command line, for scenario files and the fixture. Raises UsageError."""
        given = {name: self.config.getoption(f"kit_{name}") for name in SHARED}
        given = {name: value for name, value in given.items() if value is not None}
        return given | read_quantities(given, "--kit-")

    def between(self, session: Session) -> str:
        """Compare a session with the one of --kit-compare, as a table, or return the reason against it."""
        from kit.analysis.history.session_diff import compare_sessions
        from kit.analysis.session.analyse import analyse
        from kit.report.history.session_diff import render_between

        try:
            before = self._earlier(session)
        except KitError as error:
            return str(error)
        if before is None:
            return f"the store {self.store.name} has no earlier session of {session.title}"
        found = compare_sessions((before, analyse(before)), (session, analyse(session)))
        return render_between(before, session, found)

    def _earlier(self, session: Session) -> Session | None:
        from kit.model.session import DONE
        from kit.store import SessionFilter

        name = self.config.getoption("kit_compare")
        if name != "last":
            return self.store.get(name)
        mine = {item.id for item in self.sessions}
        found = self.store.list(SessionFilter(session.title, status=DONE), most=len(mine) + 1)
        earlier = next((item.id for item in found if item.id not in mine), None)
        return self.store.get(earlier) if earlier else None


def refuse_xdist(config: pytest.Config) -> None:
    """Refuse xdist, since benchmarks must not share a machine. Raises pytest.UsageError."""
    if hasattr(config, "workerinput") or config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError("kit: benchmarks must not share a machine with other tests: run without -n / xdist")


def _observer(config: pytest.Config) -> Any:
    """Return progress through pytest's own terminal, past its capture."""
    from kit.report.text.progress import Lines

    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    class TerminalLines(Lines):
        def write(self, text: str) -> None:
            if reporter is None or config.get_verbosity() < 0:
                return
            with capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(self._by(text))

    return TerminalLines()
