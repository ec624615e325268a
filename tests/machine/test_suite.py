"""A suite on the real machine: its sessions share the budget, and a second start finds them done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import Kit


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_suite_measures_each_scenario_and_prints_the_matrix(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    tasks = "".join(f"""
        [[tasks]]
        title = "{name}"
        command = ["busybox", "sleep", "{seconds}"]
        image = "{tiny}"
        arms = ["bare", "union:overlay"]
        """ for name, seconds in (("one", "0.2"), ("two", "0.3")))  # fmt: skip
    (tmp_path / "mine.toml").write_text(tasks)
    # Waiting until other tests release the machine is part of the budget.
    words = ("compare", f"suite:{tmp_path}/mine.toml", "--budget", "10m", "--wait", "-q")
    store = f"sqlite:///{tmp_path}/kit.db"
    done = kit(*words, KIT_STORE=store, timeout=1000)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("one", "two", "geometric mean", "union:", "--resume last"):
        assert said in done.stdout
    listed = json.loads(kit("sessions", "--json", KIT_STORE=store).stdout)["sessions"]
    assert {item["title"]: item["status"] for item in listed} == {"one": "done", "two": "done"}
    runs = {item["request"]["suite"].rpartition(" ")[0] for item in listed}
    assert len(runs) == 1 and runs.pop().startswith("mine ")
    again = kit(*words, "--resume", "last", KIT_STORE=store)
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(json.loads(kit("sessions", "--json", KIT_STORE=store).stdout)["sessions"]) == 2
