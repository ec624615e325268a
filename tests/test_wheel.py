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


def test_a_wheel_has_a_man_page_for_each_command(wheel: zipfile.ZipFile) -> None:
    pages = {Path(name).name: wheel.read(name).decode() for name in wheel.namelist() if "/share/man/man1/" in name}
    assert {"kit.1", *(f"kit-{name}.1" for name in COMMANDS)} <= set(pages)
    for name, page in pages.items():
        assert page.startswith(f".TH {name.removesuffix('.1').upper()} 1 ") and f'"kit {__version__}"' in page
        assert "\n.SH NAME\n" in page and "\n.SH SYNOPSIS\n" in page
    assert "\\-\\-interleave MODE" in pages["kit-compare.1"]  # also what --help leaves out


_STAGE = """
import sys
from pathlib import Path
from kit.image.kit_environment import KitEnvironment, own_digest
print(own_digest(), KitEnvironment(["fleet"], "1").hook(Path(sys.argv[1])))
"""


def test_an_installed_kit_is_packed_again_for_its_image(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """From the files that pip lists, of which some are its own, or in other directories."""
    site = tmp_path / "site"
    wheel.extractall(site)
    (about,) = site.glob("*.dist-info")
    (about / "INSTALLER").write_text("pip\n")
    (site / "kit/__pycache__").mkdir()
    (site / "kit/__pycache__/x.cpython-311.pyc").touch()
    of_pip = [f"{about.name}/INSTALLER,,", "kit/__pycache__/x.cpython-311.pyc,,", "../../../bin/kit,,"]
    record = [line for line in (about / "RECORD").read_text().splitlines() if ".data/" not in line]
    (about / "RECORD").write_text("\n".join([*record, *of_pip]) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", _STAGE, tmp_path / "staged"], cwd=tmp_path, check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip
    (packed,) = tmp_path.glob("staged/*.whl")
    assert packed.name == Path(wheel.filename or "").name
    assert done.stdout.endswith(f"sh '{packed.name}[fleet]' && rm -r \"$1\"/kit-sources\n")
    with zipfile.ZipFile(packed) as again:
        names = {name for name in wheel.namelist() if ".data/" not in name}
        assert set(again.namelist()) == names and "kit/_data/images/kit/image.toml" in names
