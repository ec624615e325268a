"""How users install the kit: make, and what the README says."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def make_prints(target: str) -> str:
    """Return the commands that make would run for a target of which nothing exists yet."""
    words = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_make_compare_installs_the_kit_without_the_pins_of_its_tests() -> None:
    """They have no wheels for a newer Python than that of CI."""
    said = make_prints("compare")
    assert "pip install --quiet --editable '.[all]'" in said
    assert "onstraint" not in said


def test_the_kits_own_image_has_all_extras_but_that_of_pytest() -> None:
    """A test is run where its project is."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (every,) = re.findall(r"\[(.*)\]", extras["all"][0])
    (installed,) = re.findall(r"/src\[(.*)\]", (ROOT / "examples/docker/Dockerfile").read_text())
    assert set(installed.split(",")) == set(every.split(",")) - {"pytest"} == set(extras) - {"all", "pytest"}


#: As Debian's: its own PATH, whatever the caller's is, but what ``env`` is given holds.
SUDO = """#!/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin exec "$@"
"""


def as_user(line: str, directory: Path) -> int:
    """Return the exit code of a line in a shell whose PATH begins with a virtual environment that has a ``kit``."""
    (directory / "sudo").write_text(SUDO)
    (directory / "kit-for-tests").write_text('#!/bin/sh\n[ "$*" = doctor ]\n')
    for name in ("sudo", "kit-for-tests"):
        (directory / name).chmod(0o755)
    env = {"PATH": f"{directory}:/usr/bin:/bin"}
    line = line.replace("kit ", "kit-for-tests ")  # a kit of this machine is another one
    return subprocess.run(["sh", "-c", line], env=env, capture_output=True).returncode


def test_what_the_readme_says_of_sudo_finds_the_kit_of_a_virtual_environment(tmp_path: Path) -> None:
    said = (ROOT / "README.md").read_text()
    (line,) = re.findall(r"^sudo .*doctor", said, re.M)
    assert as_user(line, tmp_path) == 0
    assert as_user("sudo kit doctor", tmp_path) == 127  # why the README does not say it


def test_no_page_tells_users_to_install_into_the_systems_python() -> None:
    """Debian 12 refuses that (PEP 668): a page that runs pip makes an environment first."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    blocks = [text for page in pages for text in re.findall(r"```sh\n(.*?)```", page.read_text(), re.S)]
    installing = [text for text in blocks if re.search(r"^pip install", text, re.M)]
    assert installing
    for text in installing:
        assert re.search(r"python3 -m venv .*export PATH=\S*bin.*^pip install", text, re.S | re.M), text
