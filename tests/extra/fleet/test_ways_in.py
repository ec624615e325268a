"""A night and a test suite hand each session to machines of a fleet, those that their options pick."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.core.errors import RunError
from kit.extra.fleet.client import run
from kit.extra.fleet.client.run import FleetContext
from kit.extra.pytest_plugin.runner import SessionRunner
from kit.model.machine import Selection, parse_where
from kit.model.session import Request, Session
from tests.command_line import Kit

#: Machines that share a session's rounds are alike.
ASKED = Selection(3, "large", parse_where("cores>=32"), alike=True)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of a fleet: what it was asked for, in a file, since the command line is a process of its own."""
    file = tmp_path / "asked"

    def told(request: Request, context: FleetContext) -> Session:
        file.write_text(repr((request.scenario, context.selection, context.address.url)))
        raise RunError("no fleet here")

    monkeypatch.setattr(run, "run_split", told)
    return file


def test_of_a_night(asked: Path, kit: Kit, tmp_path: Path) -> None:
    night = tmp_path / "night.toml"
    night.write_text('[[tasks]]\nscenario = "smoke"\narms = ["bare", "layer:overlay2"]\nrounds = 2\n')
    words = ("--fleet", "127.0.0.1:9", "--machines", "3", "--class", "large", "--where", "cores>=32")
    done = kit("nightly", night, *words, "--output", tmp_path / "out", "--store", f"sqlite:///{tmp_path / 'kit.db'}")
    assert done.returncode != 0 and "no fleet here" in done.stdout + done.stderr
    assert asked.read_text() == repr(("smoke", ASKED, "tcp://127.0.0.1:9"))


def test_of_a_test_suite(asked: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "kit_fleet": "127.0.0.1:9", "kit_fleet_tls": "", "kit_machines": 3, "kit_class": "large",
        "kit_where": "cores>=32", "kit_store": f"sqlite:///{tmp_path / 'kit.db'}",
    }  # fmt: skip
    config = SimpleNamespace(
        getoption=lambda name, default=None: options.get(name, default),
        pluginmanager=SimpleNamespace(getplugin=lambda name: None),
    )
    with pytest.raises(RunError, match="no fleet here"):
        SessionRunner(cast("pytest.Config", config)).run(Request(scenario="smoke"))
    assert asked.read_text() == repr(("smoke", ASKED, "tcp://127.0.0.1:9"))
