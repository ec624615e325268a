"""The sessions of one pytest session, and their settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.core.errors import KitError
from kit.core.sanitize import printable
from kit.extra.pytest_plugin.xdist import FIXTURE, refuse_xdist
from kit.model.options import OPTIONS, PYTEST_PREFIX, SHARED, read_options, read_text_as

if TYPE_CHECKING:
    from kit.model.session import Request, Session
    from kit.store import Store

RUNNER = pytest.StashKey["SessionRunner"]()
#: Of a test: the error by which it ended because its session could not be held.
NOT_MEASURED = pytest.StashKey[BaseException]()


@dataclass
class SessionRunner:
    """The sessions that this pytest session has run."""

    config: pytest.Config
    sessions: list[Session] = field(default_factory=list)
    by_scenario: dict[Path, Session] = field(default_factory=dict)
    _store: Store | None = None

    def run(self, request: Request, note: str = "") -> Session:
        """Run a request, after the session that holds the machine; return its own with safe texts: pytest prints them.
        ``note``: a warning about the request, shown first. Raises KitError, pytest.UsageError."""
        from kit.core.paths import find_paths
        from kit.report.format.sanitize import shown
        from kit.session.launch import launch
        from kit.session.prepared import StartOptions

        refuse_xdist(self.config, FIXTURE)
        if note:
            _observer(self.config).tell(note)
        if self.config.getoption("kit_fleet"):
            session = self._on_fleet(request)
        else:
            start = StartOptions(wait=True, keep_order=True)
            session = launch(request, find_paths(), self.store, _observer(self.config), start)
        self.sessions.append(shown(session))
        return self.sessions[-1]

    def _on_fleet(self, request: Request) -> Session:
        """Run a request on equal machines, which share its rounds. Raises KitError."""
        from kit.session.machines import the_machines

        names = {"fleet": "fleet", "fleet_tls": "fleet_tls", "machines": "machines", "kind": "class", "where": "where"}
        options = {key: self.config.getoption(f"kit_{name}") for key, name in names.items()}
        return the_machines().runner(options, self.store, _observer(self.config))(request)

    @property
    def store(self) -> Store:
        from kit.core.paths import find_paths
        from kit.host.settings_files import configured_store
        from kit.store import open_store

        if self._store is None:
            of_pytest = self.config.getoption("kit_store") or self._ini("store")
            url = of_pytest or configured_store(self.config.rootpath)
            self._store = open_store(url, find_paths().store, patient=True)
        return self._store

    def settings(self) -> dict[str, Any]:
        """Return the settings for scenario files and the fixture, by precedence: from the command line, from pytest's
        own configuration, from the kit's. Raises UsageError."""
        from kit.host.settings_files import find_settings

        settings = find_settings(self.config.rootpath)
        values = {setting.key: setting.value for setting in settings.values() if setting.key in SHARED}
        for name in SHARED:
            option, text = self.config.getoption(f"kit_{name}"), self._ini(name)
            if option is not None:
                values[name] = option
            elif text:
                values[name] = read_text_as(OPTIONS[name], text, f"{self._file}: kit_{name}")
        of_files = settings["labels"].value if "labels" in settings else {}
        listed = (self._ini("labels").splitlines(), self.config.getoption("kit_labels") or ())
        labels = [f"{name}={text}" for name, text in of_files.items()] + [text for part in listed for text in part]
        return read_options({**values, "labels": labels}, PYTEST_PREFIX)  # of one name, the last counts

    def _ini(self, name: str) -> str:
        return str(self.config.getini(f"kit_{name}") or "").strip()

    @property
    def _file(self) -> str:
        return str(self.config.inipath or "pytest's configuration")

    def between(self, session: Session) -> str:
        """Compare a session with the one of --kit-compare, as a table, or return the reason against it."""
        from kit.analysis.session.analyse import analyse
        from kit.analysis.session.session_diff import compare_sessions
        from kit.report.text.session_diff import render_between

        try:
            before = self._earlier(session)
        except KitError as error:
            return str(error)
        if before is None:
            return f"the store {self.store.name} has no earlier session of {session.title}"
        changes = compare_sessions((before, analyse(before)), (session, analyse(session)))
        return render_between(before, session, changes)

    def _earlier(self, session: Session) -> Session | None:
        from kit.model.session import DONE
        from kit.store import SessionFilter

        name = self.config.getoption("kit_compare")
        if name != "last":
            return self.store.get(name)
        new = {other.id for other in self.sessions}
        stored = self.store.list(SessionFilter(session.title, status=DONE), most=len(new) + 1)
        earlier = next((other.id for other in stored if other.id not in new), None)
        return self.store.get(earlier) if earlier else None


def refuse_unwritable(config: pytest.Config) -> None:
    """Refuse a file of --kit-json that can't be written, before hours of measuring. Raises pytest.UsageError."""
    name = config.getoption("kit_json")
    if not name:
        return
    from kit.host.output_file import check_output

    try:
        check_output(Path(name))
    except KitError as error:
        raise pytest.UsageError(f"--kit-json: {error}") from None


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
                reporter.write_line(printable(self._by(text)))
                reporter.flush()  # into a file or pipe, too, whose reader would learn of a wait after it

    return TerminalLines()
