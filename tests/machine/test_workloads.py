"""The field's workloads through the real CLI, each small: filesystems, load, layers, engine, Maven, Yocto."""

import json
from pathlib import Path
from typing import Any

import pytest

from kit.core.exit_code import NOT_RUN
from tests.command_line import Kit
from tests.needs import needs
from tests.repository import git, make_repository

pytestmark = [pytest.mark.machine, pytest.mark.images("smoke")]

ARMS = ("bare", "layer:overlay2")


def compare(kit: Kit, tmp_path: Path, *words: str | Path, code: int = 0) -> dict[str, Any]:
    """Run ``kit compare`` and return what it wrote as JSON, its table under ``table``."""
    out = tmp_path / "out.json"
    done = kit("compare", *words, "--json", out, "--size", "6G", "--no-rerun", timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(out.read_text())
    return {**document, "table": kit("show", "last", "--full").stdout}


def figures(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(item["arm"], figure["name"]) for item in document["samples"] for figure in item["reported"]}


def small_scenario(path: Path, phases: str, rest: str = "") -> Path:
    path.write_text(f'name = "{path.stem}"\nsummary = "x"\nimage = "smoke"\n{rest}\n{phases}')
    return path


def phase(name: str, script: str) -> str:
    return f'[[phases]]\nname = "{name}"\nrun = ["sh", "-ec", {json.dumps(script)}]\n'


@pytest.mark.unmeasured
def test_filesystems_are_compared_without_a_container(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[mine]\ntype = "xfs"\nmount = ["noatime"]\n')
    scenario = small_scenario(tmp_path / "write.toml", phase("write", "dd if=/dev/zero of=f bs=1M count=20"))
    found = compare(
        kit, tmp_path, scenario, "--arms", "bare", "--fs", "ext4,mine,tmpfs-sync,jfs", "--fs-file", mine,
        "--image", tiny, "--rounds", "2", "--cache", "cold", code=NOT_RUN,
    )  # fmt: skip
    assert {(item["arm"], item["baseline"]) for item in found["comparisons"]} == {
        ("bare@mine", "bare"), ("bare@tmpfs-sync", "bare"),
    }  # fmt: skip
    facts = found["session"]["facts"]
    assert "noatime" in facts["filesystem mine"] and "written back every 30 s" in facts["filesystem tmpfs-sync"]
    assert "not run: bare@jfs: this kernel has no jfs" in found["table"]
    written = [item["flush_bytes"] for item in found["samples"] if item["arm"] == "bare@tmpfs-sync"]
    assert min(written) > 20e6  # what was in memory is on the disk after the flush


def test_background_load_runs_beside_every_run_and_is_not_the_arms(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    load = small_scenario(tmp_path / "busy.toml", phase("burn", "while :; do :; done"))
    scenario = small_scenario(tmp_path / "rest.toml", phase("rest", "sleep 1"))
    words = (scenario, "--image", tiny, "--arms", ",".join(ARMS), "--rounds", "1", "--load", load)
    found = compare(kit, tmp_path, *words)
    assert sorted(item["arm"] for item in found["warmups"]) == sorted(ARMS)  # caches are warm: one run of each before
    for item in found["samples"]:
        assert item["load"].startswith("busy: ")
        # The load takes what CPU it gets. The arm sleeps, and uses almost none however busy the machine is.
        assert item["cgroup_user"] + item["cgroup_sys"] < 0.5, "its CPU is charged to the arm"
        assert any(name == "load's scenario" for name in item["digests"])
    assert "background load beside every run" in found["table"]


@pytest.mark.unmeasured
def test_a_load_that_fails_fails_the_run(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    load = small_scenario(tmp_path / "broken.toml", phase("break", "exit 3"))
    scenario = small_scenario(tmp_path / "rest.toml", phase("rest", "sleep 5"))
    words = (scenario, "--image", tiny, "--arms", "bare", "--rounds", "1", "--load", load)
    found = compare(kit, tmp_path, *words, code=1)
    assert "the load failed: break ended with exit status 3" in found["table"]


@pytest.mark.unmeasured
def test_commands_and_revisions_are_compared_like_arms(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project")
    found = compare(
        kit, tmp_path, "--command", "a=grep 2 number", "--command", "! grep 1 number", "--source", repository,
        "--source-rev", "new=main,v1", "--image", tiny, "--arms", "bare", "--rounds", "1", "--cache", "cold",
        "--title", "four", code=1,
    )  # fmt: skip
    status = {item["arm"]: item["status"] for item in found["samples"]}
    assert status == {
        "bare+command=a+rev=new": "ok", "bare+command=grep-1-number+rev=new": "ok",
        "bare+command=a+rev=v1": "failed", "bare+command=grep-1-number+rev=v1": "failed",
    }  # fmt: skip
    assert {(item["arm"], item["baseline"]) for item in found["comparisons"]} == {
        ("bare+command=grep-1-number+rev=new", "bare+command=a+rev=new"),
    }  # fmt: skip
    assert found["session"]["facts"]["source commit of v1"] == git(repository, "rev-parse", "v1")
    assert json.loads(kit("export", "last", "--format", "hyperfine").stdout)["results"][1]["kit"]["ratio"] > 0
    assert "bare+command=a+rev=new" in kit("history", "four", "bare+command=grep-1-number+rev=new").stdout


@pytest.mark.unmeasured
def test_inputs_are_fetched_once_in_the_image(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    script = "mkdir got; cat /proc/sys/kernel/random/uuid > got/id; ls -l /bin/ls > got/ls; cat one > got/earlier"
    first, rest = tmp_path / "first", f"[inputs.first]\nsource = {json.dumps(str(tmp_path / 'first'))}\n"
    first.mkdir()
    (first / "one").write_text("1")
    rest += f'[inputs.got]\nfetch = [["sh", "-ec", {json.dumps(script)}]]\ninto = "directory"\n'
    use = phase("use", "grep 1 {inputs}/got/earlier; grep busybox {inputs}/got/ls; ! touch {inputs}/got/x")
    scenario = small_scenario(tmp_path / "fetch.toml", use, rest)
    words = ("--image", tiny, "--arms", ",".join(ARMS), "--rounds", "1", "--cache", "cold")
    digests = [compare(kit, tmp_path, scenario, *words)["samples"][0]["digests"]["input got"] for _ in range(2)]
    assert digests[0] == digests[1]
    broken = small_scenario(tmp_path / "broken.toml", use, rest.replace("cat one", "echo no such thing; exit 7"))
    found = compare(kit, tmp_path, broken, *words, code=NOT_RUN)
    assert (
        "not run: bare, layer:overlay2: got of broken can't be fetched: fetch failed with exit status 7"
        in found["table"]
    )


@pytest.mark.unmeasured
@pytest.mark.images("layers")
def test_layers(kit: Kit, tmp_path: Path) -> None:
    words = ("layers", "--arms", "bare,bind:overlay2,layer:overlay2", "--rounds", "1", "--cache", "cold")
    found = compare(kit, tmp_path, *words, "--param", "parallel=2")
    phases = {item["phase"] for item in found["samples"]}
    assert {"stat-100-layers", "append-large", "rename-directory", "unlink"} <= phases
    refused = {
        item["arm"]: figure["value"]
        for item in found["samples"]
        for figure in item["reported"]
        if figure["name"].startswith("refused with EXDEV")
    }
    # Only where the directory comes from a lower layer does the driver refuse: proof that the phases work there.
    assert refused == {"bare": 0, "bind:overlay2": 0, "layer:overlay2": 1}


@pytest.mark.unmeasured
@pytest.mark.images("storage")
def test_lifecycle_of_an_engine_and_of_plain_directories(kit: Kit, tmp_path: Path) -> None:
    words = ("lifecycle:short", "--param", "count=2", "--param", "steps=2", "--cache", "cold")
    found = compare(kit, tmp_path, *words, "--arms", ",".join(ARMS), "--rounds", "1")
    names = {"start, the last of 2", "commit", "disk used per container, idle", "remove it, until its space is free"}
    assert figures(found) >= {(arm, name) for arm in ARMS for name in names}
    value = {(item["arm"], figure["name"]): figure["value"] for item in found["samples"] for figure in item["reported"]}
    # In KiB: the driver copies the whole file up.
    assert value["layer:overlay2", "disk used per container, one byte of 16 MiB changed"] > 16 * 1024
    page_cache = "page cache per further container that reads 16 MiB"
    assert value["bare", page_cache] > 16 * 1024 and ("layer:overlay2", page_cache) in value  # bare copies the image


@pytest.mark.unmeasured
@pytest.mark.images("storage")
@needs("docker-registry")
def test_pull_to_ready_on_every_engine_and_on_plain_directories(kit: Kit, tmp_path: Path) -> None:
    arms = ("bare", "layer:overlay2", "layer:podman/overlay", "layer:containerd/overlayfs")
    words = ("pull", "--param", "layers=2", "--param", "size=2", "--cache", "cold")
    found = compare(kit, tmp_path, *words, "--arms", ",".join(arms), "--rounds", "1")
    value = {(item["arm"], figure["name"]): figure["value"] for item in found["samples"] for figure in item["reported"]}
    assert {item["status"] for item in found["samples"]} == {"ok"}, found["table"]
    assert {item["phase"] for item in found["samples"]} == {"pull", "start", "exit", "remove"}
    for arm in arms:
        assert value[arm, "pull to first output"] == pytest.approx(
            value[arm, "pull"] + value[arm, "create to first output"], rel=1e-4
        )
    packed, unpacked = value["bare", "image, packed"], value["bare", "image, unpacked"]
    used = {arm: value[arm, "disk used by the pulled image"] for arm in arms}
    assert used["layer:containerd/overlayfs"] > used["layer:overlay2"] + packed / 2  # it keeps both (moby 50103)
    assert min(used.values()) > unpacked / 2


POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>kit</groupId><artifactId>{name}</artifactId><version>1</version>{rest}
<properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target>
<project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties></project>
"""


@pytest.mark.unmeasured
@pytest.mark.images("maven")
def test_maven_builds_a_project_of_two_modules_offline(kit: Kit, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("one", "two"):
        source = project / name / "src" / "main" / "java"
        source.mkdir(parents=True)
        (source / f"{name.title()}.java").write_text(f"class {name.title()} {{}}\n")
        (project / name / "pom.xml").write_text(POM.format(name=name, rest=""))
    modules = "<packaging>pom</packaging><modules><module>one</module><module>two</module></modules>"
    (project / "pom.xml").write_text(POM.format(name="top", rest=modules))
    words = ("maven", "--param", f"project={project}", "--param", "goals=clean compile", "--cache", "cold")
    found = compare(kit, tmp_path, *words, "--arms", ",".join(ARMS), "--rounds", "1")
    assert {item["phase"] for item in found["samples"]} == {"mvn"}


@pytest.mark.unmeasured
def test_yocto_without_poky_is_refused_before_the_machine_is_held_and_says_how_to_get_it(
    kit: Kit, tmp_path: Path
) -> None:
    nowhere = f"git:file://{tmp_path}/poky#scarthgap"
    words = ("yocto", "--image", "smoke", "--param", f"poky={nowhere}", "--arms", "bare", "--rounds", "1")
    done = kit("compare", *words)
    assert done.returncode == 2 and "session" not in done.stderr
    assert f"git clone -b scarthgap file://{tmp_path}/poky, then give --param poky=DIRECTORY" in done.stderr


@pytest.mark.unmeasured
def test_nosync_leaves_data_to_the_flush_and_the_disk_s_figures_agree(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    written = 16 << 20
    scenario = small_scenario(
        tmp_path / "dd.toml",
        phase("write", "dd if=/dev/zero of=data bs=1M count=16 conv=fsync; for i in 1 2 3 4 5; do : > $i; done"),
    )
    arms = ("bare", "bare+nosync", "layer:overlay2", "layer:overlay2+nosync")
    found = compare(kit, tmp_path, scenario, "--arms", ",".join(arms), "--rounds", "1", "--interleave", "off")
    assert {item["status"] for item in found["samples"]} == {"ok"}, found["table"]
    for item in found["samples"]:
        assert item["write_bytes"] + item["flush_bytes"] >= written
        assert (item["write_bytes"] < written / 2) == ("+nosync" in item["arm"])
        if item["dirtied_bytes"] is not None:  # it is where the kernel counts whole folios
            assert item["dirtied_bytes"] == pytest.approx(written, rel=0.05)
        assert item["space"] == pytest.approx(written, rel=0.05)
        assert item["inodes"] == 6
    # A static program, in a root that the build makes itself.
    write = "chroot root /bin/busybox dd if=/bin/busybox of=data bs=1M conv=fsync"
    scenario = small_scenario(
        tmp_path / "root.toml", phase("write", f"mkdir -p root/bin; cp /bin/busybox root/bin; {write}")
    )
    found = compare(kit, tmp_path, scenario, "--image", tiny, "--arms", "bare,bare+nosync", "--rounds", "1")
    synced, suppressed = (item["write_bytes"] for item in sorted(found["samples"], key=lambda item: item["arm"]))
    assert suppressed < 1 << 19 < synced


@pytest.mark.unmeasured
@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
def test_bytes_written_into_a_cached_file_are_counted_by_page_or_not_at_all(
    kit: Kit, tiny: Path, tmp_path: Path, filesystem: str
) -> None:
    """64 bytes in 64 pages. Where the kernel counts whole folios it says tens of megabytes."""
    write = "for i in $(seq 0 63); do printf x | dd of=f bs=1 seek=$((i << 20)) conv=notrunc status=none; done"
    scenario = small_scenario(
        tmp_path / "folios.toml",
        phase("make", "dd if=/dev/zero of=f bs=1M count=64")
        + phase("read", "cat f > /dev/null")
        + phase("write", write),
    )
    arm = f"bare@{filesystem}"
    words = ("--arms", arm, "--image", tiny, "--rounds", "1", "--interleave", "off")
    found = compare(kit, tmp_path, scenario, *words)
    (item,) = [sample for sample in found["samples"] if sample["phase"] == "write"]
    lacking = f"no dirtied bytes on {filesystem}" in found["session"]["facts"]
    assert (item["dirtied_bytes"] is None) == lacking
    assert lacking or item["dirtied_bytes"] < 1 << 20


@pytest.mark.unmeasured
def test_space_does_not_count_what_was_removed_before(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    """XFS frees removed files in the background. They were still in use when the phase began, and not at its end."""
    make = "i=0; while [ $i -lt 24 ]; do dd if=/dev/zero of=f$i bs=1M count=8 status=none; i=$((i + 1)); done"
    scenario = small_scenario(
        tmp_path / "removed.toml", phase("make", make) + phase("remove", "rm f*") + phase("nothing", "true")
    )
    found = compare(kit, tmp_path, scenario, "--arms", "bare@xfs", "--image", tiny, "--rounds", "1")
    space = {item["phase"]: item["space"] for item in found["samples"]}
    assert space["make"] == pytest.approx(192 << 20, rel=0.05)
    assert space["remove"] == pytest.approx(-192 << 20, rel=0.05)
    assert abs(space["nothing"]) < 1 << 20


@pytest.mark.unmeasured
def test_peak_memory_and_write_amplification_are_those_of_programs_of_which_they_are_known(
    kit: Kit, tmp_path: Path
) -> None:
    """dd fills a buffer of 200 MiB, then writes a file of 64 MiB once, then one in 256 parts, each to the disk."""
    scenario = small_scenario(
        tmp_path / "known.toml",
        phase("allocate", "dd if=/dev/zero of=/dev/null bs=200M count=1 iflag=fullblock")
        + phase("write", "dd if=/dev/zero of=large bs=1M count=64 conv=fsync")
        + phase("sync", "dd if=/dev/zero of=small bs=4k count=256 oflag=dsync"),
    )
    arms = ("bare", "layer:overlay2", "layer:fuse-overlayfs")
    found = compare(kit, tmp_path, scenario, "--arms", ",".join(arms), "--rounds", "1", "--cache", "cold")
    row = {(item["arm"], item["phase"]): item for item in found["samples"]}

    def amplification(arm: str, name: str) -> float:
        item = row[arm, name]
        return float((item["write_bytes"] + item["flush_bytes"]) / item["dirtied_bytes"])

    mib = 1 << 20
    for arm in arms:
        assert row[arm, "write"]["write_bytes"] >= 64 * mib
        assert (row[arm, "allocate"]["daemon_memory"] is None) == ("fuse" not in arm)
        if row[arm, "write"]["dirtied_bytes"] is not None:  # it is with a daemon, and where folios count whole
            assert "fuse" not in arm
            assert 0.95 < amplification(arm, "write") < 1.2
            assert amplification(arm, "sync") > 1.5  # the journal has a record of each
        if arm != "bare":
            assert 200 * mib < row[arm, "allocate"]["arm_memory"] < 232 * mib
            assert 64 * mib < row[arm, "write"]["arm_memory"] < 110 * mib
    assert row["layer:fuse-overlayfs", "write"]["daemon_memory"] > mib
