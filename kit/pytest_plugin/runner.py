"""What one pytest session measures, and with which settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.core.errors import KitError
from kit.model.plan import AUTO_ROUNDS

if TYPE_CHECKING:
    from kit.model.session import Request, Session
    from kit.store import Store

RUNNER = pytest.StashKey["SessionRunner"]()


@dataclass
class SessionRunner:
    """The sessions that this pytest session has run."""

    config: pytest.Config
    sessions: list[Session] = field(default_factory=list)
    by_scenario: dict[Path, Session] = field(default_factory=dict)
    _store: Store | None = None

    def run(self, request: Request) -> Session:
        """Raises KitError."""
        from kit.core.paths import find_paths
        from kit.session.start import Patience, launch

        refuse_xdist(self.config)
        if self.config.getoption("kit_fleet"):
            session = self._on_fleet(request)
        else:
            session = launch(request, find_paths(), self.store, _observer(self.config), Patience())
        self.sessions.append(session)
        return session

    def _on_fleet(self, request: Request) -> Session:
        """Like machines share its rounds. Raises KitError."""
        from kit.core.paths import find_paths
        from kit.fleet.address import parse_address
        from kit.fleet.run import FleetContext, run_split
        from kit.model.member import Selection, parse_where

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
        """Those of a request that the command line decides, for scenario files and the fixture alike. Raises
        UsageError."""
        from kit.core.quantity import duration, percentage

        option = self.config.getoption
        precision, budget, timeout = option("kit_precision"), option("kit_budget"), option("kit_timeout")
        return {
            "engine": option("kit_engine"),
            "rounds": option("kit_rounds") or AUTO_ROUNDS,
            "seed": option("kit_seed") or 0,
            "cache": option("kit_cache") or "warm",
            "load": option("kit_load"),
            "interleave": option("kit_interleave"),
            "guest": option("kit_guest"),
            "repeats": not option("kit_no_rerun"),
            "explain_calls": option("kit_explain_calls"),
            "profile": option("kit_profile"),
            "margin": percentage(option("kit_margin"), "--kit-margin"),
            "precision": percentage(precision, "--kit-precision") if precision else None,
            "budget": duration(budget, "--kit-budget") if budget else None,
            "timeout": duration(timeout, "--kit-timeout") if timeout else None,
        }

    def between(self, session: Session) -> str:
        """A session against the one that --kit-compare names, as a table, or why there is none."""
        from kit.analysis.analyse import analyse
        from kit.analysis.two_sessions import compare_sessions
        from kit.report.between import render_between

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
        from kit.store import Wanted

        name = self.config.getoption("kit_compare")
        if name != "last":
            return self.store.get(name)
        mine = {item.id for item in self.sessions}
        found = self.store.list(Wanted(session.title, status=DONE), most=len(mine) + 1)
        earlier = next((item.id for item in found if item.id not in mine), None)
        return self.store.get(earlier) if earlier else None


def refuse_xdist(config: pytest.Config) -> None:
    """Benchmarks must not share a machine. Raises pytest.UsageError under xdist."""
    if hasattr(config, "workerinput") or config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError("kit: benchmarks must not share a machine with other tests: run without -n / xdist")


def _observer(config: pytest.Config) -> Any:
    """Progress through pytest's own terminal, past its capture."""
    from kit.report.progress import Lines

    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    class TerminalLines(Lines):
        def tell(self, text: str) -> None:
            if reporter is None or config.get_verbosity() < 0:
                return
            with capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(self._by(text))

    return TerminalLines()
