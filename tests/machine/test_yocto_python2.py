"""The release of the first report on what a storage driver costs a build, whose bitbake is Python 2."""

import json
from pathlib import Path

import pytest

from tests.command_line import Kit
from tests.inputs import given, image_for

POKY, DOWNLOADS = "poky-dizzy-1.7.tar.zst", "downloads"
pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, image_for("yocto-python2", POKY, DOWNLOADS)]

#: zip and unzip alone: parsing all recipes takes most of a minute.
MASK = 'BBMASK = "/meta-yocto|/meta/recipes-(?!extended/(un)?zip/)"'


def test_dizzy_builds_offline_from_tarballs_that_it_has_other_names_for(kit: Kit, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    params = {"poky": given(POKY), "downloads": given(DOWNLOADS), "localconf": MASK}
    words = [word for name, value in params.items() for word in ("--param", f"{name}={value}")]
    rest = ("--arms", "bare", "--rounds", "1", "--cache", "cold", "--no-rerun", "--size", "6G", "--json", out)
    done = kit("compare", "yocto:python2", *words, *rest, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert [item["phase"] for item in found["samples"]][:3] == ["parse", "build", "clean"]
    log = Path(found["samples"][0]["log"]).read_text()
    assert 'DISTRO_VERSION    = "1.7' in log and "zip-native-3.0-r2: task do_compile: Succeeded" in log
