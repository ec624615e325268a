"""The store as files: the pages of ``kit serve``, made by the same application, with links from file to file."""

from __future__ import annotations

import hashlib
import html
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from posixpath import dirname, relpath
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from kit import __version__
from kit.analysis.runs.compare import is_control
from kit.core.errors import UsageError, said_by_system
from kit.model.fact import WORKER
from kit.model.session import DONE, RUNNING, Session
from kit.store import SessionFilter, Store
from kit.store.matrix import MatrixQuestion, find_matrix
from kit.web.app import FILE_FORM, PAGE, make_app
from kit.web.served import STATIC

_LINK = re.compile(r'href="([^"]*)"')
_INDEX = "index.html"
#: The directory of sessions' pages, and the bytes of a page that name the version of the kit.
_SESSIONS, _HEAD = "session", 1000
#: Pages that one process makes before it takes more.
_CHUNK = 20

Open = Callable[[], Store]


@dataclass(frozen=True)
class Site:
    """``files``: number of files. ``kept``: how many of them were there already. ``failed``: pages that could not be
    made, with the reason."""

    files: int
    kept: int = 0
    failed: tuple[str, ...] = ()


def write_site(open_store: Open, directory: Path, processes: int, rewrite: bool = False) -> Site:
    """Write every page but those of finished sessions that this version of the kit has written: such a session does
    not change. ``rewrite``: those too. ``open_store``: called in each process, since none shares a connection. Raises
    UsageError if a file can't be written."""
    store = open_store()
    try:
        heads = [head for head in store.list() if head.status != RUNNING]
        files = find_pages(store, heads)
    finally:
        store.close()
    try:
        for name in sorted({dirname(file) for file in files.values()}):
            (directory / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(said_by_system(error), "name a directory that you may write to") from None
    done = set() if rewrite else {head.id for head in heads if head.status == DONE}
    urls = [url for url, file in files.items() if not _is_kept(directory, file, done)]
    chunks = [urls[i : i + _CHUNK] for i in range(0, len(urls), _CHUNK)]
    write = partial(_write, open_store, directory, files)
    if processes > 1 and len(chunks) > 1:
        with ProcessPoolExecutor(processes) as pool:
            failed = [line for lines in pool.map(write, chunks) for line in lines]
    else:
        failed = [line for chunk in chunks for line in write(chunk)]
    return Site(len(files) - len(failed), len(files) - len(urls), tuple(failed))


def _is_kept(directory: Path, file: str, done: Collection[str]) -> bool:
    """Return whether the file is of one of these sessions, and its page by this version."""
    path = directory / file
    if dirname(file) != _SESSIONS or path.stem not in done or not path.is_file():
        return False
    with path.with_suffix(".html").open("rb") as page:
        return f'kit {__version__}"'.encode() in page.read(_HEAD)


def find_pages(store: Store, heads: Sequence[Session]) -> dict[str, str]:
    """Return the file of each page, by its address on a server; the most important first. ``heads``: sessions that
    have a page."""
    files = {"/": _INDEX}
    for number in range(2, -(-store.count(SessionFilter()) // PAGE) + 1):
        files[f"/?page={number}"] = f"page-{number}.html"
    files |= dict(_matrices(store))
    titles = dict.fromkeys(head.title for head in heads if WORKER.text(head.facts))
    for number, title in enumerate(titles):
        files[_address("/machines", scenario=title)] = f"machines/{_slug(title)}.html"
        if not number:
            files["/machines"] = "machines.html"
    for title, arm in dict.fromkeys((head.title, arm) for head in heads for arm in _compared(head)):
        files[_address("/history", scenario=title, arm=arm)] = f"history/{_slug(f'{title} {arm}')}.html"
    return files | dict(_sessions(heads))


def _compared(head: Session) -> Iterator[str]:
    missing = {item.arm for item in head.not_run}
    yield from (arm for arm, _ in head.baselines if arm not in missing and not is_control(arm))


def _matrices(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the pages of the classes of machines that have compared arms."""
    try:
        found = find_matrix(store, MatrixQuestion())
    except UsageError:
        return
    yield "/matrix", "matrix.html"
    yield _address("/matrix", **{"class": found.machine_class}), f"matrix-{_slug(found.machine_class)}.html"
    for name in found.classes:
        with suppress(UsageError):
            find_matrix(store, MatrixQuestion(machine_class=name))
            yield _address("/matrix", **{"class": name}), f"matrix-{_slug(name)}.html"


def _sessions(heads: Sequence[Session]) -> Iterator[tuple[str, str]]:
    for head in heads:
        for suffix, ending in (("", ".html"), (f".{FILE_FORM}",) * 2):
            yield f"/session/{head.id}{suffix}", f"{_SESSIONS}/{head.id}{ending}"


def _slug(text: str) -> str:
    """Return a file's name: words that people know, and a digest that no other text has."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
    return f"{words}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _address(path: str, **query: str) -> str:
    """Return an address as links have it: empty values left out, names in order."""
    given = sorted((name, value) for name, value in query.items() if value)
    return f"{path}?{urlencode(given)}" if given else path


def _write(open_store: Open, directory: Path, files: Mapping[str, str], urls: Sequence[str]) -> list[str]:
    """Make these pages, and return the lines of those that could not be made."""
    store, token = open_store(), secrets.token_urlsafe()
    app = make_app(store, token)
    app.config[STATIC] = True
    client = app.test_client()
    failed = []
    try:
        for url in urls:
            answer = client.get(url, headers={"Authorization": f"Bearer {token}"})
            if answer.status_code != 200:
                failed.append(f"{unquote(url)}: {_title(answer.text)}")
                continue
            text = answer.text
            if files[url].endswith(".html"):
                text = _LINK.sub(partial(_linked, files, url), text)
            (directory / files[url]).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(said_by_system(error), "name a directory that you may write to") from None
    finally:
        store.close()
    return failed


def _linked(files: Mapping[str, str], url: str, match: re.Match[str]) -> str:
    """Return the link to a file, relative to that of ``url``. What has no file leads to the first page."""
    address = html.unescape(match[1])
    if address.startswith(("#", "data:")):
        return match[0]
    parts = urlsplit(address)
    path = unquote(parts.path) or urlsplit(url).path
    file = files.get(_address(path, **dict(parse_qsl(parts.query))), _INDEX)
    return f'href="{quote(relpath(file, dirname(files[url]) or "."))}"'


def _title(page: str) -> str:
    found = re.search(r"<h1>(.*?)</h1>", page)
    return html.unescape(found[1]) if found else "no page"


def usable_processes() -> int:
    return len(os.sched_getaffinity(0))


def check_directory(directory: Path) -> None:
    """Refuse a directory with files of something else. Raises UsageError."""
    if directory.is_dir() and any(directory.iterdir()) and not (directory / _INDEX).is_file():
        raise UsageError(f"{directory} has other files", "name an empty directory, or that of an earlier kit site")
