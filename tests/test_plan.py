import pytest

from kit.arm import DRIVER_FILESYSTEM, parse_arm, parse_arms
from kit.errors import UsageError
from kit.plan import default_arms, make_plan, with_baselines


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


def test_host_is_compared_with_bare_where_there_is_one() -> None:
    assert names("host,bare")[1] == {"host": "bare"}
    assert names("host,layer:overlay2")[1] == {"layer:overlay2": "host"}


def test_default_arms_are_the_ladder_and_every_driver() -> None:
    arms = [str(arm) for arm in default_arms()]
    assert arms[:5] == ["bare", "runtime:overlay2", "bind:overlay2", "volume:overlay2", "layer:overlay2"]
    assert {arm.driver for arm in default_arms() if arm.placement == "layer"} == set(DRIVER_FILESYSTEM)
    system = [str(arm) for arm in default_arms("system", "overlay2")]
    assert system == ["host@dir", "bind:system/overlay2", "volume:system/overlay2", "layer:system/overlay2"]


def test_blocks_are_complete_random_and_the_same_for_the_same_seed() -> None:
    arms = parse_arms("bare,runtime,bind:overlay2,layer:overlay2")
    plan = make_plan(arms, rounds=5, seed=11)
    steps = list(plan.steps())
    assert [step.block for step in steps] == [block for block in range(6) for _ in arms]
    assert [step.kind for step in steps[:5]] == ["warmup"] * 4 + ["measured"]
    for block in range(6):
        assert sorted(step.arm for step in steps if step.block == block) == sorted(arms)
    assert len({plan.block(number) for number in range(1, 6)}) > 1
    assert steps == list(make_plan(arms, rounds=5, seed=11).steps())
    assert steps != list(make_plan(arms, rounds=5, seed=12).steps())
    # The order is part of a stored session: it must not change with the version of Python or of the kit.
    assert [arm.placement for arm in plan.block(1)] == ["bare", "runtime", "bind", "layer"]


def test_cold_has_no_warmup() -> None:
    assert all(step.kind == "measured" for step in make_plan(parse_arms("bare"), 2, 1, "cold").steps())


def test_bad_plans() -> None:
    with pytest.raises(UsageError, match="at least one round"):
        make_plan(parse_arms("bare"), 0, 1)
    with pytest.raises(UsageError, match="--cache hot"):
        make_plan(parse_arms("bare"), 1, 1, "hot")
