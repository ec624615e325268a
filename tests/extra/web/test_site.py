"""The store as files: every page that ``kit serve`` has, every link to a file that is there, nothing from elsewhere."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from kit.extra.web.site_directory import SiteList, begin_site, close_site, is_kept, open_site, put_file
from kit.model.session import RUNNING
from tests.command_line import Kit
from tests.matrices import suite
from tests.nights import ladder_session, night, on
from tests.stores import new_store


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    directory = tmp_path_factory.mktemp("site")
    store = new_store(directory / "kit.db")
    store.add_new(night(i, 0.05) for i in range(55))
    store.add_new(on(machine, 1, 0.05) for machine in range(4))
    store.add(ladder_session())
    store.add_new(suite())
    store.add(replace(night(90, 0.1), status=RUNNING))
    store.close()
    return directory


@pytest.fixture
def written(site: Path, kit: Kit) -> Path:
    if not (site / "public").is_dir():
        done = kit("site", site / "public", KIT_STORE=f"sqlite:///{site}/kit.db")
        assert done.returncode == 0 and not done.stderr, done.stderr
        count = sum(path.suffix in (".html", ".csv") for path in (site / "public").rglob("*"))
        assert done.stdout == f"{site}/public/index.html: {count} files\n"
    return site / "public"


def links(page: Path) -> Iterator[Path]:
    for target in re.findall(r'(?:href|src)="([^"]*)"', page.read_text()):
        if not target.startswith(("#", "data:")):
            yield page.parent / unquote(html.unescape(target))


def test_every_link_leads_to_a_file(written: Path) -> None:
    pages = list(written.rglob("*.html"))
    targets = {target.resolve() for page in pages for target in links(page)}
    assert len(pages) > 60 and all(target.is_file() for target in targets)
    reached = targets | {(written / "index.html").resolve()}
    assert {page.resolve() for page in pages} - reached == set()


def test_pages_show_what_the_server_shows(written: Path) -> None:
    assert "No other driver than layer:overlay2" in (written / "matrix.html").read_text()
    (other,) = (written).glob("matrix-xeon-*.html")
    assert "Use layer:overlay2" in other.read_text()
    session = (written / "session/20260101-000000-full.html").read_text()
    assert "mine &amp; &lt;yours&gt;" in session and "<svg" in session
    (history,) = (written / "history").glob("mine-layer-overlay2-*.html")
    assert "<svg" in history.read_text() and "session" in history.read_text()
    (machines,) = (written / "machines").glob("mine-*.html")
    assert "mine on 5 machines of 2 classes" in machines.read_text()
    assert not list((written / "session").glob("2026-0090*"))  # it still runs


def test_there_is_no_form_no_store_and_nothing_from_elsewhere(written: Path) -> None:
    assert "sqlite:" not in (written / "index.html").read_text()
    for page in written.rglob("*.html"):
        text = page.read_text()
        assert 'method="get"' not in text, page
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text), page


def test_a_directory_with_other_files_is_left_alone(kit: Kit, tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    store.add_new((night(1, 0.05), night(2, 0.05)))
    store.close()
    other, public, env = tmp_path / "other", tmp_path / "public", {"KIT_STORE": f"sqlite:///{tmp_path}/kit.db"}
    other.mkdir()
    (other / "mine.txt").write_text("x")
    done = kit("site", other, **env)
    assert done.returncode == 2 and "has other files" in done.stderr and len(list(other.iterdir())) == 1
    assert kit("site", public, **env).returncode == 0
    again = kit("site", public, **env)
    sessions = sum(path.is_file() for path in (public / "session").iterdir())
    assert again.returncode == 0 and again.stdout.endswith(f" files, {sessions} of them as they were\n"), again.stderr
    assert not [path for path in public.rglob("*") if path.name.startswith(".new")]
    whole = kit("site", public, "--all", **env)
    assert whole.stdout.endswith(" files\n")


def test_an_empty_store_is_a_page(kit: Kit, tmp_path: Path) -> None:
    done = kit("site", tmp_path / "public", KIT_STORE=f"sqlite:///{tmp_path}/kit.db")
    index = (tmp_path / "public/index.html").read_text()
    assert done.returncode == 0 and "No session matches" in index and "Costs over machines" not in index


def test_another_web_site_is_left_alone(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<h1>mine</h1>")
    done = kit("site", tmp_path, KIT_STORE=f"sqlite:///{tmp_path}.db")
    assert done.returncode == 2 and "has other files" in done.stderr
    assert (tmp_path / "index.html").read_text() == "<h1>mine</h1>"


def test_a_session_that_went_on_is_written_again_and_one_that_is_gone_is_removed(kit: Kit, tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    short, long = night(1, 0.05, rounds=3), night(1, 0.05, rounds=5)
    store.add_new((short, night(2, 0.05)))
    public, env = tmp_path / "public", {"KIT_STORE": f"sqlite:///{tmp_path}/kit.db"}
    assert kit("site", public, **env).returncode == 0
    page = public / f"session/{short.id}.html"
    before = page.read_text()
    (public / "session/mine.txt").write_text("x")
    store.remove([short.id, "2026-0002"])
    store.add(long)
    done = kit("site", public, **env)
    assert done.returncode == 0 and "as they were" not in done.stdout
    assert page.read_text() != before and "5 rounds" in page.read_text()
    assert sorted(path.name for path in (public / "session").iterdir()) == [
        f"{long.id}.csv",
        f"{long.id}.html",
        "mine.txt",
    ]


def test_no_link_is_followed(kit: Kit, tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    store.add(night(1, 0.05))
    public, env = tmp_path / "public", {"KIT_STORE": f"sqlite:///{tmp_path}/kit.db"}
    assert kit("site", public, **env).returncode == 0
    (tmp_path / "other").write_text("other")
    (public / "index.html").unlink()
    (public / "index.html").symlink_to(tmp_path / "other")
    assert kit("site", public, **env).returncode == 0
    assert (tmp_path / "other").read_text() == "other" and not (public / "index.html").is_symlink()


def test_a_list_names_no_file_of_others(kit: Kit, tmp_path: Path) -> None:
    public, env = tmp_path / "public", {"KIT_STORE": f"sqlite:///{tmp_path}/kit.db"}
    assert kit("site", public, **env).returncode == 0
    victim = tmp_path / "victim.html"
    victim.write_text("x")
    (public / "kit-site.json").write_text('{"files": {"../victim.html": "", "gone.html": "", "index.html": ""}}')
    assert kit("site", public, **env).returncode == 0 and victim.exists()
    (public / "kit-site.json").write_text("{")
    assert "is damaged" in kit("site", public, **env).stderr


def test_a_file_that_another_put_beside_the_pages_is_left_alone(kit: Kit, tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    store.add(night(1, 0.05))
    public, env = tmp_path / "public", {"KIT_STORE": f"sqlite:///{tmp_path}/kit.db"}
    assert kit("site", public, **env).returncode == 0
    store.add(night(2, 0.05))
    mine = public / "session/2026-0002.html"
    mine.write_text("mine")
    done = kit("site", public, **env)
    assert done.returncode == 2 and f"{mine} is not of kit site" in done.stderr and mine.read_text() == "mine"
    mine.unlink()
    assert kit("site", public, **env).returncode == 0 and mine.read_text() != "mine"


def test_pages_of_a_run_that_was_killed_are_known_to_the_next(tmp_path: Path) -> None:
    begin_site(tmp_path, SiteList(), ["session/a.html", "session/b.html"])
    put_file(tmp_path, "session/a.html", "x")
    before = open_site(tmp_path)
    assert not is_kept(tmp_path, before, "session/a.html", "digest")
    begin_site(tmp_path, before, ["session/b.html"])
    close_site(tmp_path, before, SiteList({"session/b.html": "digest"}))
    assert not (tmp_path / "session/a.html").exists()


def test_nothing_is_removed_behind_a_link(kit: Kit, tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    store.add(night(1, 0.05))
    public, env = tmp_path / "public", {"KIT_STORE": f"sqlite:///{tmp_path}/kit.db"}
    assert kit("site", public, **env).returncode == 0
    (public / "session").rename(tmp_path / "other")
    (public / "session").symlink_to(tmp_path / "other")
    store.remove(["2026-0001"])
    done = kit("site", public, **env)
    assert done.returncode == 2 and "session: a link" in done.stderr and (tmp_path / "other/2026-0001.html").exists()
