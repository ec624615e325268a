"""What a wheel brings along."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit import __version__
from kit.cli import COMMANDS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    pytest.importorskip("hatchling")
    directory = tmp_path_factory.mktemp("wheel")
    build = "from hatchling.build import build_wheel; import sys; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, directory], cwd=ROOT, check=True, capture_output=True)
    (made,) = directory.glob("*.whl")
    with zipfile.ZipFile(made) as archive:
        yield archive


def test_a_wheel_has_its_licence_and_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    said = wheel.read(about).decode()
    assert "\nLicense-Expression: Apache-2.0\n" in said and "\nClassifier: Framework :: Pytest\n" in said
    (licence,) = (name for name in names if name.endswith("/licenses/LICENSE"))
    assert "Apache License" in wheel.read(licence).decode()[:200]
    assert "kit/py.typed" in names


def test_a_wheel_has_every_page_of_kit_help(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    top = "kit/_data/docs/"
    named = {name.removeprefix(top) for name in wheel.namelist() if name.startswith(top)}
    assert named == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    wheel.extractall(tmp_path)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-m", "kit", "help", "exit-codes"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert "| 3 | an arm you named did not run" in done.stdout and "](" not in done.stdout


def test_a_wheel_has_a_man_page_for_each_command(wheel: zipfile.ZipFile) -> None:
    pages = {Path(name).name: wheel.read(name).decode() for name in wheel.namelist() if "/share/man/man1/" in name}
    assert {"kit.1", *(f"kit-{name}.1" for name in COMMANDS)} <= set(pages)
    for name, page in pages.items():
        assert page.startswith(f".TH {name.removesuffix('.1').upper()} 1 ") and f'"kit {__version__}"' in page
        assert "\n.SH NAME\n" in page and "\n.SH SYNOPSIS\n" in page
    assert "\\-\\-interleave MODE" in pages["kit-compare.1"]  # also what --help leaves out
