"""A stored request plans the same again, wherever the kit is started and whatever a later one takes for default."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

import kit.session.planning
from kit.host.machine import read_host
from kit.model.plan import Plan
from kit.model.session import RUNNING, Request, Session
from kit.model.sweep import join_values, split_values
from kit.session.freeze import absolute_paths, kept_plan
from kit.session.planning import bind_scenarios, find_scenario, plan_session


def begun(request: Request) -> tuple[Session, Plan]:
    """As launch makes it."""
    kept, _, plan = plan_session(request, replace(read_host(), root=True))
    return Session("x", 1.0, "0", "t", RUNNING, kept, tuple(map(str, plan.arms)), plan.baselines, plan.seed), plan


@pytest.mark.parametrize(
    "request_",
    [
        Request(command=("true",)),
        Request(command=("true",), arms=("layer:overlay2@xfs",), precision=0.02),
        Request(command=("true",), arms=("bare", "layer:vfs"), rounds=5, baseline="layer:vfs", timeout=60.0),
        Request(command=("true",), arms=("host@dir", "layer:system/overlay2", "layer:vfs"), engine="system"),
        Request(scenario="kernel:short", params=(("jobs", "1,2"),), arms=("bare", "layer:vfs"), control=True),
    ],
)
def test_the_plan_is_the_same_again_with_other_defaults(request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    session, plan = begun(replace(request_, seed=7))
    monkeypatch.setattr(kit.session.planning, "default_arms", lambda *given: ())
    monkeypatch.setattr("kit.model.plan.SEQUENTIAL_ROUNDS", 50)
    monkeypatch.setattr("kit.model.plan.CONTROL_FROM", 1)
    assert kept_plan(session) == plan
    assert session.request.arms == tuple(map(str, plan.arms)) != ()


def test_paths_do_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a:b").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "root.tar").touch()
    scenario = tmp_path / "a:b" / "mine.toml"
    scenario.write_text(
        'name = "mine"\nsummary = "s"\nimage = "smoke"\n[params.source]\ndefault = "deb:x"\n'
        '[params.words]\ndefault = "a,b"\n'
        '[params.jobs]\ndefault = "{cores}"\n[inputs.src]\nsource = "{source}"\n'
        '[[phases]]\nname = "one"\nrun = ["true", "{words}", "{jobs}"]\n[variants.v]\nsummary = "v"\n'
    )
    monkeypatch.chdir(tmp_path)
    names = ("rootfs", "directory", "device", "docker", "thin_device", "kernel", "modules")
    session, plan = begun(
        Request(
            scenario="a:b/mine.toml:v", load="a:b/mine.toml", image="root.tar", seed=1,
            params=(("source", "src,deb:y"),), arms=("bare",), **dict.fromkeys(names, "here"),  # type: ignore[arg-type]
        )
    )  # fmt: skip
    kept = session.request
    assert kept.params[0] == ("source", f"{tmp_path}/src,deb:y")
    assert [getattr(kept, name) for name in names] == [f"{tmp_path}/here"] * len(names)
    assert (kept.scenario, kept.load) == (f"{scenario}:v", str(scenario))
    assert kept.image == f"{tmp_path}/root.tar"
    os.chdir("/")
    assert find_scenario(kept.scenario).variant == "v"
    # A machine that has come to have more cores: what was a default then is a value now.
    again = bind_scenarios(kept, replace(read_host(), cores=99))
    assert [dict(item.values)["words"] for item in again.values()] == ["a,b", "a,b"]
    assert {dict(item.values)["jobs"] for item in again.values()} == {str(read_host().cores)}
    assert kept_plan(session) == plan and plan.points == tuple(again)


def test_what_is_no_file_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source in ("deb:linux-source-6.1", "git:https://x/y.git#main", ""):
        assert absolute_paths(Request(source=source)).source == source
    (tmp_path / "smoke").touch()
    for image in ("smoke", "debian:12", ""):  # a recipe's name means the recipe
        assert absolute_paths(Request(image=image)).image == image
    assert absolute_paths(Request(source="./none")).source == f"{tmp_path}/none"


def test_values_are_joined_as_they_are_split() -> None:
    for values in (("1",), ("1", "2"), ("a,b", "c"), ("",)):
        assert split_values(join_values(values)) == values
