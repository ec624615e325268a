"""What only shows what would run starts no program of a scenario and writes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs
from tests.repository import make_repository

#: kit, which writes each command that it starts, by any function of Python's.
LISTED = """
import json, os, sys
log = open(sys.argv.pop(1), "w")
def note(event, words):
    if event == "subprocess.Popen":
        program, *rest = map(os.fsdecode, words[1])
        log.write(json.dumps([os.path.basename(program), *rest]) + "\\n")
    elif event in ("os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty"):
        log.write(json.dumps([event]) + "\\n")
    log.flush()
sys.addaudithook(note)
from kit.cli import main
main()
"""
SCENARIO = """
name = "mine"
summary = "Commands that leave a file"
image = "smoke"
[inputs.data]
fetch = [["touch", "PLACE/ran"]]
into = "inputs"
[[prepare]]
run = ["touch", "PLACE/ran"]
[[phases]]
name = "work"
run = ["touch", "PLACE/ran"]
"""
NIGHT = '[[tasks]]\nscenario = "mine.toml"\narms = ["bare", "layer:overlay2"]\n'
WORDS = (
    ("compare", "mine.toml", "--arms", "bare,layer:overlay2"),
    ("compare", "mine.toml"),
    ("compare", "kernel:short", "--explain-calls", "--profile"),
    ("compare", "--image", "docker.io/library/debian", "--prepare", "touch ran", "--", "touch", "ran"),
    ("compare", "--source", "project", "--source-rev", "v1,main", "--arms", "bare", "--", "touch", "ran"),
    ("nightly", "night.toml"),
)


@needs("git")
@pytest.mark.promise(
    "what others wrote",
    "`--dry-run` and `--check` start `dockerd --version`, Git, `apt-cache` for a package, `lsblk` and `wipefs` for a "
    "device, and nothing else. They write nothing.",
)
@pytest.mark.parametrize("words", WORDS, ids=lambda words: " ".join(words[:3]))
def test_a_dry_run_starts_nothing_of_what_it_shows(tmp_path: Path, words: tuple[str, ...]) -> None:
    work = tmp_path / "work"
    work.mkdir()
    make_repository(work / "project")
    for name, text in (("mine.toml", SCENARIO), ("night.toml", NIGHT)):
        (work / name).write_text(text.replace("PLACE", str(work)))
    before = sorted(work.rglob("*"))
    env = {**os.environ, "KIT_HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(sys.path)}
    started = tmp_path / "started"
    command = [sys.executable, "-c", LISTED, str(started), *words]
    at = command.index("--") if "--" in command else len(command)
    done = subprocess.run(
        [*command[:at], "--dry-run", *command[at:]], cwd=work, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "rounds" in done.stdout, done.stderr
    programs = [json.loads(line) for line in started.read_text().splitlines()]
    assert all(program == ["dockerd", "--version"] or program[0] == "git" for program in programs), programs
    assert sorted(work.rglob("*")) == before and not (tmp_path / "home").exists()
