"""The real bitbake through the real CLI, with as few recipes as it needs: parsing all of them takes a minute."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kit.core.paths import find_paths
from tests.command_line import Kit
from tests.inputs import given

pytestmark = [pytest.mark.machine, pytest.mark.images("yocto")]

ARMS = ("bare", "layer:overlay2")
#: zip and unzip alone. Their classes and configuration, most of what bitbake reads, are all there.
MASK = 'BBMASK = "/meta-(poky|yocto-bsp)/ /meta/recipes-(?!extended/(un)?zip/)"'


@pytest.fixture(scope="module")
def poky() -> Path:
    return given("poky-scarthgap-5.0.15.tar.zst")


def compare(kit: Kit, tmp_path: Path, *words: str | Path, code: int = 0) -> dict[str, Any]:
    """Run ``kit compare yocto:native`` and return what it wrote as JSON, its table under ``table``."""
    out = tmp_path / "out.json"
    rest = ("--rounds", "1", "--cache", "cold", "--size", "6G", "--json", out)
    done = kit("compare", "yocto:native", *words, *rest, timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(out.read_text())
    return {**document, "table": kit("show", "last", "--full").stdout}


def test_bitbake_builds_offline_from_a_tarball_with_another_name(kit: Kit, tmp_path: Path, poky: Path) -> None:
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    shutil.copy(given("downloads/zip30.tar.gz"), downloads / "zip_3.0.orig.tar.gz")
    words = ("--param", f"poky={poky}", "--param", f"downloads={downloads}", "--param", "targets=zip-native")
    found = compare(kit, tmp_path, *words, "--param", f'localconf={MASK}; A = "b"', "--arms", ",".join(ARMS))
    for arm in ARMS:
        phases = {item["phase"]: item for item in found["samples"] if item["arm"] == arm}
        assert list(phases)[:3] == ["parse", "build", "clean"]
        build = phases["build"]
        assert build["cgroup_user"] > 3 * build["user"], "the server's CPU is not counted"
    assert "phase build" in found["table"] and "user*" in found["table"]


def test_a_source_that_nobody_has_is_named_before_anything_runs(kit: Kit, tmp_path: Path, poky: Path) -> None:
    lost = 'SRC_URI:pn-unzip-native = "https://nowhere.invalid/lost.tar.gz;sha256sum=' + "0" * 64 + '"'
    words = ("--param", f"poky={poky}", "--param", "targets=zip-native unzip-native", "--arms", "bare")
    found = compare(kit, tmp_path, *words, "--param", f"localconf={MASK}; {lost}", code=1)
    assert found["samples"] == []
    assert "unzip-native: lost.tar.gz from https://nowhere.invalid/lost.tar.gz" in found["table"]
    assert "--param downloads=DIRECTORY" in found["table"] and "zip30.tar.gz" not in found["table"]
    log = (find_paths().data / "logs" / found["session"]["id"] / "fetch-yocto.log").read_text()
    assert "zip-native: zip30.tar.gz is Debian's zip_3.0.orig.tar.gz" in log
