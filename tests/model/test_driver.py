"""What a new driver takes: its record, and one entry in the registry. Everything else asks there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from kit.core.errors import UsageError
from kit.core.paths import resource
from kit.model.arm import driver_of, fix_of, parse_arm
from kit.model.drivers import (
    DRIVERS,
    OWN_KERNEL,
    QEMU,
    UML,
    UNION,
    find_driver,
    fuse_daemons,
    handing_on,
    kernel_modules,
)

RECORD = """# A driver that there is none of.
SHINYFS = Driver(
    "shinyfs",
    "a Docker {versions} (docker@{root}/shinyfs), or {arm}",
    KernelPart("shine (CONFIG_SHINY_FS)", "shinyfs", ("shiny-mod",)),
    filesystem="xfs",
    packages={"mount.shinyfs": "shiny-tools"},
    since="99",
    root="99.1",
    options=Options({"gloss": re.compile("on|off")}, "+gloss=on"),
    copies_all=True,
    note="what shines is read twice",
    guests=(QEMU,),
    tried_in_roots=True,
)
"""
#: Prints what each part of the kit makes of it.
LOOK = """
import json
from dataclasses import replace
from kit.arms.engines import EngineConfig, make_engine
from kit.extra.guest.kernel_check import drivers_lacking
from kit.host.recovery.journal import Journal
from kit.host.machine import read_host
from kit.model.arm import fix_of, parse_arm
from kit.model.drivers import Docker
from kit.model.drivers import kernel_modules
from kit.model.plan import default_arms
from kit.model.sample import Phase, Sample
from kit.model.session import Request, Session
from kit.report import render
from kit.extra.guest.doctor import had_in
from kit.session.doctor import driver_arms
from pathlib import Path

def run(name):
    phase = Phase("build", "ok", 1.0, 1.0, 0.2, None, 0.0, outside=0.1, flush=0.2, flush_cpu=0.01, exit_code=0)
    return Sample(name, 1, "measured", "ok", 0.0, (phase,))

arm = parse_arm("layer:shinyfs+gloss=on")
engine = make_engine("docker", EngineConfig("s", Path("."), Path("p"), Journal(Path("journal"), {}), "kit"))
engine.tools = ()
blocker = engine.check(arm, replace(read_host(), root=True))
names = ("bare@xfs", "layer:shinyfs")
session = Session("s", 0.0, "0", "t", "done", Request(), names, (names[::-1],), 1, {"caches": "warm"},
                  samples=tuple(map(run, names)))
print(json.dumps({
    "arm": [str(arm), arm.filesystem], "fix": fix_of(arm),
    "planned": list(map(str, default_arms("docker", Docker(), "cold"))),
    "blocker": [blocker.reason, blocker.fix], "tried": [name for _, name, _ in driver_arms(Docker())],
    "guest": had_in("qemu"), "modules": kernel_modules(), "lacks": list(drivers_lacking([arm])),
    "report": render("full", session),
}))
"""


@pytest.fixture(scope="module")
def with_shinyfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the kit with one record and one entry more."""
    top = tmp_path_factory.mktemp("more")
    shutil.copytree(Path(kit.__file__).parent, top / "kit", ignore=shutil.ignore_patterns("*pytest*.pyc"))
    (top / "docs").symlink_to(resource("docs"))
    registry = top / "kit/model/drivers.py"
    text = registry.read_text()
    entered = text.replace("DEVICEMAPPER, ZFS,", "DEVICEMAPPER, ZFS, SHINYFS,")
    where = '\nUNION = "union"\n'
    assert entered != text and where in entered
    registry.write_text(entered.replace(where, f"\n{RECORD}{where}"))
    yield top


def python(top: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(top), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=top, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_driver_is_one_record_and_one_entry(with_shinyfs: Path) -> None:
    seen = json.loads(python(with_shinyfs, "-c", LOOK))
    assert seen["arm"] == ["layer:shinyfs+gloss=on", "xfs"]
    assert seen["planned"][-1] == "layer:shinyfs"
    assert seen["fix"] == "a Docker 99 or later (docker@99.1/shinyfs), or shinyfs"
    reason, fix = seen["blocker"]
    assert reason == "mount.shinyfs is not installed" and "shiny-tools" in fix
    assert seen["tried"].index("docker/shinyfs") == seen["tried"].index("podman/overlay") - 1
    assert "shinyfs" in seen["guest"] and "shiny-mod" in seen["modules"]
    (lacks,) = seen["lacks"]
    assert lacks.endswith("has no shine (CONFIG_SHINY_FS): arms on shinyfs will not run")
    assert "layer:shinyfs: what shines is read twice" in seen["report"]
    assert "layer:shinyfs: all files are cloned before the clock starts" in seen["report"]


def test_the_help_names_it_with_its_options(with_shinyfs: Path) -> None:
    said = python(with_shinyfs, "-m", "kit", "help", "arms")
    assert "  drivers: overlay2 btrfs vfs fuse-overlayfs aufs devicemapper zfs shinyfs; overlayfs (" in said
    assert "of shinyfs:" in said and "+gloss=on" in said


def test_one_name_may_mean_drivers_of_several_engines() -> None:
    for text, fix in (
        ("layer:btrfs", "put it on btrfs: layer:btrfs@btrfs"),
        ("layer:containerd@1.7/btrfs", "put it on btrfs: layer:containerd/btrfs@btrfs"),
        ("layer:docker@20.10/overlayfs", "use Docker 24 or later: docker@26.1/overlayfs, or --docker PATH"),
        ("layer:containerd/overlayfs", "boot a kernel with overlay"),
        (
            "layer:containerd/nydus",
            "use layer:containerd@2.1-nydus/nydus, which has it and nydusd; Debian has no package of nydusd",
        ),
        ("layer:vfs", ""),
        ("bare", ""),
    ):
        assert fix_of(parse_arm(text)) == fix
    assert fix_of(parse_arm("layer:overlay2@nfs"), "nfs4").startswith("overlay writes to no NFS")
    assert fix_of(parse_arm("layer:overlay2@xfs"), "xfs") == "boot a kernel with overlay"
    assert find_driver("podman", "zfs") is None
    assert find_driver("system", "zfs") is find_driver("docker@28", "zfs")
    assert driver_of(parse_arm("union:overlay")) in DRIVERS[UNION]
    snapshotters = ("containerd-stargz-grpc", "containerd-fuse-overlayfs-grpc", "containerd-nydus-grpc", "nydusd")
    assert fuse_daemons() == ("fuse-overlayfs", *snapshotters, "unionfs-fuse", "mergerfs")
    assert handing_on("volatile") == ("podman/overlay", "containerd@2.1/overlayfs") and handing_on("gloss") == ()


def test_the_docker_that_is_running_is_not_set_up_by_the_kit() -> None:
    with pytest.raises(UsageError, match="unknown option 'thinpool'"):
        parse_arm("layer:system/devicemapper+thinpool")


@pytest.mark.parametrize("engine", DRIVERS)
def test_records_are_whole(engine: str) -> None:
    names = [driver.name for driver in DRIVERS[engine]]
    assert len(set(names)) == len(names)
    for driver in DRIVERS[engine]:
        mended = driver.mend(f"{engine}/{driver.name}")
        assert "{" not in mended and "  " not in mended
        assert set(driver.guests) <= {UML, QEMU, OWN_KERNEL}
        assert bool(driver.versions or driver.plugin) == bool(driver.root)
        if driver.kernel:
            assert set(driver.kernel.modules) <= set(kernel_modules())
