import pytest

from kit.core.errors import UsageError
from kit.model.arm import parse_arm, parse_arms
from kit.model.drivers import Docker, graph_drivers
from kit.model.options import SessionOptions
from kit.model.plan import default_arms, make_plan, reference_of, with_baselines


def names(text: str, named: str = "") -> tuple[list[str], dict[str, str]]:
    arms, pairs = with_baselines(parse_arms(text), parse_arm(named) if named else None)
    return list(map(str, arms)), dict(pairs)


def test_baseline_is_bare_on_the_same_filesystem_and_added_where_missing() -> None:
    arms, pairs = names("bare,layer:overlay2,layer:btrfs,bind:overlay2@xfs")
    assert arms == ["bare", "layer:overlay2", "bare@btrfs", "layer:btrfs", "bare@xfs", "bind:overlay2@xfs"]
    assert pairs == {"layer:overlay2": "bare", "layer:btrfs": "bare@btrfs", "bind:overlay2@xfs": "bare@xfs"}


def test_without_bare_the_first_arm_of_the_filesystem_is_the_baseline() -> None:
    arms, pairs = names("bind:overlay2,layer:overlay2,layer:vfs")
    assert arms == ["bind:overlay2", "layer:overlay2", "layer:vfs"]
    assert pairs == {"layer:overlay2": "bind:overlay2", "layer:vfs": "bind:overlay2"}


def test_a_named_baseline_serves_all_filesystems() -> None:
    arms, pairs = names("layer:overlay2,layer:btrfs", "layer:overlay2")
    assert arms == ["layer:overlay2", "layer:btrfs"]
    assert pairs == {"layer:btrfs": "layer:overlay2"}


def test_arms_that_differ_in_the_filesystem_alone_are_compared_with_the_first() -> None:
    assert names("bare,bare@tmpfs,bare@xfs")[1] == {"bare@tmpfs": "bare", "bare@xfs": "bare"}
    assert names("layer:overlay2@xfs,layer:overlay2")[1] == {"layer:overlay2": "layer:overlay2@xfs"}
    assert names("bare,bare@xfs,layer:overlay2")[1] == {"layer:overlay2": "bare"}


def test_host_is_compared_with_bare_where_there_is_one() -> None:
    assert names("host,bare")[1] == {"host": "bare"}
    assert names("host,layer:overlay2")[1] == {"layer:overlay2": "host"}


def test_default_arms_are_the_ladder_and_every_driver() -> None:
    arms = [str(arm) for arm in default_arms("docker", Docker(), "cold")]
    assert arms[:5] == ["bare", "runtime:overlay2", "bind:overlay2", "volume:overlay2", "layer:overlay2"]
    assert arms[5:] == [f"layer:{driver.name}" for driver in graph_drivers() if driver.name != "overlay2"]
    warm = [str(arm) for arm in default_arms("docker", Docker(), "warm")]
    assert warm == [arm for arm in arms if arm != "layer:vfs"]
    system = [str(arm) for arm in default_arms("system", Docker(), "cold", "overlay2")]
    assert system == ["host@dir", "bind:system/overlay2", "volume:system/overlay2", "layer:system/overlay2"]


LADDER = ("runtime", "bind", "volume", "layer")


def test_default_arms_follow_the_docker_that_would_run() -> None:
    def arms(docker: Docker, engine: str = "docker") -> list[str]:
        return [str(arm) for arm in default_arms(engine, docker, "cold")]

    new, old = arms(Docker("29.1.0")), arms(Docker("28.5.2"))
    assert new[:6] == ["bare", *(f"{placement}:overlayfs" for placement in LADDER), "layer:overlay2"]
    assert old[:6] == ["bare", *(f"{placement}:overlay2" for placement in LADDER), "layer:overlayfs"]
    assert sorted(new[5:]) == sorted({*old[5:], "layer:overlay2"} - {"layer:overlayfs"})
    assert not [arm for arm in arms(Docker("20.10.24+dfsg1")) if "overlayfs" in arm.replace("fuse-overlayfs", "")]
    assert arms(Docker("20.10"), "docker@29") == [arm.replace(":", ":docker@29/") for arm in new]


