"""One session of the real bitbake, bare and in a layer, that tests look at: it takes minutes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kit.host.command import run
from tests.command_line import in_new_process
from tests.inputs import given

POKY = "poky-scarthgap-5.0.15.tar.zst"
ARMS = ("bare", "layer:overlay2")
#: zip and unzip alone: parsing all recipes takes a minute. Their classes and configuration, most of what bitbake reads,
#: are all there.
MASK = 'BBMASK = "/meta-(poky|yocto-bsp)/ /meta/recipes-(?!extended/(un)?zip/)"'
#: No warm-up runs, and none once more.
CHEAP = ("--rounds", "1", "--cache", "cold", "--no-rerun", "--size", "6G")
#: What bitbake has recorded goes into the run's log as it is, before it is cleaned away.
_KEEP = """[[phases]]
name = "keep"
run = ["sh", "-c", "cd build/tmp/buildstats/* && echo buildstats $(tar c . | base64 -w 0)"]

[[phases]]
name = "clean"
"""
_SCENARIOS = Path(__file__).parents[1] / "scenarios"


@dataclass(frozen=True)
class Build:
    """``document``: what ``kit compare`` wrote as JSON; ``buildstats``: bitbake's own directory, of each arm."""

    document: Mapping[str, Any]
    table: str
    buildstats: Mapping[str, Path]

    def phases(self, arm: str) -> dict[str, dict[str, Any]]:
        return {item["phase"]: item for item in self.document["samples"] if item["arm"] == arm}


@pytest.fixture(scope="session")
def bitbake_build(kit_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """zip-native as ``yocto:native``, offline, from a tarball with another name than its recipe's."""
    directory = tmp_path_factory.mktemp("bitbake")
    downloads = directory / "downloads"
    downloads.mkdir()
    shutil.copy(given("downloads/zip30.tar.gz"), downloads / "zip_3.0.orig.tar.gz")
    localconf = f"""{MASK}; KIT_A = "b; c"; KIT_B = 'd; e'"""
    params = {"poky": given(POKY), "downloads": downloads, "targets": "zip-native", "localconf": localconf}
    words = [word for name, value in params.items() for word in ("--param", f"{name}={value}")]
    words += ["--arms", ",".join(ARMS), *CHEAP, "--json", str(directory / "out.json")]
    done = in_new_process("compare", f"{_keeping(directory)}:native", *words, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((directory / "out.json").read_text())
    table = in_new_process("show", "last", "--full").stdout
    return Build(document, table, {arm: _kept(document, arm, directory / f"stats-{arm[:4]}") for arm in ARMS})


#: flex-native alone, with what it needs.
FLEX = 'BBMASK = "/meta-(poky|yocto-bsp)/ /meta/recipes-(?!devtools/flex/|extended/texinfo-dummy-native/)"'
#: What autotools.bbclass has from Yocto 5.2 on, in the place of what it had.
_NEWER = {
    'ACLOCAL="aclocal --system-acdir=${ACLOCALDIR}/"': 'ACLOCAL="aclocal --aclocal-path=${STAGING_DATADIR}/aclocal/"',
    "$acpaths || die": "|| die",
    "remove-potcdate.sin": "remove-potcdate.sed",
    '			PRUNE_M4="$PRUNE_M4 gettext': (
        "			for makevars in `find ${S} -name Makevars`; do\n"
        "				cat ${STAGING_DATADIR_NATIVE}/gettext/po/Makevars.template.minimal $makevars >> $makevars.new\n"
        "				mv $makevars.new $makevars\n"
        "			done\n"
        '			PRUNE_M4="$PRUNE_M4 gettext'
    ),
}


def separate_layers(directory: Path) -> None:
    """Lay out bitbake, openembedded-core and meta-yocto side by side, as from Yocto 5.3 on: poky's, with the autotools
    class of later releases."""
    core, layers = directory / "openembedded-core", directory / "meta-yocto"
    core.mkdir(parents=True)
    layers.mkdir()
    run(["tar", "--extract", "--file", given(POKY), "--directory", core])
    (core / "bitbake").rename(directory / "bitbake")
    for name in ("meta-poky", "meta-yocto-bsp"):
        (core / name).rename(layers / name)
    samples = core / "meta/conf/templates/default"
    (core / ".templateconf").write_text("TEMPLATECONF=${TEMPLATECONF:-meta/conf/templates/default}\n")
    (samples / "local.conf.sample").write_text('MACHINE ??= "qemux86-64"\nCONF_VERSION = "2"\n')
    (samples / "bblayers.conf.sample").write_text(
        'LCONF_VERSION = "7"\nBBPATH = "${TOPDIR}"\nBBFILES ?= ""\nBBLAYERS ?= "##OEROOT##/meta"\n'
    )
    autotools = core / "meta/classes-recipe/autotools.bbclass"
    text = autotools.read_text()
    for before, after in _NEWER.items():
        assert before in text
        text = text.replace(before, after)
    autotools.write_text(text)


def _keeping(directory: Path) -> Path:
    """The bundled scenario, that keeps buildstats."""
    shutil.copytree(_SCENARIOS / "yocto", directory / "yocto")
    text = (_SCENARIOS / "yocto.toml").read_text()
    changed = text.replace('[[phases]]\nname = "clean"\n', _KEEP)
    assert changed != text
    (directory / "yocto.toml").write_text(changed)
    return directory / "yocto.toml"


def _kept(document: Mapping[str, Any], arm: str, directory: Path) -> Path:
    # The last: where the machine was disturbed it stands in the place of the first.
    log = [Path(item["log"]) for item in document["samples"] if item["arm"] == arm][-1].read_text()
    (said,) = re.findall(r"^buildstats (\S+)$", log, re.MULTILINE)
    directory.mkdir()
    subprocess.run(["tar", "x", "-C", str(directory)], input=b64decode(said), check=True)
    return directory
