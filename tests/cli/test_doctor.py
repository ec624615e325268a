"""``kit doctor ARM…``: the answer first, and an exit code that says whether the arms work."""

from __future__ import annotations

import pytest

from kit.cli.doctor import _shown, arms_exit_code, describe_arms
from kit.core.exit_code import DONE, NOT_RUN
from kit.session.trial import Diagnosis
from tests.command_line import in_fork as kit

WORKS = Diagnosis("arm", "bare", True, "a command ran on ext4")
MISSING = Diagnosis("arm", "layer:aufs", False, "this kernel has no aufs", "use a guest")


def test_an_arm_that_cannot_run_comes_first_with_its_fix() -> None:
    assert describe_arms((WORKS, MISSING)).splitlines() == [
        "cannot run here: layer:aufs",
        "",
        "works    bare        a command ran on ext4",
        "not run  layer:aufs  this kernel has no aufs",
        "                     fix: use a guest",
    ]
    assert describe_arms((WORKS,)).splitlines()[0] == "all arms work"


def test_what_many_lack_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    lacking = [Diagnosis("filesystem", name, False, "needs root", "run as root") for name in ("ext4", "xfs")]
    other = [Diagnosis("driver", "docker/overlay2", False, "needs root", "run as root")]
    works = [Diagnosis("driver", name, True, "a command ran") for name in ("podman/vfs", "podman/overlay")]
    listed = [*lacking, *other, *works]
    assert _shown(iter(listed), quiet=False) == listed
    assert capsys.readouterr().out.splitlines() == [
        "filesystem",
        "  no     ext4                      needs root",
        "                                   fix: run as root",
        "  no     xfs                       as above",
        "",
        "driver",
        "  no     docker/overlay2           needs root",
        "                                   fix: run as root",
        "  works  podman/vfs                a command ran",
        "  works  podman/overlay            a command ran",
    ]


def test_the_exit_code_is_of_these_arms() -> None:
    assert (arms_exit_code((WORKS,)), arms_exit_code((WORKS, MISSING))) == (DONE, NOT_RUN)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("layer:nosuch",), "unknown driver 'nosuch'"),
        (("bare", "layer:docker@99/overlay2"), "unknown version docker@99"),
        (("layer:docker@29/aufs",), "arm 'layer:docker@29/aufs': "),
        (("bare@nosuch",), "unknown filesystem 'nosuch'"),
        (("bare,bare",), "arm 'bare' is named twice"),
    ],
)
def test_an_arm_that_does_not_exist_is_refused_before_anything_is_tried(words: tuple[str, ...], said: str) -> None:
    done = kit("doctor", *words)
    assert done.returncode == 2 and said in done.stderr and not done.stdout
