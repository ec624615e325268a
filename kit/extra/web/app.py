"""The store in a browser: lists, sessions, comparisons, histories. Reads, writes nothing; bound to loopback."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.analyse import Analysis, analyse
from kit.core.errors import KitError, UsageError, not_installed
from kit.extra.web.fleet import show_fleet
from kit.extra.web.served import is_static, served_page
from kit.extra.web.token_auth import TokenAuth
from kit.model.fact import KERNEL
from kit.model.session import DONE, STATES, Session
from kit.report import render
from kit.report.format import units
from kit.report.format.units import machine_name
from kit.report.page.html import content_policy
from kit.report.page.page import TrackView, find_tracks, view
from kit.report.page.store_page import PageContent, StorePage, same, store_choices, store_pages
from kit.report.renderer import offered
from kit.report.text.ranking import result_line
from kit.report.text.session_diff import between_rows
from kit.store import SessionFilter, Store
from kit.store.store import COUNTED

if TYPE_CHECKING:
    from flask import Flask, Request, Response

    from kit.extra.fleet.client.status_cache import StatusCache

PAGE = 50  # sessions on one page of the list
_KEPT = 32  # analysed sessions in memory
_FORMS = {item.suffix: item for item in offered()}
FILE_FORM = "csv"  # of a session's data among static pages: small and soon made


class SessionCache:
    """Sessions of a store with their analyses, the latest asked for kept in memory. Safe for threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Session, Analysis]] = OrderedDict()

    @property
    def name(self) -> str:
        return self._store.name

    def heads(self, selection: SessionFilter, most: int, skip: int = 0) -> tuple[Session, ...]:
        """Return sessions without samples, newest first."""
        return self._store.list(selection, most, skip)

    def count(self, selection: SessionFilter) -> int:
        return self._store.count(selection)

    def options(self) -> dict[str, Mapping[str, str]]:
        """Return the choices and their labels, by name in the query."""
        return store_choices(self._store)

    def results(self, names: Sequence[str]) -> Mapping[str, Sequence[Comparison]]:
        """Return each session's results for real time of the whole run."""
        return self._store.results(names)

    def get(self, name: str) -> tuple[Session, Analysis]:
        """Return the session. A running one is read again each time. Raises UsageError if it is missing."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
            session = self._store.get(name)
            analysed = session, analyse(session)
            if session.status == DONE:
                self._kept[session.id] = analysed
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            return analysed

    def tracks(self, session: Session, analysis: Analysis) -> tuple[TrackView, ...]:
        """Return the session's series."""
        with self._lock:
            return find_tracks(session, analysis, self._store)

    def listed(self, static: bool) -> list[StorePage]:
        """Return the pages of extras that the list of sessions links to."""
        return [page for page in store_pages() if page.listed(self._store, static)]

    def page(self, page: StorePage, chosen: Mapping[str, str]) -> PageContent:
        """Return an extra's page. Raises UsageError."""
        with self._lock:
            return page.show(self._store, chosen)


def make_app(store: Store, token: str, status_cache: StatusCache | None = None) -> Flask:
    """Return the application, which requires ``token``. ``status_cache``: of a fleet, whose machines then have a page.
    Raises MachineError if flask is not installed."""
    try:
        from flask import Flask, request
    except ImportError:
        raise not_installed("kit serve needs", "flask", "serve") from None
    app = Flask("kit.extra.web.app", static_folder=None)
    library = SessionCache(store)

    def page(path: str, make: Callable[..., str | Response]) -> None:
        app.add_url_rule(path, path, lambda **names: make(library, request, **names), methods=["GET"])

    page("/", partial(_list, fleet=status_cache is not None))
    if status_cache:
        page("/fleet", partial(show_fleet, status_cache))
    page("/session/<name>", _session)
    page(f"/session/<name>.<any({', '.join(_FORMS)}):form>", _file)
    page("/compare", _compare)
    for added in store_pages():
        page(added.path, partial(_added, added))

    @app.errorhandler(KitError)
    def failed(error: KitError) -> tuple[str, int]:
        status = 404 if isinstance(error, UsageError) else 500
        return served_page("message.html.j2", title=error.message, message=error.hint), status

    @app.errorhandler(404)
    def unknown(error: Exception) -> tuple[str, int]:
        return served_page("message.html.j2", title="There is no such page", message="Go back to the list."), 404

    @app.after_request
    def close_off(response: Response) -> Response:
        """Set headers: a page of this store contacts no other server, and no other page may frame it."""
        response.headers["Content-Security-Policy"] = content_policy()
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response

    @app.before_request
    def only_here() -> tuple[str, int] | None:
        """Refuse other host names: a foreign server's name for this address would let its pages read the store (DNS
        rebinding)."""
        host = request.host.rpartition(":")[0] or request.host
        if host.strip("[]") not in ("localhost", "127.0.0.1", "::1"):
            return served_page("message.html.j2", title="Not here", message="Use http://127.0.0.1 or localhost."), 403
        return None

    TokenAuth(token).guard(app)
    return app


