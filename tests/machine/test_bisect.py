"""A planted slowdown is found on the real machine, in seconds: each commit says how often a loop runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import Kit
from tests.json_schemas import check_document
from tests.leftovers import left_on_machine
from tests.repository import git, make_repository

LOOP = "n=$(cat loops); [ $n -gt 0 ] || exit 3; i=0; while [ $i -lt $n ]; do i=$((i+1)); done"
#: Of the good commit and of those after it; one can't run.
LOOPS = ("100000", "100000", "broken", "200000", "200000")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    directory = make_repository(tmp_path / "project")
    for number, loops in enumerate(LOOPS):
        (directory / "loops").write_text(loops)
        git(directory, "add", "loops")
        git(directory, "commit", "-q", "--allow-empty", "-m", f"loops {number}")
    return directory


@pytest.mark.machine
def test_a_planted_slowdown_is_found_and_a_second_start_repeats_failures_alone(
    kit: Kit, repository: Path, tiny: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    words = (
        "bisect", "--source", repository, "--good", "main~4", "--bad", "main", "--arm", "bare", "--image", tiny,
        "--threshold", "40%", "--cache", "cold", "--size", "1G", "--json", out, "-q", "--", "sh", "-c", LOOP,
    )  # fmt: skip
    planned = kit(*words[:-4], "--dry-run", *words[-4:])
    assert planned.returncode == 0 and "at most 3 comparisons with" in planned.stdout, planned.stderr
    done = kit(*words, KIT_STORE=f"sqlite:///{tmp_path}/kit.db")
    found = check_document("bisect", out.read_text())
    verdicts = {step["candidate"]["subject"]: step["verdict"] for step in found["steps"]}
    assert verdicts == {"loops 4": "slower", "loops 1": "not slower", "loops 2": "skipped", "loops 3": "slower"}
    assert done.returncode == 1, "loops 2 may be the first slow one"
    assert [item["subject"] for item in found["suspects"]] == ["loops 2", "loops 3"]
    assert "first slow commit: one of 2" in done.stdout and left_on_machine() == []
    again = kit(*words, KIT_STORE=f"sqlite:///{tmp_path}/kit.db")
    earlier = [line for line in again.stdout.splitlines() if " earlier " in line]
    assert again.returncode == 1 and len(earlier) == len(found["steps"]) - 1, again.stderr  # the failure is tried again
