"""Tests of resumed sessions: only a session that began here runs again, as planned then, with new consent."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.exceptions import Abort
from sqlalchemy import create_engine, text

from kit.cli.compare import compare
from kit.core.errors import UsageError
from kit.core.paths import Paths, find_paths
from kit.host.machine import read_host
from kit.model.arm import parse_arms
from kit.model.event import SampleTaken, SessionStarted, StatusChanged
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.sample import Phase, Sample
from kit.model.session import DONE, INTERRUPTED, Request, Session, check_session_id, new_session_id
from kit.report.text.progress import Quiet
from kit.session.launch import launch
from kit.session.prepared import StartOptions
from kit.session.setup.resumable import record_begun
from kit.session.start import PlannedSession, Resumption, plan_session
from kit.store import Outbox
from kit.store.exchange import load
from tests.command_line import Kit
from tests.stores import dump, new_store

STOPPED = Session(
    id="20260101-000000-aaaa", created=1e9, kit_version="0", title="true", status=INTERRUPTED,
    request=Request(command=("true",), arms=("bare",)), arms=("bare",), baselines=(), seed=1,
    plan=make_plan(parse_arms("bare"), SessionOptions(rounds=0, seed=1, control=False)),
    facts={"machine": read_host().machine},
)  # fmt: skip
BAD_IDS = (
    "last",
    "",
    ".",
    "..",
    ".hidden",
    "/some/dir",
    "a/b",
    "../../x",
    "a b",
    "a\n",
    "<script>",
    "ä",
    "-rf",
    "a" * 41,
)


def paths(tmp_path: Path) -> Paths:
    """Of the test's own: no lock of the machine is taken, nothing is written elsewhere."""
    (tmp_path / "lock").mkdir(exist_ok=True)
    return replace(
        find_paths(), data=tmp_path / "data", state=tmp_path / "state", run=tmp_path / "kit", lock=tmp_path / "lock"
    )


@pytest.mark.parametrize("name", BAD_IDS)
def test_a_session_is_not_called_what_is_no_name_of_a_file(name: str) -> None:
    with pytest.raises(UsageError, match="is not a session's id"):
        check_session_id(name)
    with pytest.raises(UsageError, match="is not a session's id"):
        replace(STOPPED, id=name)


def test_no_arm_is_its_own_baseline() -> None:
    with pytest.raises(UsageError, match="'bare' is its own baseline"):
        replace(STOPPED, baselines=(("layer:overlay2", "bare"), ("bare", "bare")))


def test_names_that_kits_and_people_give_are_good() -> None:
    for name in (new_session_id(1.7e9), "2026-0001", "for-reader", "image-tests", "a_1.b"):
        check_session_id(name)


@pytest.mark.parametrize("name", BAD_IDS)
def test_an_import_with_a_bad_id_is_one_line_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    document = json.loads(dump([STOPPED]))
    document["sessions"][0]["id"] = name
    with pytest.raises(UsageError, match="is not a session's id"):
        load(json.dumps(document), "x.json")