def _chosen(request: Request, *names: str) -> dict[str, str]:
    """Return the query's values without characters that no name in the store contains."""
    return {name: request.args.get(name, "").replace("\0", "").strip() for name in names}


def _page_number(text: str, last: int) -> int:
    """Return the page number, limited to 1 … ``last``."""
    return min(max(int(text), 1), last) if re.fullmatch("[0-9]{1,9}", text) else 1


def _list(library: SessionCache, request: Request, fleet: bool) -> str:
    """Return the page of sessions, filtered by machine, scenario, arm and status."""
    from flask import current_app

    names = ("scenario", "arm", "machine", "status")
    chosen = _chosen(request, *names)
    selection = SessionFilter(*(chosen[name] for name in names))
    count = library.count(selection)
    last = max(1, -(-count // PAGE))
    number = _page_number(request.args.get("page", ""), last)
    options = {**library.options(), "status": same(STATES)}
    heads = library.heads(selection, PAGE, (number - 1) * PAGE)
    results = library.results([head.id for head in heads])
    rows = [
        {
            "id": head.id,
            "result": result_line(results.get(head.id, ())),
            "title": head.title,
            "when": units.moment(head.created),
            "status": head.status,
            "arms": ", ".join(head.arms),
            "machine": machine_name(head.facts),
            "kernel": KERNEL.text(head.facts).split(" ")[0],
            "guest": bool(head.guest),
        }
        for head in heads
    ]
    return served_page(
        "list.html.j2", title="Sessions", rows=rows, options=options, chosen=chosen, page=number, last=last,
        count=count, more=count == COUNTED, store=library.name, fleet=fleet,
        pages=library.listed(is_static(current_app)),
    )  # fmt: skip


def _session(library: SessionCache, request: Request, name: str) -> str:
    session, analysis = library.get(name)
    from flask import current_app

    static = is_static(current_app)
    links = [
        (f"all as {form.upper()}", f"{request.script_root}/session/{quote(session.id, safe='')}.{form}")
        for form in sorted(_FORMS)
        if not static or form == FILE_FORM
    ]
    tracks = () if static else library.tracks(session, analysis)  # which are files of their own
    session_view = view(session, analysis, tracks, links=links)
    linked = [(page, page_links) for page in store_pages() if (page_links := page.session_links(session, analysis))]
    return served_page(
        "served.html.j2", title=session.title, view=session_view, linked=linked,
    )  # fmt: skip


def _file(library: SessionCache, request: Request, name: str, form: str) -> Response:
    from flask import Response

    session, analysis = library.get(name)
    renderer = _FORMS[form]
    return Response(render(renderer.name, session, analysis), content_type=f"{renderer.mime}; charset=utf-8")


def _added(page: StorePage, library: SessionCache, request: Request) -> str:
    content = library.page(page, _chosen(request, *page.choices))
    return served_page(content.template, **content.values)


def _compare(library: SessionCache, request: Request) -> str:
    from kit.analysis.session.session_diff import compare_sessions

    names = _chosen(request, "a", "b")
    sessions = library.heads(SessionFilter(), 500)
    values: dict[str, Any] = {"title": "Two sessions side by side", "sessions": sessions, "chosen": names}
    if not (names["a"] and names["b"]):
        return served_page("compare.html.j2", **values, found=None, headers=(), rows=(), lines=())
    first, second = library.get(names["a"]), library.get(names["b"])
    difference = compare_sessions(first, second)
    headers, rows, lines = between_rows(first[0], second[0], difference)
    return served_page("compare.html.j2", **values, found=difference, headers=headers, rows=rows, lines=lines)
