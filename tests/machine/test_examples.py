"""The example project, the nightly file and the job files of examples/."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kit.core.exit_code import FAILED, NOT_RUN
from kit.host.commit import CI_VARIABLES
from kit.nightly.file import parse_nightly
from tests.command_line import Kit

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = EXAMPLES / "jobs"


@pytest.mark.parametrize(
    ("schema", "name"), [("vendor.github-workflows", "github-actions.yml"), ("vendor.gitlab-ci", "gitlab-ci.yml")]
)
def test_job_files_keep_to_their_schema(schema: str, name: str, tmp_path: Path) -> None:
    from check_jsonschema import main  # tox -e machine has it not, and collects this module too

    def check(path: Path) -> Result:
        return CliRunner().invoke(main, ["--builtin-schema", schema, str(path)])

    done = check(JOBS / name)
    assert done.exit_code == 0, done.output
    broken = tmp_path / name  # the schema is one that says no
    broken.write_text((JOBS / name).read_text().replace("runs-on", "runs-where").replace("script:", "scripts:"))
    assert check(broken).exit_code == 1


def test_systemd_accepts_service_and_timer(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("needs systemd-analyze: make system installs it")
    kit = tmp_path / "kit"
    kit.write_text("#!/bin/sh\n")
    kit.chmod(0o755)
    for name in ("kit-nightly.service", "kit-nightly.timer"):
        text = (JOBS / name).read_text().replace("/usr/local/bin/kit", str(kit))
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [program, "verify", "--man=no", tmp_path / "kit-nightly.timer", tmp_path / "kit-nightly.service"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "kit-nightly" in line]
    assert said == [] and done.returncode == 0, done.stderr
    calendar = re.findall(r"OnCalendar=(.*)", (JOBS / "kit-nightly.timer").read_text())
    assert subprocess.run([program, "calendar", *calendar], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("name", "variable"),
    [("github-actions.yml", "GITHUB_SHA"), ("gitlab-ci.yml", "CI_COMMIT_SHA"), ("Jenkinsfile", "GIT_COMMIT")],
)
def test_sudo_leaves_the_commit_to_the_kit(name: str, variable: str) -> None:
    (kept,) = re.findall(r"--preserve-env=(\S+)", (JOBS / name).read_text())
    assert variable in kept.split(",") and variable in CI_VARIABLES


def test_gitlab_fails_on_a_broken_limit_and_warns_of_what_could_not_run() -> None:
    (listed,) = re.findall(r"exit_codes: \[(.*)\]", (JOBS / "gitlab-ci.yml").read_text())
    assert {int(code) for code in listed.split(",")} == {FAILED, NOT_RUN}


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml", "Jenkinsfile", "kit-nightly.service"])
def test_the_commands_of_job_files_are_understood(kit: Kit, name: str, tmp_path: Path) -> None:
    commands = re.findall(r"\bkit nightly [^'\n]+", (JOBS / name).read_text())
    assert len(commands) == 1
    words = commands[0].replace("%S/", f"{tmp_path}/").split()[2:]
    done = kit("nightly", EXAMPLES / "nightly.toml", *words[1:], "--check")
    assert done.returncode == 0, done.stderr
    assert "task 3: git:short" in done.stdout


def test_the_nightly_file_is_right() -> None:
    job = parse_nightly((EXAMPLES / "nightly.toml").read_text(), "nightly.toml", "nightly")
    assert len(job.tasks) == 3 and job.tasks[0].request.precision == 0.03


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.images("smoke")
def test_the_example_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "pytest-project", project)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--kit-rounds=2", "--kit-cache=cold",
         "--kit-no-rerun"],
        cwd=project, env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "3 passed" in done.stdout, done.stdout[-3000:]
    assert done.stdout.count("layer:overlay2") > 6