def test_a_bad_id_that_an_older_kit_has_imported_is_not_found_again(tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    store.create(STOPPED)
    victim = tmp_path / "victim"
    victim.mkdir()
    with create_engine(f"sqlite:///{tmp_path}/kit.db").begin() as connection:
        connection.execute(text("UPDATE kit_sessions SET id = :id, imported = 0"), {"id": str(victim)})
    assert store.list() == ()
    for name in ("last", str(victim)):
        with pytest.raises(UsageError, match=r"no session|not a session"):
            launch(Resumption(name), paths(tmp_path), store, Quiet(), StartOptions())
    assert victim.is_dir()


@pytest.mark.promise("a shared store", "`--resume` runs only what this user has begun here, unchanged.")
def test_an_imported_session_is_not_resumed_whatever_it_says_of_itself(kit: Kit, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kit.db"
    (tmp_path / "x.json").write_text(dump([replace(STOPPED, imported=False)]))
    assert kit("import", tmp_path / "x.json", "--store", url).returncode == 0
    done = kit("compare", "--resume", "last", "--store", url, KIT_HOME=str(tmp_path / "home"))
    assert done.returncode == 2 and f"session {STOPPED.id} was imported" in done.stderr, done.stderr
    assert not (tmp_path / "home").exists() or not list((tmp_path / "home").rglob("*.jsonl"))


def test_sessions_of_another_machine_are_not_resumed(tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    store.create(replace(STOPPED, facts={"machine": "another"}))
    with pytest.raises(UsageError, match="began on another machine"):
        launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())


def stop(*given: object, **more: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.promise("a shared store", "`--resume` runs only what this user has begun here, unchanged.")
def test_a_session_that_somebody_has_put_into_the_store_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names this machine and says that it was not imported: nothing in the store tells it from one of ours."""
    monkeypatch.setattr("kit.session.launch.measure", stop)
    store = new_store(tmp_path / "shared.db")
    store.create(STOPPED)
    with pytest.raises(UsageError, match=f"session {STOPPED.id} was not begun here"):
        launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())
    assert store.get("last").status == INTERRUPTED
    begun = tmp_path / "data" / "begun"
    assert not begun.exists()
    begun.mkdir(parents=True, mode=0o700)
    (tmp_path / "data").chmod(0o700)
    (begun / STOPPED.id).symlink_to(tmp_path / "kit.db")
    with pytest.raises(UsageError, match="was not begun here"):
        launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())


@pytest.mark.promise("a shared store", "`--resume` runs only what this user has begun here, unchanged.")
def test_a_session_that_somebody_has_changed_in_the_store_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kit.session.launch.measure", stop)
    store, work = new_store(tmp_path / "shared.db"), tmp_path / "work"
    work.mkdir()
    request = Request(command=("true", "ü"), arms=("host@dir",), rounds=1, directory=str(work))
    with pytest.raises(KeyboardInterrupt):
        launch(request, paths(tmp_path), store, Quiet(), StartOptions())
    name = store.get("last").id
    record = tmp_path / "data" / "begun" / name
    assert (record.stat().st_mode & 0o777, record.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with pytest.raises(KeyboardInterrupt):  # as it was: it goes on
        launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())
    changes = (
        ("request", """replace(request, '"true"', '"sh"')"""),
        ("request", """replace(request, '"prepare": ""', '"prepare": "id"')"""),
        ("plan", """replace(plan, '"rerun": true', '"rerun": false')"""),
        ("plan", """replace(plan, '"cache": "warm"', '"cache": "cold"')"""),
    )
    for column, value in changes:
        engine = create_engine(f"sqlite:///{tmp_path}/shared.db")
        with engine.begin() as connection:
            before = connection.execute(text(f"SELECT {column} FROM kit_sessions")).scalar_one()
            connection.execute(text(f"UPDATE kit_sessions SET {column} = {value}"))
            assert connection.execute(text(f"SELECT {column} FROM kit_sessions")).scalar_one() != before
        with pytest.raises(UsageError, match=f"session {name} is not what was begun here"):
            launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE kit_sessions SET {column} = :before"), {"before": before})
        engine.dispose()
    with pytest.raises(KeyboardInterrupt):
        launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())
    record.unlink()
    with pytest.raises(UsageError, match="was not begun here"):
        launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())


@pytest.mark.promise("a shared store", "`--resume` runs only what this user has begun here, unchanged.")
def test_what_is_changed_while_a_session_waits_for_the_machine_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, work, run = new_store(tmp_path / "shared.db"), tmp_path / "work", list[Session]()
    work.mkdir()
    request = Request(command=("true",), arms=("host@dir",), rounds=1, directory=str(work))
    monkeypatch.setattr("kit.session.launch.measure", stop)
    with pytest.raises(KeyboardInterrupt):
        launch(request, paths(tmp_path), store, Quiet(), StartOptions())

    def change(*_: object) -> None:
        with create_engine(f"sqlite:///{tmp_path}/shared.db").begin() as connection:
            connection.execute(text("UPDATE kit_sessions SET request = replace(request, '\"true\"', '\"sh\"')"))

    def seen(session: Session, *_: object) -> None:
        run.append(session)
        raise KeyboardInterrupt

    monkeypatch.setattr("kit.session.launch.wait_idle", change)
    monkeypatch.setattr("kit.session.launch.measure", seen)
    with pytest.raises(KeyboardInterrupt):
        launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions(idle=1.0))
    assert store.get("last").request.command == ("sh",)
    assert run[0].request.command == ("true",)


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_session_stopped_before_its_first_sample_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path / "kit.db")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/file").write_text("x")
    (tmp_path / "work").mkdir()
    request = Request(
        command=("test", "-f", "file"), source="src", arms=("host@dir",), rounds=1, cache="cold", directory="work"
    )

    with monkeypatch.context() as patch:
        patch.setattr("kit.session.launch.gather", stop)
        with pytest.raises(KeyboardInterrupt):
            launch(request, paths(tmp_path), store, Quiet(), StartOptions())
    (stopped,) = store.list()
    assert (stopped.status, stopped.samples) == (INTERRUPTED, ())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())
    assert (done.status, {sample.status for sample in done.samples}) == (DONE, {"ok"})
    assert store.get(stopped.id).samples == done.samples and store.get("last").arms == ("host@dir",)
    again = launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())
    assert again == store.get("last") and again.samples == done.samples


@pytest.mark.promise("faults", "`--resume` makes the runs that a damaged store had.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_finished_session_of_which_the_store_lost_runs_is_finished_again(tmp_path: Path) -> None:
    """A damaged store was moved away: the outbox had the last runs and the end of the session for the next one."""
    store, after = new_store(tmp_path / "kit.db"), new_store(tmp_path / "after.db")
    (tmp_path / "work").mkdir()
    work = str(tmp_path / "work")
    request = Request(command=("true",), arms=("host@dir",), rounds=2, cache="cold", rerun=False, directory=work)
    whole = launch(request, paths(tmp_path), store, Quiet(), StartOptions())
    after.create(replace(whole, samples=()))
    after.take(whole.id, [SampleTaken(whole.samples[-1]), StatusChanged(DONE)])
    done = launch(Resumption("last"), paths(tmp_path), after, Quiet(), StartOptions())
    assert [(sample.round, sample.status) for sample in done.samples] == [(2, "ok"), (1, "ok")]
    # Its flags are judged again, with the new run beside it.
    assert replace(done.samples[0], flags="") == replace(whole.samples[-1], flags="")
    assert after.get(whole.id).status == DONE


def test_of_a_finished_session_nothing_is_touched(kit: Kit, tmp_path: Path) -> None:
    store, home = new_store(tmp_path / "kit.db"), tmp_path / "home"
    session = replace(STOPPED, status=DONE, request=replace(STOPPED.request, device="/dev/null/none"))
    store.create(session)
    words = ("compare", "--resume", "last", "--store", f"sqlite:///{tmp_path}/kit.db")
    done = kit(*words, KIT_HOME=str(home))
    assert done.returncode == 2 and "was not begun here" in done.stderr, "another writer's figures are not ours"
    assert not home.exists()
    record_begun(home / "data", session, print)
    done = kit(*words, KIT_HOME=str(home))
    assert done.returncode == 0 and "nothing is left" in done.stderr, done.stderr
    assert [path for path in home.rglob("*") if path.is_file()] == [home / "data/begun" / session.id]


def test_consent_names_a_device_of_the_session(tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    with pytest.raises(UsageError, match="--wipe /dev/x: this session uses no such device"):
        launch(STOPPED.request, paths(tmp_path), store, Quiet(), StartOptions(wipe=(Path("/dev/x"),)))
    store.create(STOPPED)
    record_begun(tmp_path / "data", STOPPED, print)
    with pytest.raises(UsageError, match="--wipe /dev/x: this session uses no such device"):
        launch(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions(wipe=(Path("/dev/x"),)))
    assert store.get("last").status == INTERRUPTED


def test_a_damaged_session_of_the_past_keeps_no_other_from_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it took is only told beforehand."""
    store = new_store(tmp_path / "kit.db")
    store.add(replace(STOPPED, status=DONE, samples=(Sample("bare", 1, "measured", "ok", 1e9, ()),)))
    with create_engine(f"sqlite:///{tmp_path}/kit.db").begin() as connection:
        connection.execute(text("UPDATE kit_samples SET digests = '{'"))

    (tmp_path / "work").mkdir()
    request = Request(command=("true",), arms=("host@dir",), rounds=1, directory=str(tmp_path / "work"))
    monkeypatch.setattr("kit.session.launch.measure", stop)
    with pytest.raises(KeyboardInterrupt):
        launch(request, paths(tmp_path), store, Quiet(), StartOptions())


def test_ctrl_c_before_the_reference_has_run_is_no_bad_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(request: Request, paths: Paths, store: object, observer: Quiet, *rest: object) -> None:
        samples = (Sample("bare", 1, "measured", "ok", 1e9, (Phase("run", "ok", real=1.0, flush=0.1),)),)
        observer.take(SessionStarted(replace(STOPPED, arms=("bare", "layer:overlay2"), plan=None, samples=samples)))
        raise KeyboardInterrupt

    monkeypatch.setattr("kit.session.launch.launch", stopped)
    words = ["smoke", "--arms", "bare,layer:overlay2", "--reference", "layer:overlay2", "-q"]
    with pytest.raises(Abort):  # click's word for Ctrl-C, for which the program ends with 130
        compare.main(words, standalone_mode=False)
    assert "1.000 s" in capsys.readouterr().out


def test_a_session_that_another_start_has_finished_meanwhile_is_not_run_again(tmp_path: Path) -> None:
    """Both wait for the machine; the second looks at the store again once it has it."""
    store = new_store(tmp_path / "kit.db")
    options = SessionOptions(rounds=1, seed=1, control=False)
    session = replace(
        STOPPED, arms=("host@dir",), request=Request(command=("true",), arms=("host@dir",), rounds=1),
        plan=make_plan(parse_arms("host@dir"), options),
    )  # fmt: skip
    store.create(session)
    record_begun(tmp_path / "data", session, print)
    planned = plan_session(Resumption("last"), paths(tmp_path), store, Quiet(), StartOptions())
    assert isinstance(planned, PlannedSession)
    sample = Sample("host@dir", 1, "measured", "ok", 1.0, (Phase("run", "ok", real=1.0),))
    store.take(session.id, [SampleTaken(sample), StatusChanged(DONE)])
    with Outbox(planned.session, store, tmp_path / "data", print) as outbox:
        begun = planned.begin(outbox)
    assert (begun.status, begun.samples) == (DONE, (sample,))
    assert store.get(session.id).status == DONE


@pytest.mark.parametrize("words", [("--arms", "bare"), ("--rounds", "3"), ("--param", "jobs=1"), ("--guest", "uml")])
def test_what_the_session_has_already_is_refused(kit: Kit, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = kit("compare", "--resume", "last", *words, "--store", f"sqlite:///{tmp_path}/kit.db")
    assert done.returncode == 2 and f"{words[0]} does not work with --resume" in done.stderr, done.stderr
