"""What can be known of a plan is checked before the machine is held, by one function that all ways in share."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kit.analysis.session.threshold import parse_threshold
from kit.core.errors import KitError, UsageError
from kit.core.paths import find_paths
from kit.extra.history.analysis.night import Task
from kit.extra.history.nightly.job import Job
from kit.extra.history.nightly.run import run_night
from kit.fleet.address import Address
from kit.fleet.client.run import FleetContext, run_each, run_split
from kit.host.lock import machine_lock
from kit.model.machine import Selection
from kit.model.session import Request, Session
from kit.report.text.progress import Quiet
from kit.session.plan.check import check_request
from tests.command_line import Kit
from tests.image_archives import tarball
from tests.needs import needs
from tests.repository import make_repository
from tests.stores import new_store

SCENARIO = """
name = "mine"
summary = "Two phases"
image = "IMAGE"
[params.source]
default = "./project"
[inputs.src]
source = "{source}"
[[phases]]
name = "unpack"
run = ["true"]
[[phases]]
name = "build"
run = ["true"]
"""
ARMS = ("bare", "layer:overlay2")
OPTIONS = ("--arms", ",".join(ARMS), "--", "make")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with good and bad sources and images, which is the current one."""
    work = tmp_path / "work"
    work.mkdir()
    make_repository(work / "project")
    archive = tarball({"bin/true": b"x"})
    for name, data in {
        "root.tar": archive,
        "root.tar.gz": gzip.compress(archive),
        "text.tar": b"text",
        "image.toml": b'suite = "trixie"\n',
        "mine.toml": SCENARIO.replace("IMAGE", "smoke").encode(),
        "odd.toml": SCENARIO.replace("IMAGE", "nosuch").encode(),
    }.items():
        (work / name).write_bytes(data)
    (work / "tools").mkdir()
    (work / "root/bin").mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "missing"}, "source 'missing': no such file or directory"),
        ({"source": "image.toml"}, "image.toml' is a file, not a directory or a tarball"),
        ({"source": "text.tar"}, "text.tar is not an archive"),
        ({"source": "deb:"}, "source 'deb:' is not deb:PACKAGE#SUITE"),
        ({"source": "deb:Two Words#bookworm"}, "is not deb:PACKAGE#SUITE"),
        ({"source": "deb:bash#"}, "is not deb:PACKAGE#SUITE"),
        ({"source": "git:"}, "source 'git:' is not git:URL#BRANCH"),
        ({"source": "git:nosuch#main"}, "is not git:URL#BRANCH"),
        ({"source": "git:https://#main"}, "is not git:URL#BRANCH"),
        ({"source": "git:./nosuch#main"}, "source 'git:.*nosuch#main': no such directory"),
        ({"source": "git:./project#nosuch"}, "project has no branch or tag 'nosuch'"),
        ({"source": f"git:./project#{'0' * 40}"}, "source 0{40}: no such revision in .*project"),
        ({"source": "git:./tools#main"}, "source 'git:.*tools#main': not a Git repository"),
        ({"image": "nosuch"}, "unknown image 'nosuch'"),
        ({"image": "Debian:12"}, "unknown image 'Debian:12'"),
        ({"image": "image.toml"}, "image.toml is not an archive"),
        ({"image": "./text.tar"}, "text.tar is not an archive"),
        ({"image": "missing.tar"}, "no image file missing.tar"),
        ({"image": "tools"}, "tools is a directory without oci-layout"),
        ({"rootfs": "tools"}, "tools is not a root filesystem"),
        ({"rootfs": "missing"}, "missing is not a root filesystem"),
        ({"docker": "missing"}, "--docker .*missing: no such file or directory"),
        ({"device": "/dev/missing"}, "/dev/missing"),
        ({"guest": "qemu", "directory": "/srv"}, "a guest has disks and engines of its own"),
        ({"guest": "qemu", "modules": "missing"}, "--modules .*missing: no such directory"),
    ],
)  # fmt: skip
@needs("git")
def test_what_is_wrong_with_a_request_is_said_with_a_fix(work: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(KitError, match=message) as caught:
        check_request(Request(command=("make",), arms=ARMS, **options))  # type: ignore[arg-type]
    assert caught.value.hint and caught.value.exit_code == 2


@pytest.mark.parametrize(
    "options",
    [
        {"source": "project"}, {"source": "root.tar"}, {"source": "root.tar.gz"}, {"source": "git:project#v1"},
        {"source": "git:https://example.org/x.git#main"}, {"source": "git:user@example.org:x.git"},
        {"source": "git:ssh://user@example.org:22/x#v1"}, {"source": "deb:bash#bookworm"}, {"image": "smoke"},
        {"image": "root.tar"}, {"image": "./root.tar.gz"}, {"image": "debian:12"},
        {"image": "docker.io/library/debian"}, {"image": "r.example.org:5000/team/x:1"},
        {"image": f"debian@sha256:{'0' * 64}"},
        {"image": "localhost:5000/x_y/z.a--b:V1.0"}, {"rootfs": "root"},
    ],
    ids=str,
)  # fmt: skip
@needs("git")
def test_what_is_right_passes(work: Path, options: dict[str, str]) -> None:
    prepared = check_request(Request(command=("make",), arms=ARMS, **options))  # type: ignore[arg-type]
    assert prepared.scenario.phases[0].name == "run"


def test_an_unknown_image_names_the_recipes_and_how_a_registrys_is_written(work: Path) -> None:
    with pytest.raises(UsageError) as caught:
        check_request(Request(command=("make",), arms=ARMS, image="alpine"))
    assert "as alpine:latest" in caught.value.hint and "a recipe: aufs, " in caught.value.hint


@needs("git")
def test_a_scenarios_sources_and_image_are_checked_too(work: Path) -> None:
    check_request(Request("mine.toml", arms=ARMS))
    with pytest.raises(UsageError, match=r"source '.*nosuch': no such file"):
        check_request(Request("mine.toml", arms=ARMS, params=(("source", "project,./nosuch"),)))
    with pytest.raises(UsageError, match="unknown image 'nosuch'"):
        check_request(Request("odd.toml", arms=ARMS))


@needs("git")
@pytest.mark.parametrize(
    ("scenario", "text", "message"),
    [
        ("", "layer:overlay2 build < 10 %", "make has no phase 'build'"),
        ("", "layer:overlay2 total < 10 %", "make has no phase 'total'"),
        ("mine.toml", "layer:overlay2 link < 10 %", "mine has no phase 'link'"),
        ("mine.toml", "layer:btrfs < 10 %", "its arm is not measured"),
    ],
)
def test_a_threshold_limits_what_is_measured(work: Path, scenario: str, text: str, message: str) -> None:
    request = Request(scenario, command=() if scenario else ("make",), arms=ARMS)
    good = [
        "layer:overlay2 < 10 %",
        *(["layer:overlay2 build < 5 %", "layer:overlay2 total < 5 %"] if scenario else []),
    ]
    check_request(request, map(parse_threshold, good))
    with pytest.raises(UsageError, match=message) as caught:
        check_request(request, [parse_threshold(text)])
    assert "use one of: " in caught.value.hint


def test_files_of_a_fleets_machines_are_not_looked_for_here(work: Path) -> None:
    check_request(Request(command=("make",), arms=ARMS, source="/srv/there", image="/srv/there.tar"), here=False)
    for options in ({"source": "deb:"}, {"source": "git:x y"}, {"image": "nosuch"}):
        with pytest.raises(UsageError):
            check_request(Request(command=("make",), arms=ARMS, **options), here=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [("--source", "missing"), ("--image", "nosuch"), ("--image", "image.toml")])
def test_a_dry_run_fails_where_the_session_would(work: Path, kit: Kit, words: tuple[str, ...]) -> None:
    done = kit("compare", "--dry-run", *words, *OPTIONS)
    assert (done.returncode, done.stdout) == (2, "") and "fix: " in done.stderr


def test_a_dry_run_and_the_help_name_the_image_of_a_command(work: Path, kit: Kit) -> None:
    assert "\n  image kernel\n" in kit("compare", "--dry-run", *OPTIONS).stdout
    assert "\n  image debian:12\n" in kit("compare", "--dry-run", "--image", "debian:12", *OPTIONS).stdout
    assert "\n  image smoke\n" in kit("compare", "--dry-run", "mine.toml", "--arms", "bare").stdout
    assert "no image: " in kit("compare", "--dry-run", "--arms", "host@dir", "--", "make").stdout
    assert "of COMMAND the recipe kernel]" in " ".join(kit("compare", "--help").stdout.split())


def test_what_is_wrong_is_said_before_the_wait_for_the_machine(
    work: Path, kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "run"
    held.mkdir()
    monkeypatch.setattr("kit.core.paths._LOCK", held)
    with machine_lock(held, "first"):
        done = kit("compare", "--wait", "--source", "missing", *OPTIONS, timeout=60)
    assert done.returncode == 2 and "source 'missing'" in done.stderr and "waiting" not in done.stderr


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ('source = "missing"', "night.toml: task 1: source 'missing'"),
        ('image = "nosuch"', "night.toml: task 1: unknown image 'nosuch'"),
        (
            'thresholds = ["layer:overlay2 build < 10 %"]',
            "night.toml: task 1: threshold 'layer:overlay2 build < 10 %': make has no",
        ),
    ],
)
def test_a_nights_check_fails_where_its_task_would(work: Path, kit: Kit, task: str, message: str) -> None:
    (work / "night.toml").write_text(f'[[tasks]]\ncommand = ["make"]\narms = ["bare", "layer:overlay2"]\n{task}\n')
    done = kit("nightly", "night.toml", "--check")
    assert done.returncode == 2 and message in done.stderr and "fix: " in done.stderr


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgres://nope", "the kit keeps no store in postgres"),
        ("sqlite:///missing/kit.db", "missing is missing or not writable"),
        ("sqlite:///image.toml", "image.toml: file is not a database"),
        ("nonsense", "not the URL of a database"),
    ],
)
def test_a_nights_check_and_a_dry_run_check_the_store(work: Path, kit: Kit, url: str, message: str) -> None:
    (work / "night.toml").write_text('[[tasks]]\ncommand = ["make"]\narms = ["bare", "layer:overlay2"]\n')
    for words in (("nightly", "night.toml", "--check"), ("compare", "--dry-run", *OPTIONS)):
        done = kit(*words, KIT_STORE=url)
        assert done.returncode == 2 and message in done.stderr and "fix: " in done.stderr


