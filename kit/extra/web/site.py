"""The store as files: the pages of ``kit serve``, made by the same application, with links from file to file."""

from __future__ import annotations

import hashlib
import html
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from posixpath import dirname, relpath
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from kit import __version__
from kit.core.errors import UsageError, said_by_system
from kit.extra.web.app import FILE_FORM, PAGE, make_app
from kit.extra.web.served import STATIC
from kit.extra.web.site_directory import SiteList, begin_site, close_site, is_kept, open_site, put_file
from kit.host.command import process_pool
from kit.model.session import RUNNING, Session
from kit.report.page.store_page import address_of, store_pages
from kit.store import SessionFilter, Store

_LINK = re.compile(r'href="([^"]*)"')
_INDEX = "index.html"
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
    """Write every page but those of sessions that have not changed since the last run, and remove those of sessions
    that are gone. ``rewrite``: all pages. ``open_store``: called in each process, since none shares a connection.
    Raises UsageError if the directory has files of something else, or can't be written to."""
    before = open_site(directory)
    store = open_store()
    try:
        heads = [head for head in store.list() if head.status != RUNNING]
        files = find_pages(store, heads)
        digests = _digests(heads, store.sample_counts(), files)
    finally:
        store.close()
    begin_site(directory, before, files.values())
    digest_by_file = {file: digests.get(file, "") for file in files.values()}
    urls = [url for url, file in files.items() if rewrite or not is_kept(directory, before, file, digest_by_file[file])]
    chunks = [urls[i : i + _CHUNK] for i in range(0, len(urls), _CHUNK)]
    write = partial(_write, open_store, directory, files)
    if processes > 1 and len(chunks) > 1:
        with process_pool(processes) as pool:
            failed = dict(pair for pairs in pool.map(write, chunks) for pair in pairs)
    else:
        failed = dict(pair for chunk in chunks for pair in write(chunk))
    there = {file: digest for file, digest in digest_by_file.items() if file not in {files[url] for url in failed}}
    close_site(directory, before, SiteList(there))
    return Site(len(there), len(files) - len(urls), tuple(f"{unquote(url)}: {why}" for url, why in failed.items()))


def _digests(heads: Sequence[Session], counts: Mapping[str, int], files: Mapping[str, str]) -> dict[str, str]:
    """Return what the files of each session are made of: a session that is continued has more samples, and has links
    to pages of its scenario."""
    digests: dict[str, str] = {}
    for head in heads:
        linked = [files.get(address_of(page.path, scenario=head.title)) for page in store_pages()]
        parts = __version__, head.status, counts.get(head.id, 0), head.not_run, sorted(head.facts.items()), linked
        digest = hashlib.sha256(repr(parts).encode()).hexdigest()
        digests |= dict.fromkeys((file for _, file in _sessions([head])), digest)
    return digests


def find_pages(store: Store, heads: Sequence[Session]) -> dict[str, str]:
    """Return the file of each page, by its address on a server; the most important first. ``heads``: sessions that
    have a page."""
    files = {"/": _INDEX}
    for number in range(2, -(-store.count(SessionFilter()) // PAGE) + 1):
        files[f"/?page={number}"] = f"page-{number}.html"
    for page in store_pages():
        files |= dict(page.files(store))
    return files | dict(_sessions(heads))


def _sessions(heads: Sequence[Session]) -> Iterator[tuple[str, str]]:
    for head in heads:
        for suffix, ending in (("", ".html"), (f".{FILE_FORM}",) * 2):
            yield f"/session/{head.id}{suffix}", f"session/{head.id}{ending}"


def _write(
    open_store: Open, directory: Path, files: Mapping[str, str], urls: Sequence[str]
) -> list[tuple[str, str]]:  # fmt: skip
    """Make these pages, and return those that could not be made, with the reason."""
    store, token = open_store(), secrets.token_urlsafe()
    app = make_app(store, token)
    app.config[STATIC] = True
    client = app.test_client()
    failed = []
    try:
        for url in urls:
            answer = client.get(url, headers={"Authorization": f"Bearer {token}"})
            if answer.status_code != 200:
                failed.append((url, _title(answer.text)))
                continue
            text = answer.text
            if files[url].endswith(".html"):
                text = _LINK.sub(partial(_linked, files, url), text)
            put_file(directory, files[url], text)
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
    path, query = unquote(parts.path) or urlsplit(url).path, dict(parse_qsl(parts.query))
    file = files.get(address_of(path, **query), "")
    if not file and not query:  # of no scenario: the first that has a file
        file = next((name for other, name in files.items() if other.startswith(f"{path}?")), "")
    file = file or _INDEX
    return f'href="{quote(relpath(file, dirname(files[url]) or "."))}"'


def _title(page: str) -> str:
    heading = re.search(r"<h1>(.*?)</h1>", page)
    return html.unescape(heading[1]) if heading else "no page"


def usable_processes() -> int:
    return len(os.sched_getaffinity(0))
