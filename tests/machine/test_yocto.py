"""The real bitbake through the real CLI, with as few recipes as it needs: parsing all of them takes a minute."""

import json
import re
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from tests.bitbake import ARMS, CHEAP, FLEX, MASK, POKY, Build, separate_layers
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


def test_layers_side_by_side_and_a_later_autotools_class_do(kit: Kit, tmp_path: Path) -> None:
    """Below layers/, as bitbake-setup checks them out. Its build directory names directories of its own."""
    separate_layers(tmp_path / "setup/layers")
    (tmp_path / "setup/build/conf").mkdir(parents=True)
    (tmp_path / "setup/build/conf/bblayers.conf").write_text('BBLAYERS = "/nowhere"\n')
    out = tmp_path / "out.json"
    params = {"poky": tmp_path / "setup", "targets": "flex-native", "localconf": FLEX}
    words = [word for name, value in params.items() for word in ("--param", f"{name}={value}")]
    done = kit("compare", "yocto:native", *words, "--arms", "bare", *CHEAP, "--json", out, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    log = Path(json.loads(out.read_text())["samples"][0]["log"]).read_text()
    assert "flex-native-2.6.4-r0: task do_compile: Succeeded" in log
    assert re.search(r'^DISTRO +=\s"poky"$', log, re.M) and re.search("^meta-yocto-bsp ", log, re.M)