def test_a_nights_check_names_its_store_and_makes_nothing(work: Path, kit: Kit) -> None:
    (work / "kit.toml").write_text('store = "sqlite:///settings.db"\n')
    (work / "night.toml").write_text('output = "reports"\n[[tasks]]\ncommand = ["make"]\narms = ["bare"]\n')
    before = sorted(work.rglob("*"))
    assert "store: sqlite:///settings.db; reports: reports" in kit("nightly", "night.toml", "--check").stdout
    assert (
        "store: sqlite:///other.db;" in kit("nightly", "night.toml", "--check", KIT_STORE="sqlite:///other.db").stdout
    )
    assert sorted(work.rglob("*")) == before
    done = kit("nightly", "night.toml", "--check", "--output", "image.toml/reports")
    assert done.returncode == 2 and "image.toml is not a directory that you may write to" in done.stderr


def test_a_task_with_a_wrong_limit_is_not_measured(work: Path, tmp_path: Path) -> None:
    def measure(request: Request) -> Session:
        raise AssertionError(f"measured: {request}")

    limit = parse_threshold("layer:overlay2 build < 10 %")
    job = Job("night", (Task(Request(command=("make",), arms=ARMS), (limit,)),))
    found = run_night(job, find_paths(), new_store(tmp_path / "kit.db"), Quiet(), measure)
    assert "make has no phase 'build'" in found.parts[0].error


def test_a_fleets_client_checks_before_it_connects(work: Path, tmp_path: Path) -> None:
    nowhere = FleetContext(Address("127.0.0.1", 1), Selection(), find_paths(), new_store(tmp_path / "kit.db"), Quiet())
    for run in (run_each, run_split):
        with pytest.raises(UsageError, match="unknown image 'nosuch'"):
            run(Request(command=("make",), arms=ARMS, image="nosuch"), nowhere)


def test_pytest_refuses_at_collection(pytester: pytest.Pytester, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    done = pytester.runpytest_inprocess("-p", "kit.extra.pytest_plugin", "--kit-arms", "bare", "odd.toml")
    done.stdout.fnmatch_lines(["unknown image 'nosuch'"])
    assert done.ret == pytest.ExitCode.INTERRUPTED
