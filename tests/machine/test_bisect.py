"""git bisect finds a planted slowdown on the real machine by the kit's verdicts: a commit says how long a loop is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import Kit
from tests.leftovers import left_on_machine
from tests.repository import git, make_repository

ROOT = Path(__file__).parents[2]
SLOWER = ROOT / "examples/git-bisect/slower"
PAGE = ROOT / "docs/how-to/bisect-a-slowdown.md"
LOOP = "n=$(cat loops); [ $n -gt 0 ] || exit 3; i=0; while [ $i -lt $n ]; do i=$((i+1)); done"
#: Of the good commit and of those after it; one can't run.
LOOPS = ("60000", "60000", "broken", "60000", "180000", "180000")
pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq: apt-get install jq")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    directory = make_repository(tmp_path / "project")
    git(directory, "checkout", "-q", "--", "number")
    for number, loops in enumerate(LOOPS):
        (directory / "loops").write_text(loops)
        git(directory, "add", "loops")
        git(directory, "commit", "-q", "--allow-empty", "-m", f"loops {number}")
    return directory


def test_the_page_shows_the_script() -> None:
    assert f"```text\n{SLOWER.read_text()}```" in PAGE.read_text()


@pytest.mark.parametrize(
    ("code", "verdict", "step"),
    [
        (0, "slower", 1), (0, "equivalent", 0), (0, "faster", 0), (0, "inconclusive", 125), (0, "one round", 125),
        (1, "", 125), (2, "", 255), (3, "", 255), (4, "", 255), (130, "", 255),
    ],
)  # fmt: skip
def test_each_answer_of_the_kit_has_the_exit_code_that_git_expects(
    code: int, verdict: str, step: int, repository: Path, tmp_path: Path
) -> None:
    """A kit that ends so stands in; the next test has the real one."""
    rows = f'{{"arm": "bare+rev=v1", "verdict": "reference"}}, {{"arm": "bare+rev=HEAD", "verdict": "{verdict}"}}'
    answer = f'{{"rankings": [{{"rows": [{rows}]}}]}}'
    program = f"#!/bin/sh\nwhile [ $1 != --json ]; do shift; done\necho '{answer}' >$2\nexit {code}\n"
    (tmp_path / "kit").write_text(program)
    (tmp_path / "kit").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([SLOWER, "v1", "--arms", "bare", "--", "make"], cwd=repository, env=env, check=False)
    assert done.returncode == step
    assert git(repository, "status", "--porcelain") == "?? untracked", "the answer is no file of the work tree"


@pytest.mark.machine
def test_git_bisect_finds_a_planted_slowdown(kit: Kit, repository: Path, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "kit").write_text(f'#!/bin/sh\nexec {sys.executable} -m kit "$@"\n')
    (tmp_path / "kit").chmod(0o755)
    env = {
        **os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "KIT_STORE": f"sqlite:///{tmp_path}/kit.db",
    }  # fmt: skip
    words = (
        "--arms", "bare", "--image", tiny, "--margin", "50%", "--budget", "2m", "--no-rerun", "--cache", "cold",
        "--size", "1G", "--wait", "-q", "--", "sh", "-c", LOOP,
    )  # fmt: skip
    git(repository, "bisect", "start", "main", "main~5")
    done = subprocess.run(
        ["git", "bisect", "run", SLOWER, "main~5", *words], cwd=repository, env=env, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    first = git(repository, "rev-parse", "main~1")
    assert f"{first} is the first bad commit" in done.stdout
    log = git(repository, "bisect", "log")
    assert re.findall(r"^# (?:good|bad|skip): \[\w+\] (loops [34])$", log, re.M) and left_on_machine() == []
    again = kit(
        "compare",
        "--source",
        repository,
        "--source-rev",
        f"before={first}^,{first}",
        *words,
        KIT_STORE=env["KIT_STORE"],
    )
    assert again.returncode == 0 and "slower" in again.stdout, again.stderr
