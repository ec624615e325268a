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
from kit.extra.history.nightly.file import parse_nightly
from kit.host.git import CI_VARIABLES
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


def _page(*names: str) -> list[str]:
    """The commands of the page that name one of these."""
    text = (EXAMPLES.parent / "docs/how-to/nightly-job.md").read_text()
    return [
        line.strip() for line in text.splitlines() if line.startswith("    ") and any(name in line for name in names)
    ]


@pytest.fixture
def machine_of_readme(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a machine whose kit is where README puts it: in a virtual environment."""
    program = tmp_path / "project/.venv/bin/kit"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "project/examples").symlink_to(EXAMPLES)
    return os.environ | {"PATH": f"{program.parent}:/usr/bin:/bin", "PWD": str(tmp_path / "project")}


def test_systemd_accepts_service_and_timer_of_the_page(machine_of_readme: dict[str, str]) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze: make system installs it")
    place = machine_of_readme["PWD"]
    commands = _page("kit-nightly.service", "kit-nightly.timer", "systemd-analyze")
    commands = [line for line in commands if not line.startswith(("As root", "`"))]
    done = subprocess.run(
        ["bash", "-euc", "\n".join(commands)],
        cwd=place,
        env=machine_of_readme,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if "kit-nightly" in line]
    assert said == [] and done.returncode == 0, done.stderr
    (verified,) = [line for line in commands if " verify " in line]
    assert "kit-nightly.service" in verified and "kit-nightly.timer" in verified
    (started,) = re.findall(r"ExecStart=(\S+)", Path(place, "kit-nightly.service").read_text())
    assert started == f"{place}/.venv/bin/kit"
    calendar = re.findall(r"OnCalendar=(.*)", (JOBS / "kit-nightly.timer").read_text())
    assert any(f"calendar '{calendar[0]}'" in line for line in commands)


#: The values of minute, hour, day of the month, month and day of the week (crontab(5)).
FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def test_cron_accepts_the_line_of_the_page(machine_of_readme: dict[str, str]) -> None:
    (command,) = _page("jobs/crontab")
    place = machine_of_readme["PWD"]
    printed = subprocess.run(
        ["bash", "-euc", command], cwd=place, env=machine_of_readme, capture_output=True, text=True
    )
    (line,) = [line for line in printed.stdout.splitlines() if not line.startswith("#")]
    *times, words = line.split(maxsplit=5)
    assert len(times) == len(FIELDS) and "%" not in words, "cron reads % as the end of a line"
    for field, (least, most) in zip(times, FIELDS, strict=True):
        assert field == "*" or least <= int(field) <= most, field
    assert subprocess.run(["sh", "-n", "-c", words]).returncode == 0
    assert words.startswith(f"{place}/.venv/bin/kit nightly ")
    assert _page("17 2 ") == [line.replace(f"{place}/.venv", "/usr/local")]


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


@pytest.mark.parametrize(
    "name", ["github-actions.yml", "gitlab-ci.yml", "Jenkinsfile", "kit-nightly.service", "crontab"]
)
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
