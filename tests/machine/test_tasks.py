"""A real build task by task: the kit's sums against the phase that it measured itself, and against poky's own tool."""

import json
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Kit
from tests.inputs import given

pytestmark = [pytest.mark.machine, pytest.mark.images("yocto")]

SCENARIOS = Path(__file__).parents[2] / "scenarios"
ARMS = ("bare", "layer:overlay2")
#: zip and unzip alone: parsing all recipes takes a minute.
CONF = (
    'ASSUME_PROVIDED += "quilt-native patch-native";HOSTTOOLS += "quilt";'
    'BBMASK = "/meta-yocto-bsp/ /meta/recipes-(?!extended/(un)?zip/)"'
)
CHEAP = ("--rounds", "1", "--cache", "cold", "--size", "6G")  # no warm-up runs
#: What bitbake has recorded goes into the run's log as it is, before it is cleaned away.
KEEP = """[[phases]]
name = "keep"
run = ["sh", "-c", "cd build/tmp/buildstats/* && echo buildstats $(tar c . | base64 -w 0)"]

[[phases]]
name = "clean"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The bundled one, that keeps buildstats."""
    shutil.copytree(SCENARIOS / "yocto", tmp_path / "yocto")
    text = (SCENARIOS / "yocto.toml").read_text()
    changed = text.replace('[[phases]]\nname = "clean"\n', KEEP)
    assert changed != text
    (tmp_path / "yocto.toml").write_text(changed)
    return tmp_path / "yocto.toml"


def test_sums_agree_with_the_phase_and_with_buildstats_diff(kit: Kit, tmp_path: Path, scenario: Path) -> None:
    poky = given("poky-scarthgap-5.0.15.tar.zst")
    params = {"poky": poky, "downloads": given("downloads"), "targets": "zip-native unzip-native", "localconf": CONF}
    words = [word for name, value in params.items() for word in ("--param", f"{name}={value}")]
    out = tmp_path / "out.json"
    done = kit("compare", scenario, *words, "--arms", ",".join(ARMS), *CHEAP, "--json", out, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(out.read_text())
    means = _means(document)
    for arm in ARMS:
        (build,) = (item for item in document["samples"] if (item["arm"], item["phase"]) == (arm, "build"))
        cpu = build["cgroup_user"] + build["cgroup_sys"]
        assert 0.5 * cpu < means[arm, "all", "", "cpu"] < cpu, "tasks and phase do not agree"
        assert means[arm, "all", "", "elapsed"] > means[arm, "kind", "compile", "elapsed"] > 0
    directories = [_kept(document, arm, tmp_path / arm.partition(":")[0]) for arm in ARMS]
    for attribute, metric in (("cputime", "cpu"), ("walltime", "elapsed")):
        rows, cumulative = _buildstats_diff(poky, tmp_path, attribute, directories)
        for place, arm in enumerate(ARMS):
            assert cumulative[place] == pytest.approx(means[arm, "all", "", metric], abs=0.051)
            kinds: Counter[str] = Counter()
            for kind, *values in rows:
                kinds[kind] += values[place]  # type: ignore[assignment]
            count = Counter(kind for kind, *_ in rows)
            for kind in count:
                if (arm, "kind", kind, metric) in means:  # the others are summed up
                    assert kinds[kind] == pytest.approx(means[arm, "kind", kind, metric], abs=0.051 * count[kind])
    shown = kit("show", "last", "--full").stdout
    assert "build by kind of task: layer:overlay2 / bare, 1 round\n" in shown and "bitbake itself" in shown


def _means(document: dict[str, Any]) -> dict[tuple[str, str, str, str], float]:
    found = {}
    for item in document["tasks"]:
        made = item["comparison"]
        found[made["arm"], item["by"], item["name"], made["metric"]] = item["mean"]
        found[made["baseline"], item["by"], item["name"], made["metric"]] = item["base_mean"]
    return found


def _kept(document: dict[str, Any], arm: str, directory: Path) -> Path:
    log = next(Path(item["log"]) for item in document["samples"] if item["arm"] == arm).read_text()
    (said,) = re.findall(r"^buildstats (\S+)$", log, re.MULTILINE)
    directory.mkdir()
    subprocess.run(["tar", "x", "-C", str(directory)], input=b64decode(said), check=True)
    return directory


def _buildstats_diff(
    poky: Path, directory: Path, attribute: str, builds: list[Path]
) -> tuple[list[tuple[str, float, float]], tuple[float, float]]:
    """Of each task its kind and both values; both sums."""
    names = "scripts/buildstats-diff", "scripts/lib/buildstats.py"
    subprocess.run(["tar", "--zstd", "-xf", str(poky), "-C", str(directory), *names], check=True)
    argv = [sys.executable, str(directory / names[0]), f"--diff-attr={attribute}", "--min-val=0", "--min-absdiff=0"]
    said = subprocess.run([*argv, *builds], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r" do_(\S+) .* (\S+)s -> (\S+)s", said)
    sums = re.search(r"\((\S+)s\) -> .*\((\S+)s\)", said)
    assert rows and sums, said
    return [(kind, float(one), float(two)) for kind, one, two in rows], (float(sums[1]), float(sums[2]))
