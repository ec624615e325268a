"""The real command line on the real machine: what a user types, sees and gets back."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.arms.probe import probe_binary
from kit.cli import COMMANDS
from kit.core.exit_code import NOT_RUN
from kit.core.paths import find_paths
from tests.command_line import Kit
from tests.json_schemas import check_document
from tests.leftovers import left_on_machine
from tests.needs import needs
from tests.waiting import wait_until

pytestmark = pytest.mark.images("smoke")

#: Beside other workers' tests every machine is a busy one.
FAST = ("--cache", "cold", "--size", "3G", "--no-rerun")


@pytest.fixture(autouse=True)
def _clean_machine(request: pytest.FixtureRequest) -> Iterator[None]:
    """After tests that use the machine; the others may run beside somebody's session."""
    yield
    if request.node.get_closest_marker("machine"):
        assert left_on_machine() == []


def planned(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the samples without reruns."""
    return [row for row in document["samples"] if row["rerun_of"] is None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "Makefile").write_text("hello: hello.c\n\t$(CC) -o $@ $<\n")
    (directory / "bad.sh").write_text("echo reason; exit 4\n")
    (directory / "hello.c").write_text("int main(void) { return 0; }\n")
    return directory


GROUPED = [
    *(f"{group} {command}" for group in ("image", "kernel") for command in ("build", "list", "rm")),
    "store setup", "store grant",
]  # fmt: skip


@pytest.mark.parametrize("command", ["", *COMMANDS, *GROUPED])
def test_help_has_examples(kit: Kit, command: str) -> None:
    done = kit(*command.split(), "--help")
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("compare nosuch", "unknown scenario 'nosuch'"),
        ("compare", "one scenario, or one command behind --"),
        ("compare smoke --arms layer:nosuch", "unknown driver 'nosuch'"),
        ("compare smoke --arms bare@nosuch", "unknown filesystem 'nosuch'"),
        ("compare smoke --arms nosuch", "unknown placement"),
        ("compare smoke --arms layer:rkt/overlay2", "unknown engine 'rkt'"),
        ("compare smoke --load nosuch", "unknown scenario 'nosuch'"),
        ("compare smoke --load-param a=b", "needs --load"),
        ("compare smoke --arms bare --fs-file /nosuch.toml", "/nosuch.toml: No such file"),
        ("compare smoke --param nosuch=1", "no parameter 'nosuch'"),
        ("compare smoke --param jobs", "not KEY=VALUE"),
        ("compare smoke --size lots", "not a size"),
        ("compare smoke --cpuset 3-1", "not a list of CPUs"),
        ("compare smoke --cpuset 0 --guest uml", "--cpuset does not reach into a guest"),
        ("compare smoke --copies 1,none", "not a whole number"),
        ("compare smoke --copies 0", "copies=0: not from 1 to"),
        ("compare smoke --load git --load-param copies=2", "a load runs once"),
        ("compare smoke --precision 2", "not a percentage"),
        ("compare smoke --precision 0%", "not a percentage"),
        ("compare smoke --budget soon", "not a time"),
        ("compare smoke --param jobs=1,1", "a value is given twice"),
        ("compare smoke --param jobs=1,many", "not a whole number"),
        ("compare smoke --arms bare+seccomp=unconfined", "takes +nosync and +control alone"),
        ("compare smoke --arms layer:overlay2+control=2", "leave out the value"),
        ("show last --explain --json", "exclude each other"),
        ("compare smoke --json /nonexistent/x.json", "can't be written"),
        ("compare smoke --store nosuch://x", "--store nosuch://x"),
        ("compare smoke --rounds 0", "not a number of rounds"),
        ("compare smoke --device /dev/null", "not a block device"),
        ("compare --resume nosuch", "no session 'nosuch'"),
        ("compare smoke --arms bare --reference bind:overlay2", "--reference bind:overlay2: no arm of this session"),
        ("compare smoke --source /tmp", "works with -- COMMAND and --command only"),
        ("compare --nosuch", "unknown option"),
        ("compare --", "no command after --"),
        ("show nosuch", "no session 'nosuch'"),
        ("compare smoke --wait-idle soon", "not a time"),
        ("compare --resume last --dry-run", "works with a new session only"),
        ("history smoke nosuch", "unknown placement"),
        ("history smoke bare --confirm 1", "not in the range"),
        ("completion tcsh", "'tcsh' is not one of"),
        ("serve --port 99999", "not in the range"),
        ("import nosuch.txt", "nosuch.txt: No such file"),
        ("image rm nosuch", "no cached image 'nosuch'"),
        ("kernel build nosuch", "unknown kernel recipe 'nosuch'"),
        ("kernel build aufs --for vax", "the kernel aufs is not for vax"),
        ("kernel rm nosuch", "no kernel nosuch is built"),
        ("scenarios nosuch", "unknown scenario"),
        ("nosuch", "unknown command"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(kit: Kit, words: str, says: str) -> None:
    done = kit(*words.split())
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_bad_scenario_file_names_file_line_and_key(kit: Kit, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nsummary = "x"\nimage = "smoke"\n[[phases]]\nname = "a"\nrum = ["true"]\n')
    done = kit("compare", path)
    assert done.returncode == 2
    assert f"{path}:6: phases[0].rum: unknown key" in done.stderr


def test_import_gives_the_published_ratios(kit: Kit, tmp_path: Path) -> None:
    figures = {
        "bare": "real\t29m59.190s\nuser\t278m0.988s\nsys\t59m47.379s\n",
        "devicemapper": "real\t32m21.074s\nuser\t281m53.994s\nsys\t68m45.554s\n",
        "aufs": "real\t37m14.612s\nuser\t259m19.226s\nsys\t85m50.269s\n",
    }
    for name, text in figures.items():
        (tmp_path / name).write_text(text)
    done = kit("import", *(f"{name}={tmp_path / name}" for name in figures), "--json", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    assert "+7.9 % (no interval)" in done.stdout and "+24.2 % (no interval)" in done.stdout
    document = json.loads((tmp_path / "out.json").read_text())
    real = {item["arm"]: item for item in document["comparisons"] if item["metric"] == "real"}
    assert round(real["devicemapper"]["ratio"], 3) == 1.079
    assert round(real["aufs"]["ratio"], 3) == 1.242
    assert real["aufs"]["low"] is None
    assert kit("show", document["session"]["id"]).stdout == done.stdout
    full = kit("show", document["session"]["id"], "--full").stdout
    assert "1.079" in full and "1.242" in full and "one run has no interval" in full
    listed = json.loads(kit("sessions", "--json").stdout)["sessions"]
    assert listed[0]["id"] == document["session"]["id"]


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_compare_a_command_end_to_end(kit: Kit, project: Path, tmp_path: Path) -> None:
    arms = "bare,runtime,layer:overlay2,layer:aufs"
    done = kit(
        "compare", "--image", "smoke", *FAST, "--arms", arms, "--rounds", "3", "--seed", "5", "--source", project,
        "--json", tmp_path / "r.json", "--csv", tmp_path / "r.csv", "--markdown", tmp_path / "r.md",
        "--", "make", "hello",
    )  # fmt: skip
    assert done.returncode == NOT_RUN, done.stderr
    assert done.stdout.count("\n") <= 30 and max(map(len, done.stdout.splitlines())) <= 100
    full = kit("show", "last", "--full").stdout
    assert "phase run" in full and "real time of the whole run" in full and "not run: layer:aufs" in full
    assert "Not run: layer:aufs (" in done.stdout and "fix:" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "[9/9" in done.stderr
    document = json.loads((tmp_path / "r.json").read_text())
    assert len(planned(document)) == 9
    for row in document["samples"]:
        assert row["status"] == "ok" and row["exit_code"] == 0
        for name in (
            "real",
            "user",
            "sys",
            "cgroup_user",
            "cgroup_sys",
            "flush",
            "flush_bytes",
            "max_rss",
        ):
            assert row[name] is not None, name
        assert row["real"] > 0 and row["cgroup_user"] > 0
        assert row["outside"] is not None or "no outside CPU" in document["session"]["facts"]
    real = [item for item in document["comparisons"] if item["metric"] == "real"]
    assert {item["arm"] for item in real} == {"runtime:overlay2", "layer:overlay2"}
    assert all(item["low"] < item["ratio"] < item["high"] and item["n"] == 3 for item in real)
    assert (tmp_path / "r.csv").read_text().count("\n") == len(document["samples"]) + 1
    assert "| arm" in (tmp_path / "r.md").read_text()
    shown = kit("show", "last")
    assert shown.stdout == done.stdout
    assert json.loads(kit("show", "last", "--json").stdout) == document


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_a_ladder_with_split_runtime_tax_swept_and_explained(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "count.toml"
    scenario.write_text(
        'name = "count"\nsummary = "count"\nimage = "smoke"\n[params.jobs]\ndefault = "1"\ntype = "int"\n'
        '[[phases]]\nname = "count"\nrun = ["sh", "-c", "ls -R /bin; '
        'i=0; while [ $i -lt {jobs}0000 ]; do i=$((i+1)); done"]\n'
        '[[phases]]\nname = "write"\nrun = ["sh", "-c", "for i in 1 2 3 4 5; do echo $i > file$i; done"]\n'
    )
    arms = "bare,runtime+cgroup=none+seccomp=unconfined,runtime+seccomp=unconfined,runtime,bind:overlay2,layer:overlay2"
    done = kit(
        "compare", scenario, "--image", tiny, "--arms", arms, "--param", "jobs=1,2", "--rounds", "2", "--control",
        *FAST, "--json", tmp_path / "out.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    assert {item["point"] for item in document["samples"]} == {"jobs=1", "jobs=2"}
    assert {item["arm"] for item in document["samples"]} >= {"bare+control", "layer:overlay2"}
    whole = [item for item in document["ladders"] if item["arm"] == "layer:overlay2" and item["cost"] == "real"]
    for ladder in whole:
        taxes = ["runtime tax: namespaces", "runtime tax: cgroup", "runtime tax: seccomp", "read tax", "write tax"]
        assert [step["name"] for step in ladder["steps"]] == [*taxes, "flush debt"]
        assert sum(step["seconds"]["estimate"] for step in ladder["steps"]) == pytest.approx(
            ladder["whole"]["seconds"]["estimate"], abs=1e-9
        )
    assert {item["parameter"] for item in document["growths"]} == {"jobs"}
    assert len(document["floors"]) == 2
    assert "jobs=1" in done.stdout and "jobs=2" in done.stdout
    full = kit("show", "last", "--full").stdout
    assert "total of 2 phases at jobs=1" in full and "noise floor at jobs=2" in full
    explained = kit("show", "last", "--explain")
    assert explained.returncode == 0
    assert "Confidence:" in explained.stdout and "the writable layer of overlay2" in explained.stdout


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
@pytest.mark.images("storage")
@pytest.mark.parametrize(
    ("scenario", "params", "rounds", "figures"),
    [
        ("fsync", ["count=20"], 2, {"cycles", "latency p99"}),
        ("allocate", ["bytes=20000000"], 1, {"fragments", "until synced", "fallocate by the filesystem"}),
        ("fio", ["job=JOB"], 1, {"read IOPS", "write bandwidth", "O_DIRECT accepted"}),
        ("bonnie", ["size=32m", "ram=16m", "files=1"], 1, {"write, per character", "rewrite"}),
    ],
)
def test_scenarios_that_report_figures_of_their_own(
    kit: Kit, tmp_path: Path, scenario: str, params: list[str], rounds: int, figures: set[str]
) -> None:
    job = tmp_path / "mine.job"
    job.write_text("[mine]\nrw=randrw\nioengine=libaio\ndirect=${DIRECT}\nsize=2m\n")
    words = [word for param in params for word in ("--param", param.replace("JOB", str(job)))]
    done = kit(
        "compare", scenario, *words, "--arms", "bare,bind:overlay2,layer:overlay2", "--rounds", str(rounds),
        *FAST, "--json", tmp_path / "out.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    said = {(item["arm"], figure["name"]) for item in document["samples"] for figure in item["reported"]}
    assert said >= {(arm, name) for arm in ("bare", "bind:overlay2", "layer:overlay2") for name in figures}
    assert {item["metric"] for item in document["comparisons"]} & figures
    assert "reported by phase" in kit("show", "last", "--full").stdout
    assert kit("show", "last").stdout == done.stdout


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_the_smoke_scenario_on_bind_and_volume(kit: Kit) -> None:
    done = kit(
        "compare", "smoke", *FAST, "--arms", "bind:overlay2,volume:overlay2", "--rounds", "1", "--json", "-", "-q"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["phase"] for row in document["samples"][:4]] == ["unpack", "configure", "build", "clean"]
    assert document["session"]["baselines"] == {"volume:overlay2": "bind:overlay2"}
    assert done.stderr == ""


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
@pytest.mark.images("kernel")
def test_a_kernel_subtree_is_really_built(kit: Kit) -> None:
    done = kit(
        "compare",
        "kernel:short",
        "--arms",
        "layer:btrfs",
        "--rounds",
        "1",
        *FAST,
        "--size",
        "4G",
        "--json",
        "-",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert {row["arm"] for row in document["samples"]} == {"bare@btrfs", "layer:btrfs"}
    log = Path(document["samples"][0]["log"]).read_text()
    assert "CC      init/main.o" in log and "AR      init/built-in.a" in log
    assert "CC      arch/x86/lib/delay.o" in log and "AR      arch/x86/lib/lib.a" in log


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_a_failing_build_shows_its_last_lines_and_exits_1(kit: Kit, tiny: Path, project: Path) -> None:
    words = ("compare", "--image", tiny, *FAST, "--arms", "bare,layer:overlay2", "--source", project)
    done = kit(*words, "--", "sh", "bad.sh")
    assert done.returncode == 1
    assert f": sh bad.sh, image {tiny}\n" in done.stderr
    assert "run failed with exit status 4" in done.stdout and "| reason" in done.stdout
    log = re.search(r"full log: (\S+)", done.stdout)
    assert log and "reason" in Path(log[1]).read_text()
    assert "the pilot run failed on bare and layer:overlay2; no arm is set up" in done.stderr
    assert "setting up" not in done.stderr and " cores, ext4: 0 rounds" in done.stdout
    done = kit(*words, "--interleave", "off", "--", "sh", "bad.sh")
    assert done.returncode == 1
    assert "measurement ended after 3 of 9 planned runs: every arm failed" in done.stderr  # the control's, too


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_a_full_filesystem_is_named(kit: Kit) -> None:
    words = ("--image", "smoke", "--cache", "cold", "--size", "600M", "--rounds", "1", "--arms", "bare")
    done = kit("compare", *words, "--", "dd", "if=/dev/zero", "of=big", "bs=1M")
    assert done.returncode == 1
    assert "the backing filesystem ext4 is full (0.6 GiB)" in done.stdout
    small = kit("compare", *words[:-2], "--arms", "layer:overlay2", "--", "true")
    assert small.returncode in (0, 1, 3) and "Traceback" not in small.stderr


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_fresh_rootfs_mkfs_mount_and_tmpfs(kit: Kit, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    probe = probe_binary(find_paths().cache)
    (root / "usr" / "bin" / "spin").write_bytes(probe.read_bytes())
    (root / "usr" / "bin" / "spin").chmod(0o755)
    done = kit(
        "compare", "--rootfs", root, "--fresh", "--cache", "cold", "--size", "1G", "--rounds", "1", "--json", "-",
        "--mkfs", "ext4=-O ^has_journal", "--mount", "ext4=noatime", "--arms", "bare,layer:overlay2,bare@tmpfs",
        "--", "spin", "spin",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert len(planned(document)) == 3
    assert "noatime" in document["session"]["facts"]["filesystem ext4"]


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_interrupt_keeps_samples_cleans_up_and_resumes(kit: Kit, tiny: Path) -> None:
    process, lines = start(tiny, "--rounds", "3", "--arms", "bare,layer:overlay2", "--seed", "9", "--", "sleep", "0.7")
    wait_for(process, lines, "[2/6]")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, process.stderr and process.stderr.read()
    assert left_on_machine() == []
    # As the store has it; it knows also of the guest, and what was not run.
    assert process.stdout
    assert re.search(r": \d (\w+ )?rounds?( in [\d.]+ s)?; interrupted ", " ".join(process.stdout.read().split()))
    shown = json.loads(kit("show", "last", "--json").stdout)
    assert shown["session"]["status"] == "interrupted" and len(shown["samples"]) >= 2
    done = kit("compare", "--resume", "last", "--json", "-")
    assert done.returncode == 0, done.stderr
    finished = json.loads(done.stdout)
    assert finished["session"]["id"] == shown["session"]["id"]
    assert finished["session"]["status"] == "done"
    kept = finished["samples"][: len(shown["samples"])]
    # Which of them a burst has hit is told at the end, among all.
    assert [{**row, "flags": ""} for row in kept] == [{**row, "flags": ""} for row in shown["samples"]]
    assert sorted((row["arm"], row["round"]) for row in planned(finished)) == [
        (arm, round_) for arm in ("bare", "layer:overlay2") for round_ in (1, 2, 3)
    ]


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_arms_that_were_being_made_ready(kit: Kit, tiny: Path, number: signal.Signals) -> None:
    """Several daemons have started by then, and two filesystems are being filled."""
    rootless = "layer:overlay2+userns=rootless,layer:podman/overlay+userns=rootless"
    arms = f"bare,layer:overlay2,layer:vfs,layer:btrfs,{rootless}"
    process, lines = start(tiny, "--rounds", "1", "--arms", arms, "--", "true")
    wait_for(process, lines, "setting up bare")
    process.send_signal(number)
    assert process.wait(60) == (130 if number == signal.SIGINT else -number)
    undone = kit("clean").stdout
    assert ("removed cgroup" in undone) if number == signal.SIGKILL else undone == "nothing to clean\n"
    assert left_on_machine() == []


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_sigkill_loses_the_run_in_flight_alone_and_clean_undoes_the_rest(kit: Kit, tiny: Path) -> None:
    process, lines = start(tiny, "--rounds", "2", "--arms", "bare,layer:overlay2,layer:btrfs", "--", "sleep", "0.7")
    wait_for(process, lines, "[2/8]")
    process.kill()
    process.wait()
    left = left_on_machine()  # what is mounted goes with the last process that sees it, perhaps at once
    assert any("cgroup" in item for item in left) and any(item.startswith("/run/kit/") for item in left)
    done = kit("clean")
    assert done.returncode == 0 and "removed cgroup" in done.stdout
    assert left_on_machine() == []
    assert kit("clean").stdout == "nothing to clean\n"
    resumed = kit("compare", "--resume", "last", "--json", "-")
    assert resumed.returncode == 0, resumed.stderr
    assert len(planned(json.loads(resumed.stdout))) == 8
    assert "2 done before" in resumed.stderr or "3 done before" in resumed.stderr


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_a_dockerd_that_dies_fails_its_runs_and_spares_the_others(kit: Kit, tiny: Path) -> None:
    process, lines = start(tiny, "--rounds", "2", "--arms", "bare,layer:overlay2", "--", "sleep", "0.7")
    wait_for(process, lines, "[1/4]")
    subprocess.run(["pkill", "-KILL", "-f", f"dockerd --config-file=/run/kit/{session_of(lines)}/"], check=True)
    assert process.wait(120) == 1
    document = json.loads(kit("show", "last", "--json").stdout)
    by_arm = {(row["arm"], row["round"]): row for row in document["samples"]}
    assert by_arm["bare", 2]["status"] == "ok"
    assert by_arm["layer:overlay2", 2]["status"] == "failed"
    assert "dockerd died: killed by signal 9" in by_arm["layer:overlay2", 2]["error"]


@pytest.mark.machine
def test_a_second_session_refuses_by_name_or_waits_and_a_budget_ends_the_first(kit: Kit, tiny: Path) -> None:
    """Alone on the machine: who waits holds a lock that all workers share. The first's budget lasts for a round also
    where the machine comes to rest late."""
    process, lines = start(tiny, "--rounds", "1", "--budget", "12s", "--arms", "bare", "--", "sleep", "3")
    wait_for(process, lines, "setting up bare")
    name = session_of(lines)
    second = kit("compare", "--image", tiny, *FAST, "--arms", "bare", "--", "true")
    assert second.returncode == 4
    assert f"session {name} (process {process.pid}" in second.stderr and "--wait" in second.stderr
    third = kit("compare", "--image", tiny, *FAST, "--arms", "bare", "--rounds", "1", "--wait", "--", "true")
    assert third.returncode == 0 and f"waiting for session {name}" in third.stderr
    assert process.wait(60) == 0
    facts = json.loads(kit("show", name, "--json").stdout)["session"]["facts"]
    assert re.fullmatch(r"the budget (is too short for round \d|is over)", facts["stopped"])


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_a_device_that_holds_something_is_refused(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(1 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    device = subprocess.run(
        ["losetup", "-f", "--show", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        words = (
            "compare",
            "--image",
            tiny,
            "--cache",
            "cold",
            "--rounds",
            "1",
            "--arms",
            "bare@xfs",
            "--device",
            device,
        )
        refused = kit(*words, "--", "true")
        assert refused.returncode == 2 and f"{device} is not empty: it holds ext4" in refused.stderr
        done = kit(*words, "--wipe", device, "--json", "-", "--", "true")
        assert done.returncode == 0, done.stderr
        assert "xfs on device" in json.loads(done.stdout)["session"]["facts"]["filesystem xfs"]
        still = kit(*words, "--", "true")
        assert still.returncode == 2 and "holds xfs" in still.stderr
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_doctor_tries_everything_or_the_named_arms(kit: Kit) -> None:
    done = kit("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = {(item["kind"], item["name"]): item for item in check_document("doctor", done.stdout)["diagnoses"]}
    for name in ("ext4", "xfs", "btrfs", "tmpfs"):
        assert found["filesystem", name]["works"], found["filesystem", name]
    for name in ("overlay2", "btrfs", "vfs", "fuse-overlayfs"):
        assert found["driver", f"docker/{name}"]["works"], found["driver", f"docker/{name}"]
    for name in ("overlayfs", "native", "btrfs"):
        assert found["driver", f"containerd/{name}"]["works"], found["driver", f"containerd/{name}"]
    for name in ("uml", "qemu", "--kernel PATH", "kernel aufs"):  # the routes to what this kernel lacks
        assert "runs " in found["guest", name]["reason"]
    for name in ("bare", "runtime", "bind", "volume", "layer", "tmpfs", "build", "host"):
        assert found["placement", name]["works"], found["placement", name]
    assert {name for kind, name in found if kind == "tracing"} == {"calls", "functions", "cycles"}
    for item in found.values():
        assert item["reason"] and (item["works"] or item["fix"])
        assert "kit doctor" not in item["fix"]
    _check_named_arms(kit)


def _check_named_arms(kit: Kit) -> None:
    """In the same test: two at once, each with a lock of its own, would meet in one cgroup."""
    done = kit("doctor", "bare,layer:overlay2", "layer:aufs", "--wait", "--json")
    assert done.returncode == 3, done.stderr
    named = check_document("doctor", done.stdout)["diagnoses"]
    assert [(item["name"], item["works"]) for item in named] == [
        ("bare", True),
        ("layer:overlay2", True),
        ("layer:aufs", False),
    ]
    assert named[2]["reason"] and named[2]["fix"]
    works = kit("doctor", "bare", "--wait")
    assert works.returncode == 0 and works.stdout.startswith("all arms work\n"), works.stderr


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_pure_cgroup_v2_works_as_the_hybrid_does(tiny: Path) -> None:
    """In a mount namespace whose only cgroup mount is v2, as on a user's machine."""
    words = ["compare", "--image", str(tiny), *FAST, "--rounds", "1", "--arms", "bare,layer:overlay2", "--json", "-"]
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    mount = 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'
    private = ["unshare", "-m", "--propagation", "private", "sh", "-ec", mount, "sh"]
    done = subprocess.run(
        [*private, sys.executable, "-m", "kit", *words, "--", "sh", "-c", burn],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["session"]["facts"]["cgroups"] == "v2"
    for row in document["samples"]:
        assert row["cgroup_user"] + row["cgroup_sys"] == pytest.approx(row["user"] + row["sys"], abs=0.1)
        assert row["outside"] is not None or "no outside CPU" in document["session"]["facts"]


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_images_are_reproducible_listed_and_removed(kit: Kit, tmp_path: Path) -> None:
    def own(*words: str) -> str:
        """In a cache of its own: others need the image that is removed here."""
        done = kit("image", *words, KIT_HOME=str(tmp_path))
        assert done.returncode == 0, done.stderr
        return done.stdout

    made = kit("image", "build", "smoke")
    assert made.returncode == 0, made.stderr
    first = made.stdout.split()[1]
    there = next((find_paths().cache / "images").glob("smoke-*"))
    shutil.copytree(there, tmp_path / "cache/images" / there.name)
    before = json.loads(own("list", "--json"))["images"]
    own("build", "--force", "smoke")
    after = json.loads(own("list", "--json"))["images"]
    assert after[0]["digest"] == before[0]["digest"] == first and after[0]["created"] > before[0]["created"]
    assert first[:12] in own("list")
    own("rm", first[:12])
    assert first[:12] not in own("list") and "not built" in own("list")


def start(image: Path, *words: str) -> tuple[subprocess.Popen[str], list[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "kit", "compare", "--image", image, *FAST, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, []


def session_of(lines: list[str]) -> str:
    return next(line.split()[1].rstrip(":") for line in lines if line.startswith("session "))


def wait_for(process: subprocess.Popen[str], lines: list[str], text: str) -> None:
    """Read its progress until the text comes."""
    assert process.stderr
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        line = process.stderr.readline()
        if not line:
            break
        lines.append(line)
        if text in line:
            return
    pytest.fail(f"no '{text}' in:\n{''.join(lines)}")


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
@needs("docker-registry")
def test_no_registry_is_left_of_a_killed_session(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    scenario = tmp_path / "served.toml"
    scenario.write_text(
        'name = "served"\nsummary = "x"\nimage = "smoke"\nregistry = "images"\n'
        '[inputs.images]\nsource = "{here}/served"\ninto = "directory"\n'
        '[[phases]]\nname = "wait"\nrun = ["sh", "-c", "echo {registry}; sleep 100"]\n'
    )
    process, _ = start(tiny, str(scenario), "--arms", "bare", "--rounds", "1")
    wait_until(lambda: any("docker-registry serve" in item for item in left_on_machine()), process=process)
    process.kill()
    process.wait()
    wait_until(lambda: not any("docker-registry" in item for item in left_on_machine()))  # it dies with the kit
    assert "removed cgroup" in kit("clean").stdout
    assert left_on_machine() == []


def test_a_dry_run_says_what_would_be_run_and_leaves_nothing(kit: Kit, tmp_path: Path) -> None:
    words = ("kernel:short", "--param", "jobs=1,2", "--arms", "layer:overlay2@xfs", "--precision", "2%", "--dry-run")
    done = kit("compare", *words, KIT_HOME=str(tmp_path / "home"))
    assert done.returncode == 0
    assert "kernel:short at jobs=2: unpack, configure, build, clean" in done.stdout
    assert "layer:overlay2@xfs, vs bare@xfs" in done.stdout and "at least 6 rounds, 36 runs" in done.stdout
    assert not (tmp_path / "home").exists()
