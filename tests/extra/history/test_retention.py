"""Old sessions go, with their logs and what only they used; those that say when a penalty changed stay."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import UsageError
from kit.core.paths import Paths, find_paths
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.nightly.file import parse_nightly
from kit.extra.history.nightly.job import Job
from kit.extra.history.nightly.run import prune_night
from kit.host.cache_use import last_used, mark_used
from kit.model.session import RUNNING, Session
from kit.session.prune import plan_pruning, prune
from kit.session.setup.cleanups import clean_machine
from kit.store import Store, open_store
from kit.store.retention import Expired, Limit, Retention, find_expired, find_limit, remove_expired
from kit.store.session_query import ANY
from tests.command_line import Kit
from tests.nights import night
from tests.stores import new_store

DAY = 86400.0
NOW = 1e9 + 60 * DAY


def nights() -> list[Session]:
    """A session a day, for 60 days; the penalty doubles on day 20, and falls on day 55."""
    return [night(i, 0.2 if 20 <= i < 55 else 0.1, rounds=3) for i in range(60)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("retention") / "kit.db"
    made = new_store(path)
    made.add_new(nights())
    made.close()
    return path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Store:
    return open_store("", Path(shutil.copy(filled, tmp_path / "kit.db")))


def ids(store: Store) -> list[int]:
    return sorted(int(item.id[-4:]) for item in store.list(ANY))


def check_changes_stay(store: Store) -> None:
    rule = Retention(NOW - 20 * DAY - 1, changes=True)
    found = find_expired(store, rule, NOW)
    assert len(ids(store)) == 60  # a plan removes nothing
    remove_expired(store, found)
    assert ids(store) == [19, 20, 21, *range(40, 60)]
    assert store.get("2026-0020").facts["kept"] == "change of layer:overlay2 / bare at 2026-0020"
    # Three sessions alone show no change any more; what was kept once stays.
    remove_expired(store, find_expired(store, Retention(NOW, changes=True), NOW))
    assert {19, 20, 21} <= set(ids(store)) < {19, 20, 21, *range(50, 60)}
    remove_expired(store, find_expired(store, Retention(NOW), NOW))
    assert ids(store) == []


def test_sessions_at_changes_stay(store: Store) -> None:
    check_changes_stay(store)


@pytest.mark.machine
@pytest.mark.unmeasured
def test_sessions_at_changes_stay_in_a_shared_store(database: str, tmp_path: Path) -> None:
    store = open_store(database, tmp_path / "kit.db")
    store.add_new(nights())
    check_changes_stay(store)
    store.close()


def test_all_of_a_session_is_removed_and_its_space_is_free(store: Store, tmp_path: Path) -> None:
    before = (tmp_path / "kit.db").stat().st_size
    remove_expired(store, find_expired(store, Retention(NOW - 10 * DAY - 1), NOW))
    assert ids(store) == list(range(50, 60))
    assert (tmp_path / "kit.db").stat().st_size < before / 2
    assert len(store.history("mine", "layer:overlay2")) == 10


def test_other_titles_and_running_sessions_stay(store: Store) -> None:
    store.add(replace(night(1, 0.1), id="other", title="other"))
    store.add(replace(night(2, 0.1), id="dead", status=RUNNING))
    store.add(replace(night(2, 0.1), id="runs", status=RUNNING, created=NOW - DAY))
    found = find_expired(store, Retention(NOW, titles={"mine": ()}), NOW)
    assert {item.id for item in found.sessions} == {"dead", *(item.id for item in nights())}


def test_changes_are_found_across_what_a_history_ignores(tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    for i in range(12):
        store.add(night(i, 0.1 if i < 6 else 0.2, kernel=f"6.{i}"))
    assert not find_expired(store, Retention(NOW, changes=True), NOW).kept
    found = find_expired(store, Retention(NOW, changes=True, across=("kernel",)), NOW)
    assert sorted(found.kept) == ["2026-0005", "2026-0006", "2026-0007"]
    by_title = Retention(NOW, changes=True, titles={"mine": ("kernel",)})
    assert find_expired(store, by_title, NOW).kept == found.kept


def old(path: Path, text: str = "") -> Path:
    """A directory, or a file with that text, of day 1."""
    if text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    else:
        path.mkdir(parents=True)
    os.utime(path, (1e9 + DAY, 1e9 + DAY))
    return path


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return replace(find_paths(), data=tmp_path / "data", cache=tmp_path / "cache")


def test_logs_and_unused_cache_entries_go_with_the_sessions(store: Store, paths: Paths) -> None:
    gone = [old(paths.logs("2026-0001")), old(paths.logs("nobodys")), old(paths.cache / "images/old-1"),
            old(paths.cache / "inputs/a.tar", "x"), old(paths.cache / "inputs/a.tar.json", "{}"),
            old(paths.data / "begun/2026-0001", "x"), old(paths.cache / "engines/docker-26"),
            old(paths.cache / "kernels/aufs-uml")]  # fmt: skip
    stay = [old(paths.logs("2026-0059")), old(paths.cache / "images/used-1"), old(paths.cache / "probe/kit-probe", "x"),
            old(paths.cache / "images/.x.lock", "x")]  # fmt: skip
    modified = stay[1].stat().st_mtime
    mark_used(stay[1])
    assert stay[1].stat().st_mtime == modified and last_used(stay[1]) > time.time() - 60
    found = plan_pruning(store, paths, Retention(NOW - 30 * DAY), NOW)
    assert all(path.exists() for path in (*gone, *stay))
    prune(store, paths, found)
    assert not [path for path in gone if path.exists()] and all(path.exists() for path in stay)
    assert str(found) == f"{len(found.expired.sessions)} sessions, 2 logs, 4 cache entries"


@pytest.mark.parametrize("removed", range(8))
def test_a_killed_prune_leaves_no_half_entry(store: Store, paths: Paths, removed: int) -> None:
    """Killed after so many files and directories were removed."""
    old(paths.cache / "inputs/a.tar", "x"), old(paths.cache / "inputs/a.tar.json", "{}")
    engine = paths.cache / "engines/docker-26"
    for name in "ab":
        old(engine / "bin" / name, "x")
    os.utime(engine, (1e9, 1e9))
    found = plan_pruning(store, paths, Retention(NOW, titles=None), NOW)
    found = replace(found, expired=Expired())
    child = os.fork()
    if not child:
        count = 0

        def counted(act: Callable[..., None]) -> Callable[..., None]:
            def call(*words: Any, **named: Any) -> None:
                nonlocal count
                if count == removed:
                    os.kill(os.getpid(), signal.SIGKILL)
                act(*words, **named)
                count += 1

            return call

        try:
            os.unlink, os.rmdir = counted(os.unlink), counted(os.rmdir)
            prune(store, paths, found)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert (paths.cache / "inputs/a.tar").exists() or not (paths.cache / "inputs/a.tar.json").exists()
    assert not engine.exists() or len(list(engine.glob("bin/*"))) == 2
    clean_machine(paths)
    assert not list(paths.cache.glob("*/.scratch-*"))


def test_a_rule_for_some_titles_leaves_caches_and_other_logs(store: Store, paths: Paths) -> None:
    mine, others, image = old(paths.logs("2026-0001")), old(paths.logs("nobodys")), old(paths.cache / "images/old-1")
    prune(store, paths, plan_pruning(store, paths, Retention(NOW, titles={"mine": ()}), NOW))
    assert not mine.exists() and others.exists() and image.exists()


def test_the_command_shows_what_it_would_remove(store: Store, kit: Kit, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kit.db"
    done = kit("prune", "--keep", "2026-01-01", "--keep-changes", "--dry-run", "--store", url, "--scenario", "mine")
    assert done.returncode == 0 and len(ids(store)) == 60, done.stderr
    assert "session 2026-0020 stays: change of layer:overlay2 / bare at 2026-0020" in done.stdout
    last = "would be removed: 54 sessions; 6 older stay, 0 logs, 0 cache entries"
    assert done.stdout.splitlines()[-1] == last
    assert kit("prune", "--store", url).returncode == kit("prune", "--keep", "x", "--store", url).returncode == 2


def test_titles_are_shown_without_secrets(store: Store, kit: Kit, tmp_path: Path) -> None:
    store.add(replace(night(1, 0.1), id="other", title="curl https://me:secret@host/x"))
    words = ("prune", "--keep", "2026-01-01", "--dry-run", "--store", f"sqlite:///{tmp_path}/kit.db")
    for done in (kit(*words), kit(*words, "--json")):
        assert "other" in done.stdout and "secret" not in done.stdout, done.stderr


def test_a_night_removes_sessions_of_its_machine_only(store: Store, paths: Paths) -> None:
    store.add(replace(night(1, 0.1), id="elsewhere", facts={**night(1, 0.1).facts, "machine": "bb"}))
    task = Task(nights()[-1].request)
    job = Job("n", (task,), keep=1.0)
    assert prune_night(job, Night("n", NOW, (Part(task, nights()[-1]),)), paths, store)
    # Its own session is long ago by the clock; what is younger than that by ``keep`` stays.
    assert [item.id for item in store.list(ANY)] == ["2026-0059", "elsewhere"]


@pytest.mark.promise("faults", "A clock that is wrong by years makes `keep` and `kit prune` remove no more sessions.")
@pytest.mark.parametrize("jump", [0.0, 31 * DAY, 3650 * DAY, -3650 * DAY])
@pytest.mark.parametrize("late", [(), (0.5,), (0.5, 1.0, 1.5)])
def test_a_wrong_clock_removes_no_more_than_a_right_one(store: Store, jump: float, late: tuple[float, ...]) -> None:
    """Sessions that were begun under it are stored, too: a night prunes after its own."""
    right = find_limit(store, 20 * DAY, NOW)
    for number, days in enumerate(late):
        store.add(replace(night(1, 0.1), id=f"late-{number}", created=NOW + jump + days * DAY))
    now = NOW + jump + 2 * DAY
    limit = find_limit(store, 20 * DAY, now)
    passed = 2 * DAY  # in truth
    assert limit.before <= right.before + passed
    assert bool(limit.pause) == (jump > 0)
    remove_expired(store, find_expired(store, Retention(limit.before), now))
    assert {*range(43, 60)} <= {int(item.id[-4:]) for item in store.list(ANY) if item.id.startswith("2026")}


def test_after_a_pause_time_counts_again(store: Store) -> None:
    """Nobody measured for a year: what was old before goes, then the rest as new sessions age."""
    for day in range(0, 25):
        store.add(replace(night(1, 0.1), id=f"again-{day:02}", created=NOW + (365 + day) * DAY))
        limit = find_limit(store, 20 * DAY, NOW + (365 + day) * DAY)
        old = [item.created for item in store.list(ANY) if item.id < "2027" and item.created < limit.before]
        assert not old or max(old) < NOW - (20 - day) * DAY
    assert limit == Limit(NOW + (365 + 24 - 20) * DAY)


def test_prune_says_why_nothing_is_old_and_takes_a_day(store: Store, kit: Kit, tmp_path: Path) -> None:
    words = ("prune", "--store", f"sqlite:///{tmp_path}/kit.db", "--keep")
    done = kit(*words, "90d")
    assert done.returncode == 0 and "removed: 0 sessions" in done.stdout and len(ids(store)) == 60
    assert "the clock may be ahead\n  fix: if it is right, name a day" in done.stderr
    done = kit(*words, "2001-10-01")
    assert "removed: 2" in done.stdout and not done.stderr and 0 < len(ids(store)) < 60


def test_nightly_files_have_the_rule() -> None:
    task = '[[tasks]]\nscenario = "smoke"\n'
    job = parse_nightly(f'keep = "90d"\nkeep_changes = true\n{task}', "n.toml", "n")
    assert (job.keep, job.keep_changes) == (90 * DAY, True)
    with pytest.raises(UsageError, match="keep_changes needs keep"):
        parse_nightly(f"keep_changes = true\n{task}", "n.toml", "n")
