"""A machine that lacks something, and one whose session was killed: what commands say and leave there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.core.exit_code import DONE, USAGE
from kit.model.session import INTERRUPTED, RUNNING
from tests.command_line import Kit
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured(clean=True)]


def without_groups(home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the kit where no control groups are mounted."""
    private = ["unshare", "--mount", "sh", "-ec", 'umount -R /sys/fs/cgroup; exec "$@"', "sh"]
    return subprocess.run(
        [*private, sys.executable, "-m", "kit", *words],
        env={**os.environ, "KIT_HOME": str(home)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_doctor_ends_its_page_where_no_session_can_begin(tmp_path: Path) -> None:
    done = without_groups(tmp_path, "doctor", "--wait", "--json")
    assert done.returncode == DONE, done.stderr
    diagnoses = json.loads(done.stdout)["diagnoses"]
    failed = {(item["kind"], item["name"]): item for item in diagnoses if not item["works"]}
    lacks = failed["machine", "control groups"]
    assert lacks["reason"] == "no cgroup hierarchy with CPU accounting is mounted"
    rest = failed["session", "the rest"]
    assert (rest["reason"], rest["fix"]) == (lacks["reason"], lacks["fix"])
    assert {"tool", "machine", "session", "measuring", "guest"} <= {item["kind"] for item in diagnoses}
    assert diagnoses[-1]["name"].startswith("kernel ")
    assert not any("kit doctor" in item["fix"] for item in diagnoses), "no fix of doctor's refers to doctor"


def test_compare_refuses_in_one_line_and_has_made_nothing(tiny: Path, tmp_path: Path) -> None:
    words = ("--arms", "bare,layer:overlay2", "--rounds", "1", "--wait", "--", "true")
    done = without_groups(tmp_path, "compare", "--image", tiny, *words)
    *_, error, fix = done.stderr.strip().splitlines()
    assert (done.returncode, error) == (USAGE, "kit: no cgroup hierarchy with CPU accounting is mounted")
    assert fix.startswith("  fix: mount cgroup2 on /sys/fs/cgroup; in a container: ")
    assert not [*tmp_path.glob("state/journal/*")]


def test_the_end_of_a_killed_session_is_recorded_by_kit_clean(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    words = ["compare", "--image", tiny, "--arms", "bare@dir", "--rounds", "1", "--wait", "--", "sh", "-c"]
    command = [sys.executable, "-m", "kit", *map(str, words), "while :; do :; done"]

    def statuses() -> list[str]:
        listed = json.loads(kit("sessions", "--json", KIT_HOME=str(tmp_path)).stdout)["sessions"]
        return [session["status"] for session in listed]

    env = {**os.environ, "KIT_HOME": str(tmp_path)}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as session:
        try:
            wait_until(lambda: [*tmp_path.glob("state/journal/*.jsonl")], process=session)
            wait_until(lambda: statuses() == [RUNNING], process=session)
        finally:
            session.kill()
    done = kit("clean", "--wait", KIT_HOME=str(tmp_path))
    assert "was killed; it is recorded as interrupted" in done.stdout, done.stderr
    assert statuses() == [INTERRUPTED]
