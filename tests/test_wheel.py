"""What a wheel brings along."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kit import __version__
from kit.cli import COMMANDS

ROOT = Path(__file__).parents[1]


def test_a_wheel_has_a_man_page_for_each_command(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = "from hatchling.build import build_wheel; import sys; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        pages = {
            Path(name).name: archive.read(name).decode() for name in archive.namelist() if "/share/man/man1/" in name
        }
        names = archive.namelist()
    schemas = {f"kit/_data/schemas/{path.name}" for path in (ROOT / "schemas").glob("*.json")}
    assert schemas and schemas <= set(names)
    assert {"kit.1", *(f"kit-{name}.1" for name in COMMANDS)} <= set(pages)
    for name, page in pages.items():
        assert page.startswith(f".TH {name.removesuffix('.1').upper()} 1 ") and f'"kit {__version__}"' in page
        assert "\n.SH NAME\n" in page and "\n.SH SYNOPSIS\n" in page
    assert "\\-\\-interleave MODE" in pages["kit-compare.1"]  # also what --help leaves out
