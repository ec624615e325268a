"""A stored request plans the same again, wherever the kit is started and whatever a later one takes for default."""

import os
from dataclasses import fields, replace
from pathlib import Path

import pytest

from kit.core.codec import UnreadableError, decode, decode_json, encode, encode_json
from kit.core.errors import UsageError
from kit.extra.fleet.share import Share
from kit.host.machine import read_host
from kit.model.arm import parse_arms
from kit.model.plan import Plan
from kit.model.scenario import join_values, split_values
from kit.model.session import Request, Session
from kit.session.execute.materials import Materials
from kit.session.plan.planning import find_scenario, prepare, prepare_begun
from kit.session.start import new_session
from kit.session.wire.messages import GuestJob
from kit.store import open_store


def begun(request: Request) -> tuple[Session, Plan]:
    """As launch makes it."""
    prepared = prepare(request, replace(read_host(), root=True))
    return new_session(prepared), prepared.plan


PLAN = Plan(
    arms=parse_arms("bare,bare+control,layer:containerd/overlayfs@xfs+cpus=2"),
    baselines=(("bare+control", "bare"),), rounds=7, seed=3,
    cache="cold", fresh=True, points=("jobs=1", "jobs=2"), precision=0.02,
    budget=60.0, timeout=5.0, assigned=(1, 3),
    interleave=0.5, rerun=False, until_decided=True, margin=0.05, cpuset=(0,),
)  # fmt: skip


@pytest.fixture
def planned() -> Session:
    """A session with a plan of which nothing is as it is by default."""
    session, _ = begun(Request(command=("true",), seed=7))
    arms = tuple(map(str, PLAN.arms))
    return replace(session, arms=arms, baselines=PLAN.baselines, seed=PLAN.seed, plan=PLAN)


def test_every_option_of_the_plan_is_tried() -> None:
    assert [item.name for item in fields(Plan) if getattr(PLAN, item.name) == item.default] == []


def test_a_store_keeps_the_whole_plan(planned: Session, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/kit.db", tmp_path / "unused.db")
    store.create(planned)
    assert store.get(planned.id).kept_plan() == PLAN


def test_a_guest_and_a_worker_are_given_the_whole_plan(planned: Session) -> None:
    job = decode(GuestJob, encode(GuestJob(planned, {}, Materials(None, {}))))
    share = decode_json(Share, encode_json(Share(planned, (1, 3))))
    assert (job.session.kept_plan(), share.session.kept_plan()) == (PLAN, PLAN)


def test_a_plan_that_names_no_arm_of_this_kit_is_refused(planned: Session) -> None:
    for name, odd in (("placement", "/etc"), ("driver", "../../x"), ("options", [["cpus", "x"]])):
        data = encode(planned)
        data["plan"]["arms"][2][name] = odd
        with pytest.raises(UnreadableError):
            decode(Session, data)


def test_a_plan_of_other_arms_is_refused(planned: Session) -> None:
    with pytest.raises(UsageError, match="its arms are not those of its plan"):
        replace(planned, seed=4)


def test_paths_do_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a:b").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "root.tar").touch()
    scenario = tmp_path / "a:b" / "mine.toml"
    scenario.write_text(
        'name = "mine"\nsummary = "s"\nimage = "smoke"\n[params.source]\ndefault = "deb:x"\n'
        '[params.theirs]\ndefault = "{here}/x"\n[params.near]\ndefault = "root.tar"\n[params.words]\ndefault = "a,b"\n'
        '[params.jobs]\ndefault = "{cores}"\n[inputs.src]\nsource = "{source}"\n'
        '[inputs.theirs]\nsource = "{theirs}"\n[inputs.near]\nsource = "{near}"\n'
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
    assert (dict(kept.params)["theirs"], dict(kept.params)["near"]) == (f"{scenario.parent}/x", f"{tmp_path}/root.tar")
    assert [getattr(kept, name) for name in names] == [f"{tmp_path}/here"] * len(names)
    assert (kept.scenario, kept.load) == (f"{scenario}:v", str(scenario))
    assert kept.image == f"{tmp_path}/root.tar"
    os.chdir("/")
    assert find_scenario(kept.scenario).variant == "v"
    # A machine that has come to have more cores: what was a default then is a value now.
    again = prepare_begun(session, replace(read_host(), cores=99)).scenarios
    assert [dict(item.values)["words"] for item in again.values()] == ["a,b", "a,b"]
    assert {dict(item.values)["jobs"] for item in again.values()} == {str(read_host().cores)}
    assert plan.points == tuple(again)


def test_what_is_no_file_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source in ("deb:linux-source-6.1", "git:https://x/y.git#main", ""):
        assert begun(Request(command=("true",), source=source))[0].request.source == source
    for source in ("git:./none#main", "git:./none"):
        kept = begun(Request(command=("true",), source=source))[0].request.source
        assert kept == source.replace("./", f"{tmp_path}/")
    (tmp_path / "smoke").touch()
    for image in ("smoke", "debian:12", ""):  # a recipe's name means the recipe
        assert begun(Request(command=("true",), image=image))[0].request.image == image
    assert begun(Request(command=("true",), source="./none"))[0].request.source == f"{tmp_path}/none"


def test_values_are_joined_as_they_are_split() -> None:
    for values in (("1",), ("1", "2"), ("a,b", "c"), ("",)):
        assert split_values(join_values(values)) == values


def test_a_cpuset_gives_the_number_of_jobs_and_is_resumed() -> None:
    host = replace(read_host(), cores=8)
    prepared = prepare(Request("smoke", arms=("bare",), cpuset="1-2,5"), host)
    assert prepared.plan.cpuset == (1, 2, 5)
    (scenario,) = prepared.scenarios.values()
    assert dict(scenario.values)["jobs"] == "3"
