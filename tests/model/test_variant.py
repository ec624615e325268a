"""Variants: several commands or revisions of one session are compared like arms."""

from __future__ import annotations

import pytest

from kit.core.errors import UsageError
from kit.extra.history.nightly.file import parse_nightly
from kit.model.arm import parse_arm, parse_arms
from kit.model.default_driver import Docker
from kit.model.options import SessionOptions, read_options
from kit.model.plan import make_plan, reference_of
from kit.model.session import Request, title_of
from kit.model.variant import in_variants, unvaried_name

TWO = (("a", "make -j2"), ("b", "make -j4"))
REVISIONS = (("old", "v1"), ("new", "main"))


def test_names_are_given_or_made_of_the_command() -> None:
    given = {"commands": ["a=make -j2", "./build.sh --fast -o 'x y'", "clang=CC=clang make"]}
    assert read_options(given, "--")["commands"] == (
        ("a", "make -j2"), ("build.sh-fast-o-x-y", "./build.sh --fast -o 'x y'"), ("clang", "CC=clang make"),
    )  # fmt: skip
    revisions = read_options({"revisions": ["main,HEAD~1", "last=feature/x"]}, "--")["revisions"]
    assert revisions == (("main", "main"), ("HEAD~1", "HEAD~1"), ("last", "feature/x"))
    for name, _ in (*read_options(given, "--")["commands"], *revisions):
        assert parse_arm(f"bare+command={name}+rev={name}").option("command") == name
    assert read_options({"commands": (), "revisions": ()}, "--") == {"commands": (), "revisions": ()}


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        (["make", "make"], "--command: two are called 'make'"),
        (["a=x", "a=y"], "--command: two are called 'a'"),
        (["a= "], "--command a: nothing behind the name"),
        (["'&'"], "--command '&': not usable as a name"),
        ({"a b": "make"}, "--command a b: not usable as a name"),
        ({"a": [1]}, "--command.a is neither text nor a number"),
    ],
)
def test_names_that_are_refused(commands: object, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read_options({"commands": commands}, "--")
    assert said in error.value.message


def names(text: str, baseline: str = "", among: int = 2) -> tuple[list[str], dict[str, str]]:
    options = SessionOptions(rounds=3, seed=1, baseline=baseline)
    plan = make_plan(in_variants(parse_arms(text), TWO[:among], ()), options)
    return [str(arm) for arm in plan.arms], dict(plan.baselines)


def test_one_arm_has_the_first_command_as_baseline() -> None:
    for arm in ("bare", "layer:btrfs", "union:overlay", "host", "build:vfs+cache=warm"):
        made = [str(item) for item in in_variants(parse_arms(arm), TWO, ())]
        assert len(made) == 2 and names(arm) == (made, {made[1]: made[0]})
        assert reference_of(in_variants(parse_arms(arm), TWO, ()), Docker()) == made[0]
    assert names("bare", among=1) == (["bare+command=a"], {})


def test_several_arms_have_the_baseline_with_their_own_command() -> None:
    arms, pairs = names("bare,layer:overlay2")
    assert arms == ["bare+command=a", "bare+command=b", "layer:overlay2+command=a", "layer:overlay2+command=b"]
    assert pairs == {
        "bare+command=b": "bare+command=a",
        "layer:overlay2+command=a": "bare+command=a",
        "layer:overlay2+command=b": "bare+command=b",
    }
    assert names("bare,bare+nosync")[1] == {
        "bare+command=b": "bare+command=a",
        "bare+command=b+nosync": "bare+command=a+nosync",
    }
    added, pairs = names("layer:overlay2,layer:btrfs")
    assert pairs["layer:btrfs+command=b"] == "bare@btrfs+command=b" and len(added) == 8
    alone = names("bind:vfs,layer:vfs")[1]
    assert alone == {
        "bind:vfs+command=b": "bind:vfs+command=a",
        "layer:vfs+command=a": "bind:vfs+command=a",
        "layer:vfs+command=b": "bind:vfs+command=b",
    }


def test_a_named_baseline_has_the_command_of_each_arm_unless_it_names_one() -> None:
    arms, pairs = names("layer:vfs", "bare")
    assert arms[:2] == ["bare+command=a", "bare+command=b"]
    of_layer = {f"layer:vfs+command={name}": f"bare+command={name}" for name in "ab"}
    assert pairs == {**of_layer, "bare+command=b": "bare+command=a"}
    assert names("bare", "bare")[1] == {"bare+command=b": "bare+command=a"}
    pairs = names("bare,layer:vfs", "bare+command=b")[1]
    assert set(pairs.values()) == {"bare+command=b"} and len(pairs) == 3
    both = in_variants(parse_arms("layer:vfs"), TWO, REVISIONS)
    plan = make_plan(both, SessionOptions(rounds=3, seed=1, baseline="bare+command=a"))
    assert dict(plan.baselines)["layer:vfs+command=b+rev=old"] == "bare+command=a+rev=old"


def test_the_reference_has_the_first_command() -> None:
    for text, reference in (
        ("bare,layer:vfs,layer:overlay2", "layer:overlay2+command=a"),
        ("bare,layer:btrfs,layer:vfs", "layer:btrfs+command=a"),
        ("bare,runtime", "bare+command=a"),
        ("bare+command=b", "bare+command=b"),
    ):
        assert reference_of(in_variants(parse_arms(text), TWO, ()), Docker()) == reference


def test_an_arm_with_each_command_and_revision() -> None:
    made = [str(arm) for arm in in_variants(parse_arms("bare,layer:vfs+command=b"), TWO, REVISIONS)]
    assert made == [
        "bare+command=a+rev=old", "bare+command=a+rev=new", "bare+command=b+rev=old", "bare+command=b+rev=new",
        "layer:vfs+command=b+rev=old", "layer:vfs+command=b+rev=new",
    ]  # fmt: skip
    assert {unvaried_name(name) for name in made} == {"bare", "layer:vfs"}
    assert unvaried_name("imported figures") == "imported figures"


@pytest.mark.parametrize(
    ("arms", "commands", "said"),
    [
        ("bare+command=c", TWO, "arm 'bare+command=c': no command 'c' in this session"),
        ("bare+command=c", (), "no command 'c'"),
        ("bare+rev=x", TWO, "no rev 'x'"),
        ("bare,bare+command=a", TWO, "arm 'bare+command=a' is named twice"),
        ("bare", tuple((f"n{number}", "x") for number in range(101)), "more than 100 arms"),
    ],
)
def test_arms_that_are_refused(arms: str, commands: tuple[tuple[str, str], ...], said: str) -> None:
    with pytest.raises(UsageError) as error:
        in_variants(parse_arms(arms), commands, ())
    assert said in error.value.message


def test_the_title_is_of_the_commands() -> None:
    assert title_of(Request(commands=TWO), "command") == "make -j2; make -j4"
    assert title_of(Request("smoke"), "smoke") == "smoke"


def test_a_nightly_task_has_commands_and_thresholds_for_each() -> None:
    text = """[[tasks]]
commands = { a = "make -j2", b = "make -j4" }
source = "project"
revisions = { old = "v1" }
arms = ["bare", "layer:vfs"]
thresholds = ["layer:vfs+command=b+rev=old < 5 %"]
"""
    (task,) = parse_nightly(text, "n.toml", "n").tasks
    assert (task.request.commands, task.request.revisions) == (TWO, (("old", "v1"),))
    assert task.name == "make -j2; make -j4"
    with pytest.raises(UsageError, match="its arm is not in this task"):
        parse_nightly(text.replace("command=b", "command=c"), "n.toml", "n")
    with pytest.raises(UsageError, match="either scenario or command"):
        parse_nightly(f'{text}command = ["make"]\n', "n.toml", "n")