@pytest.mark.parametrize(
    ("arms", "old", "new"),
    [
        ("bare,layer:overlay2,layer:overlayfs", "layer:overlay2", "layer:overlayfs"),
        ("bare,layer:overlayfs,layer:overlay2,layer:btrfs", "layer:overlay2", "layer:overlayfs"),
        ("bare,layer:btrfs,layer:overlay2", "layer:overlay2", "layer:overlay2"),
        ("layer:podman/overlay,layer:overlay2", "layer:overlay2", "layer:overlay2"),
        (
            "layer:docker@29/overlay2,layer:docker@29/overlayfs",
            "layer:docker@29/overlayfs",
            "layer:docker@29/overlayfs",
        ),
        ("layer:docker@28/overlayfs,layer:docker@28/overlay2", "layer:docker@28/overlay2", "layer:docker@28/overlay2"),
        ("layer:docker@28/overlayfs,layer:btrfs", "layer:docker@28/overlayfs", "layer:docker@28/overlayfs"),
        ("layer:docker@29/overlayfs,layer:overlay2", "layer:overlay2", "layer:overlay2"),
        ("layer:containerd/overlayfs,layer:podman/overlay", "layer:podman/overlay", "layer:podman/overlay"),
        (
            "layer:containerd/native,layer:containerd/overlayfs",
            "layer:containerd/overlayfs",
            "layer:containerd/overlayfs",
        ),
        ("host@dir,bind:system/btrfs,layer:system/btrfs", "layer:system/btrfs", "layer:system/btrfs"),
        ("bare,layer:btrfs,layer:vfs", "", ""),
        ("bare,layer:overlay2@xfs,layer:overlay2+cpus=1,bind:overlay2", "", ""),
    ],
)
def test_the_reference_is_the_default_driver_of_an_engine(arms: str, old: str, new: str) -> None:
    for docker, expected in ((Docker(), old), (Docker("28.5"), old), (Docker("29.8"), new)):
        assert reference_of(parse_arms(arms), docker) == expected


def test_rounds_are_complete_random_and_the_same_for_the_same_seed() -> None:
    arms = parse_arms("bare,runtime,bind:overlay2,layer:overlay2")
    plan = make_plan(arms, SessionOptions(rounds=3, seed=11))
    rounds = [plan.round(number) for number in range(6)]
    for number, round_ in enumerate(rounds):
        assert sorted(step.arm for step in round_) == sorted(arms)
        assert {(step.round, step.kind) for step in round_} == {(number, "measured" if number else "warmup")}
    assert len({tuple(step.arm for step in round_) for round_ in rounds}) > 1
    assert rounds == [make_plan(arms, SessionOptions(rounds=3, seed=11)).round(number) for number in range(6)]
    assert rounds != [make_plan(arms, SessionOptions(rounds=3, seed=12)).round(number) for number in range(6)]
    # The order is part of a stored session: it must not change with the version of Python or of the kit.
    assert [step.arm.placement for step in rounds[1]] == ["bare", "runtime", "bind", "layer"]


def test_a_round_holds_every_point_of_a_sweep() -> None:
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=3, seed=1), points=("jobs=1", "jobs=2"))
    found = {(str(step.arm), step.point) for step in plan.round(1)}
    assert found == {(arm, point) for arm in ("bare", "layer:overlay2") for point in ("jobs=1", "jobs=2")}


def test_the_control_is_a_copy_of_the_commonest_baseline_from_four_rounds_on() -> None:
    arms = parse_arms("bare,layer:overlay2,layer:vfs,layer:btrfs")
    assert not any(arm.control for arm in make_plan(arms, SessionOptions(rounds=3, seed=1)).arms)
    plan = make_plan(arms, SessionOptions(rounds=4, seed=1))
    assert [str(arm) for arm in plan.arms if arm.control] == ["bare+control"]
    assert plan.baselines[0] == ("bare+control", "bare")
    assert not any(arm.control for arm in make_plan(arms, SessionOptions(rounds=9, seed=1, control=False)).arms)
    assert any(arm.control for arm in make_plan(arms, SessionOptions(rounds=1, seed=1, control=True)).arms)
    named = make_plan(arms, SessionOptions(rounds=4, seed=1, baseline="layer:vfs"))
    assert named.baselines[0] == ("layer:vfs+control", "layer:vfs")
    assert any(arm.control for arm in make_plan(arms, SessionOptions(rounds=3, seed=1, budget=60.0)).arms)
    asked = make_plan(parse_arms("bare,bare+control,layer:overlay2"), SessionOptions(rounds=4, seed=1))
    assert dict(asked.baselines) == {"bare+control": "bare", "layer:overlay2": "bare"}


def test_bad_plans() -> None:
    with pytest.raises(UsageError, match="--rounds -1"):
        make_plan(parse_arms("bare"), SessionOptions(rounds=-1, seed=1))
    with pytest.raises(UsageError, match="--cache hot"):
        make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=1, cache="hot"))
