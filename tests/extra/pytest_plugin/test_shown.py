"""pytest prints what a workload wrote without its escape sequences and passwords."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.codec import encode_json
from kit.core.sanitize import visible
from kit.model.session import NotRun
from tests.nights import night

BAD = "\x1b]0;title\x07\x1b[2J\x9b31m --password hunter2 \u202eevil"

_CONFTEST = """
from dataclasses import replace
from pathlib import Path
import kit.session.launch
from kit.core.codec import decode_json
from kit.core.errors import RunError
from kit.model.event import Told
from kit.model.session import Session

BAD = {bad!r}

def launch(request, paths, store, observer, options):
    observer.take(Told("progress " + BAD))
    if request.title == "fails":
        raise RunError("the daemon said " + BAD, "look at " + BAD)
    return decode_json(Session, Path({file!r}).read_bytes())

kit.session.launch.launch = launch
"""
_TESTS = """
def test_a_run(kit_compare):
    kit_compare(["true"], arms="bare")

def test_an_error(kit_compare):
    kit_compare(["true"], arms="bare", title="fails")
"""
_SCENARIO = 'name = "mine"\nsummary = "x"\nimage = "smoke"\n[[phases]]\nname = "build"\nrun = ["true"]\n'


@pytest.mark.promise("a workload", "No text of a workload acts on a terminal, in a page or in a spreadsheet.")
def test_no_surface_of_the_plugin_shows_what_acts(tmp_path: Path) -> None:
    first = night(1, 0.1)
    samples = tuple(
        replace(sample, status="failed", error=f"make: {BAD}", log=f"log {BAD}") if sample.round == 2 else sample
        for sample in first.samples
    )
    not_run = (NotRun("layer:btrfs", f"reason {BAD}", f"fix {BAD}"),)
    session = replace(first, samples=samples, title=f"mine {BAD}")
    for name, one in (("failed", session), ("blocked", replace(session, not_run=not_run))):
        place = tmp_path / name
        place.mkdir()
        (place / "session.json").write_text(encode_json(one))
        (place / "conftest.py").write_text(_CONFTEST.format(bad=BAD, file=str(place / "session.json")))
        (place / "test_mine.py").write_text(_TESTS)
        (place / "mine.toml").write_text(_SCENARIO)
        words = ["-p", "kit.extra.pytest_plugin", "-p", "no:cacheprovider", "-ra", "--showlocals", "--color=no",
                 "--junitxml=all.xml", "--kit-json=all.json", "--kit-arms=bare,layer:overlay2,layer:btrfs"]  # fmt: skip
        env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "KIT_HOME": str(place / "home"),
               "PYTHONPATH": os.pathsep.join(sys.path)}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=place, env=os.environ | env, capture_output=True, check=False
        )
        said = done.stdout + done.stderr + b"".join((place / file).read_bytes() for file in ("all.xml", "all.json"))
        text = said.decode(errors="replace")
        assert done.returncode == 1 and "progress" in text and "the daemon said" in text, visible(text)
        assert ("reason" if name == "blocked" else "make: ") in text, visible(text)
        assert "hunter2" not in text, visible(text)
        assert not [line for line in text.splitlines() if line != visible(line)]
