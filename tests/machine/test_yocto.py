"""The real bitbake through the real CLI, with as few recipes as it needs: parsing all of them takes a minute."""

import json
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from tests.bitbake import ARMS, CHEAP, MASK, POKY, Build
from tests.command_line import Kit
from tests.inputs import given, image_for

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, image_for("yocto", POKY)]


def test_bitbake_builds_offline_from_a_tarball_with_another_name(bitbake_build: Build) -> None:
    for arm in ARMS:
        phases = bitbake_build.phases(arm)
        assert list(phases) == ["parse", "build", "keep", "clean"]
        build = phases["build"]
        assert build["cgroup_user"] > 3 * build["user"], "the server's CPU is not counted"
    assert "phase build" in bitbake_build.table and "user*" in bitbake_build.table


def test_a_source_that_nobody_has_is_named_before_anything_runs(kit: Kit, tmp_path: Path) -> None:
    lost = 'SRC_URI:pn-unzip-native = "https://nowhere.invalid/lost.tar.gz;sha256sum=' + "0" * 64 + '"'
    out = tmp_path / "out.json"
    words = ("--param", f"poky={given(POKY)}", "--param", "targets=zip-native unzip-native", "--arms", "bare", *CHEAP)
    done = kit("compare", "yocto:native", *words, "--param", f"localconf={MASK}; {lost}", "--json", out, timeout=600)
    assert done.returncode == 3, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["samples"] == []
    table = kit("show", "last", "--full").stdout
    assert "unzip-native: lost.tar.gz from https://nowhere.invalid/lost.tar.gz" in table
    assert "--param downloads=DIRECTORY" in table and "zip30.tar.gz" not in table
    log = (find_paths().data / "logs" / found["session"]["id"] / "fetch-yocto.log").read_text()
    assert "zip-native: zip30.tar.gz is Debian's zip_3.0.orig.tar.gz" in log
