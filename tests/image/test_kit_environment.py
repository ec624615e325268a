"""What is written for the kit's environment in an image, and how it is installed. tests/machine/test_container.py makes
a real one, tests/test_wheel.py packs the wheel of an installed kit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kit.image.kit_environment import KitEnvironment, own_digest
from tests.image_archives import directory

ROOT = Path(__file__).parents[2]
ENVIRONMENT = KitEnvironment(("fleet", "serve"), "1700000000")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings of pip, but for those of the machine."""
    for name in ("PIP_INDEX_URL", "PIP_CERT", "PIP_CONFIG_FILE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    return tmp_path / "home"


def test_a_checkout_is_copied_without_what_python_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.image.kit_environment.resource", ROOT.joinpath)  # tests may run with an installed kit
    hook = ENVIRONMENT.hook(tmp_path / "staged")
    source = tmp_path / "staged/source"
    assert (source / "pyproject.toml").is_file() and (source / "images/kit/image.toml").is_file()
    assert (source / "kit/__init__.py").is_file() and not (source / "tests").exists()
    assert not list(source.rglob("__pycache__"))
    assert hook.startswith(f'cp -R {tmp_path / "staged"} "$1"/kit-sources && chroot "$1" env -i PATH=')
    assert hook.endswith("sh 'source[fleet,serve]' && rm -r \"$1\"/kit-sources")
    assert "export SOURCE_DATE_EPOCH=1700000000\n" in (tmp_path / "staged/settings").read_text()


def test_pip_finds_packages_where_the_user_does(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = b"[global]\nindex-url = https://a.example.org/simple\ntimeout = 7\nno-color = 1\n"
    directory(home, {".config/pip/pip.conf": given, "ours.pem": b"an authority"})
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:it's-mine@b.example.org/simple")
    monkeypatch.setenv("https_proxy", "http://me:it's-mine@proxy.example.org:3128")
    monkeypatch.setenv("PIP_CONSTRAINT", "/constraints.txt")  # of the user's own packages
    monkeypatch.setenv("PIP_CERT", str(home / "ours.pem"))
    hook = ENVIRONMENT.hook(tmp_path / "staged")
    settings = tmp_path / "staged/settings"
    print_all = f". {settings}; env -0"
    printed = subprocess.run(["env", "-i", "/bin/sh", "-ec", print_all], capture_output=True, text=True, check=True)
    found = dict(line.split("=", 1) for line in printed.stdout.split("\0") if line)
    assert found["PIP_INDEX_URL"] == "https://me:it's-mine@b.example.org/simple" and found["PIP_TIMEOUT"] == "7"
    assert found["https_proxy"] == "http://me:it's-mine@proxy.example.org:3128"
    assert not {"PIP_NO_COLOR", "PIP_CONSTRAINT"} & set(found)
    assert found["PIP_CERT"] == "/kit-sources/authority.pem"
    # Every user sees the words of a command, and mmdebstrap prints those of a hook.
    assert "mine" not in hook and settings.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "staged/authority.pem").read_bytes() == b"an authority"


def test_the_digest_is_of_what_is_installed() -> None:
    assert own_digest() == own_digest() and len(own_digest()) == 64
