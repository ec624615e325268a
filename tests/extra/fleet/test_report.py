"""What kit fleet status shows."""

from dataclasses import replace

from kit.extra.fleet.report.machines import render_members, view_members
from kit.model.drivers import Docker
from kit.model.machine import Member, MemberStatus, Progress, ShareStatus

ONE = Member(
    name="b1", kind="Xeon Gold 6240 ×36, 192 GiB, Linux 6.8.0", kit_version="0.6.0", probe="p", kernel="6.8.0", cpu="c",
    cores=36, memory=192 << 30, virtualization="none", root=True, machine="m", drivers=("docker/overlay2",),
    filesystems=("ext4",), docker=Docker("29.1.0"),
)  # fmt: skip
TWO = replace(ONE, name="b2", machine="n", drivers=None, filesystems=None, together=True, docker=Docker())


FOUND = [
    MemberStatus(ONE, (ShareStatus("kernel:short 2026-a 1", Progress(3, 12, 190.0)),)),
    MemberStatus(TWO, (ShareStatus("kernel:short 2026-a 2", None),)),
    MemberStatus(replace(TWO, name="b3", machine="o", kind="other")),
]


def test_each_machine_says_what_it_can_do_what_runs_there_and_how_long_still() -> None:
    text = render_members(FOUND)
    assert text.startswith("3 machines of 2 classes, 2 at work\n")
    assert "kernel:short 2026-a\n" in text and "3 of 12 runs, 3 min 10 s left" in text
    assert "sets up" in text and "idle" in text
    assert "root, 1 driver, 1 filesystem" in text and "Docker 29.1.0" in text and "not checked" in text
    assert "class A: Xeon Gold 6240 ×36, 192 GiB, Linux 6.8.0; 2 machines" in text
    assert "b2, b3: separate locks" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_machine_with_two_workers_counts_once() -> None:
    text = render_members([FOUND[0], MemberStatus(replace(ONE, name="b4"))])
    assert text.startswith("1 machine (2 workers) of 1 class, 1 at work\n")
    assert "GiB, Linux 6.8.0; 1 machine (2 workers)\n" in text
    assert "b1, b4: workers of one machine, which counts once\n" in text


def test_machines_that_can_do_the_same_share_a_row() -> None:
    assert view_members(FOUND).abilities == [
        ("b1", "36", "192 GiB", "6.8.0", "29.1.0, overlayfs", "docker/overlay2", "ext4"),
        ("b2, b3", "36", "192 GiB", "6.8.0", "none", "not checked", "not checked"),
    ]


def test_a_fleet_without_machines_says_how_to_bring_one() -> None:
    assert "kit fleet worker SCHEDULER" in render_members([])
