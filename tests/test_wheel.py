"""What a wheel brings along: it is built from the source distribution, as an installer does without a wheel."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit import __version__
from kit.arms.probe import probe_digest
from kit.cli import COMMANDS

ROOT = Path(__file__).parents[1]
#: What an installed kit measures with, and where that lies: no compiler is found.
SPIN = """
import sys
from pathlib import Path
import kit
from kit.arms.probe import probe_binary, spin
probe = probe_binary(Path(sys.argv[1]))
assert spin(probe).arithmetic > 0
print(kit.__file__, probe)
"""


def build(kind: str, source: Path, directory: Path, **env: str) -> Path:
    """Return the ``wheel`` or ``sdist`` that the build backend makes of a source tree."""
    pytest.importorskip("hatchling")
    directory.mkdir()
    code = f"from hatchling.build import build_{kind}; import sys; build_{kind}(sys.argv[1])"
    env = {**os.environ, "PYTHONPATH": "", **env}
    subprocess.run([sys.executable, "-c", code, directory], cwd=source, env=env, check=True, capture_output=True)
    (made,) = directory.iterdir()
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the source distribution."""
    directory = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", ROOT, directory / "made")) as archive:
        archive.extractall(directory, filter="data")
    return directory / f"storage_driver_test_kit-{__version__}"


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    if not shutil.which("cc"):
        pytest.skip("needs cc: make system installs it")
    with zipfile.ZipFile(build("wheel", source, tmp_path_factory.mktemp("wheel") / "made")) as archive:
        yield archive


def about(wheel: zipfile.ZipFile, name: str) -> str:
    """Return a file of the wheel's metadata."""
    (path,) = (path for path in wheel.namelist() if re.fullmatch(rf"[^/]+\.dist-info/{name}", path))
    return wheel.read(path).decode()


def bill(wheel: zipfile.ZipFile) -> dict[str, dict[str, Any]]:
    """Return the components of its bill of materials, by name."""
    listed = json.loads(about(wheel, r"sboms/storage-driver-test-kit\.cdx\.json"))
    return {part["name"]: part for part in listed["components"]}


def probes(wheel: zipfile.ZipFile) -> list[str]:
    return [name for name in wheel.namelist() if "kit-probe-" in name]


