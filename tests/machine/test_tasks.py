"""A real build task by task: the kit's sums against the phase that it measured itself, and against poky's own tool."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bitbake import ARMS, POKY, Build
from tests.inputs import given, image_for

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, image_for("yocto", POKY)]


def test_sums_agree_with_the_phase_and_with_buildstats_diff(bitbake_build: Build, tmp_path: Path) -> None:
    means = _means(bitbake_build.document)
    for arm in ARMS:
        build = bitbake_build.phases(arm)["build"]
        cpu = build["cgroup_user"] + build["cgroup_sys"]
        assert 0.4 * cpu < means[arm, "all", "", "cpu"] < cpu, "tasks and phase do not agree"
        assert means[arm, "all", "", "elapsed"] > means[arm, "kind", "compile", "elapsed"] > 0
    directories = [bitbake_build.buildstats[arm] for arm in ARMS]
    for attribute, metric in (("cputime", "cpu"), ("walltime", "elapsed")):
        rows, cumulative = _buildstats_diff(tmp_path, attribute, directories)
        for sandbox, arm in enumerate(ARMS):
            assert cumulative[sandbox] == pytest.approx(means[arm, "all", "", metric], abs=0.051)
            kinds: Counter[str] = Counter()
            for kind, *values in rows:
                kinds[kind] += values[sandbox]  # type: ignore[assignment]
            count = Counter(kind for kind, *_ in rows)
            for kind in count:
                if (arm, "kind", kind, metric) in means:  # the others are summed up
                    assert kinds[kind] == pytest.approx(means[arm, "kind", kind, metric], abs=0.051 * count[kind])
    assert "build by kind of task: layer:overlay2 / bare, 1 round\n" in bitbake_build.table
    assert "bitbake itself" in bitbake_build.table


def _means(document: Mapping[str, Any]) -> dict[tuple[str, str, str, str], float]:
    found = {}
    for item in document["tasks"]:
        made = item["comparison"]
        found[made["arm"], item["by"], item["name"], made["metric"]] = item["mean"]
        found[made["baseline"], item["by"], item["name"], made["metric"]] = item["base_mean"]
    return found


def _buildstats_diff(
    directory: Path, attribute: str, builds: list[Path]
) -> tuple[list[tuple[str, float, float]], tuple[float, float]]:
    """Of each task its kind and both values; both sums."""
    names = "scripts/buildstats-diff", "scripts/lib/buildstats.py"
    subprocess.run(["tar", "--zstd", "-xf", str(given(POKY)), "-C", str(directory), *names], check=True)
    argv = [sys.executable, str(directory / names[0]), f"--diff-attr={attribute}", "--min-val=0", "--min-absdiff=0"]
    said = subprocess.run([*argv, *builds], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r" do_(\S+) .* (\S+)s -> (\S+)s", said)
    sums = re.search(r"\((\S+)s\) -> .*\((\S+)s\)", said)
    assert rows and sums, said
    return [(kind, float(one), float(two)) for kind, one, two in rows], (float(sums[1]), float(sums[2]))