def elf(program: Path) -> str:
    """Return what readelf says of a program: its header and segments."""
    if not shutil.which("readelf"):
        pytest.skip("needs readelf: apt-get install binutils")
    words = ["readelf", "--wide", "--file-header", "--program-headers", str(program)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def test_a_wheel_has_its_licence_and_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    said = about(wheel, "METADATA")
    assert "\nLicense-Expression: Apache-2.0\n" in said and "\nClassifier: Framework :: Pytest\n" in said
    assert "Apache License" in about(wheel, "licenses/LICENSE")[:200]
    assert "musl" in about(wheel, "licenses/kit/arms/probe/NOTICE")
    assert "kit/py.typed" in wheel.namelist()


def test_a_wheel_has_a_man_page_for_each_command(wheel: zipfile.ZipFile) -> None:
    pages = {Path(name).name: wheel.read(name).decode() for name in wheel.namelist() if "/share/man/man1/" in name}
    assert {"kit.1", *(f"kit-{name}.1" for name in COMMANDS)} <= set(pages)
    for name, page in pages.items():
        assert page.startswith(f".TH {name.removesuffix('.1').upper()} 1 ") and f'"kit {__version__}"' in page
        assert "\n.SH NAME\n" in page and "\n.SH SYNOPSIS\n" in page
    assert "\\-\\-interleave MODE" in pages["kit-compare.1"]  # also what --help leaves out


def test_a_wheel_is_for_the_machine_of_its_probe(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    machine = platform.machine()
    tags = [f"py3-none-manylinux_2_17_{machine}", f"py3-none-musllinux_1_1_{machine}"]
    assert re.findall(r"^Tag: (.+)$", about(wheel, "WHEEL"), re.M) == tags
    assert "\nRoot-Is-Purelib: false\n" in about(wheel, "WHEEL")
    (name,) = probes(wheel)
    assert name == f"kit/arms/probe/kit-probe-{probe_digest()[:12]}-{machine}"
    said = elf(Path(wheel.extract(name, tmp_path)))
    assert {"x86_64": "X86-64", "aarch64": "AArch64"}[machine] in said and " INTERP " not in said


def test_a_cross_compiler_makes_the_wheel_of_another_machine(source: Path, tmp_path: Path) -> None:
    compiler = "aarch64-linux-gnu-gcc"
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}: make test installs it")
    with zipfile.ZipFile(build("wheel", source, tmp_path / "made", CC=f"{compiler} -g0")) as archive:
        assert "\nTag: py3-none-manylinux_2_17_aarch64\n" in about(archive, "WHEEL")
        (name,) = probes(archive)
        said = elf(Path(archive.extract(name, tmp_path)))
        assert "AArch64" in said and " INTERP " not in said
        assert "glibc" in bill(archive)


def test_an_installed_kit_needs_no_compiler(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    env = {"PYTHONPATH": str(tmp_path / "site"), "PATH": str(tmp_path)}
    words = [sys.executable, "-c", SPIN, str(tmp_path / "cache")]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    package, probe = done.stdout.split()
    assert package.startswith(str(tmp_path / "site"))
    assert hashlib.sha256(Path(probe).read_bytes()).digest() == hashlib.sha256(wheel.read(probes(wheel)[0])).digest()


def test_a_probe_of_another_source_is_not_used(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    with (tmp_path / "site/kit/arms/probe/probe.c").open("a") as source:
        source.write("/* changed */\n")
    env = {"PYTHONPATH": str(tmp_path / "site"), "PATH": str(tmp_path)}
    words = [sys.executable, "-c", SPIN, str(tmp_path / "cache")]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "cc is not installed" in done.stderr


def test_a_wheel_that_is_built_without_a_compiler_is_for_every_machine(source: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(build("wheel", source, tmp_path / "made", CC="no-such-compiler")) as archive:
        assert re.findall(r"^Tag: (.+)$", about(archive, "WHEEL"), re.M) == ["py3-none-any"]
        assert "\nRoot-Is-Purelib: true\n" in about(archive, "WHEEL")
        assert not probes(archive)
        assert "click" in bill(archive) and not any("probe" in name for name in bill(archive))


def test_a_bill_of_materials_lists_the_probe_its_c_library_and_each_requirement(wheel: zipfile.ZipFile) -> None:
    parts, said = bill(wheel), about(wheel, "METADATA")
    (name,) = probes(wheel)
    digest = hashlib.sha256(wheel.read(name)).hexdigest()
    assert parts[Path(name).name]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert set(parts) & {"glibc", "musl"}
    required = dict(re.findall(r"^Requires-Dist: ([\w.-]+)(?:\[.*\])?(\S+)$", said, re.M))
    optional = set(re.findall(r"^Requires-Dist: ([\w.-]+)\S*; extra == ", said, re.M)) - {"storage-driver-test-kit"}
    assert {key: part["versionRange"] for key, part in parts.items() if part.get("scope") == "required"} == {
        key: f"vers:pypi/{accepted}" for key, accepted in required.items()
    }
    assert {key for key, part in parts.items() if part.get("scope") == "optional"} == optional


def test_a_bill_of_materials_is_valid_cyclonedx(wheel: zipfile.ZipFile) -> None:
    pytest.importorskip("cyclonedx")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = about(wheel, r"sboms/.*")
    assert json.loads(text)["metadata"]["component"]["purl"] == f"pkg:pypi/storage-driver-test-kit@{__version__}"
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(text) is None
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(text.replace('"library"', '"book"')) is not None
