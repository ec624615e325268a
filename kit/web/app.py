"""The store in a browser: lists, sessions, comparisons, histories. Reads, writes nothing; bound to loopback."""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kit.analysis.analyse import Analysis, analyse, whole_real
from kit.analysis.changepoint import CONFIRM, Track, find_changes
from kit.analysis.compare import Comparison
from kit.analysis.history import split
from kit.core.errors import KitError, UsageError, not_installed
from kit.model.fact import KERNEL, WORKER, makers
from kit.model.session import DONE, STATES, Session
from kit.report import render, units
from kit.report.between import between_rows
from kit.report.html import content_policy, render_page
from kit.report.machine import machine_name
from kit.report.page import track_view, view
from kit.report.ranking import result_line
from kit.report.renderer import offered
from kit.store import Store, Wanted
from kit.store.series import find_tracks
from kit.store.store import COUNTED
from kit.web.farm import CHOICES, show_farm
from kit.web.fleet import show_fleet

if TYPE_CHECKING:
    from flask import Flask, Request, Response

    from kit.fleet.lookout import Lookout

PAGE = 50  # sessions on one page of the list
_KEPT = 32  # analysed sessions in memory
_FORMS = {item.suffix: item for item in offered()}


class Library:
    """Sessions of a store with their analyses, the latest asked for kept in memory. Safe for threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Session, Analysis]] = OrderedDict()

    @property
    def name(self) -> str:
        return self._store.name

    def heads(self, wanted: Wanted, most: int, skip: int = 0) -> tuple[Session, ...]:
        """Sessions without samples, newest first."""
        return self._store.list(wanted, most, skip)

    def count(self, wanted: Wanted) -> int:
        return self._store.count(wanted)

    def options(self) -> dict[str, Mapping[str, str]]:
        """What can be chosen and what it is called, by the name that a query has for it."""
        machines = {machine: machine_name(facts) for machine, facts in self._store.machines().items()}
        by_name = dict(sorted(machines.items(), key=lambda item: item[1]))
        return {"scenario": _same(self._store.titles()), "arm": _same(self._store.arms()), "machine": by_name}

    def results(self, names: Sequence[str]) -> Mapping[str, Sequence[Comparison]]:
        """What each session found of real time of the whole run."""
        return self._store.results(names)

    def get(self, name: str) -> tuple[Session, Analysis]:
        """Raises UsageError where there is no such session. One that still runs is read anew each time."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
            session = self._store.get(name)
            found = session, analyse(session)
            if session.status == DONE:
                self._kept[session.id] = found
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            return found

    def tracks(self, session: Session, analysis: Analysis) -> list[Track]:
        """Of two sessions and more."""
        with self._lock:
            return [item for item in find_tracks(session, analysis, self._store) if len(item.series.entries) > 1]

    def history(self, scenario: str, arm: str, phase: str, metric: str, machine: str) -> list[Track]:
        """Every series of an arm, of each point and baseline, the newest first."""
        with self._lock:
            entries = self._store.history(scenario, arm, phase, metric, machine)
        groups: dict[tuple[str, str], list[Any]] = {}
        for entry in entries:
            found = entry.outcome.comparison
            groups.setdefault((found.baseline, found.point), []).append(entry)
        series = [one for listed in groups.values() for one in reversed(split(listed))]
        return [Track(one, find_changes(one), CONFIRM) for one in series]

    def farm(self, chosen: Mapping[str, str]) -> str:
        """The page of what many machines say together. Raises UsageError."""
        with self._lock:
            return show_farm(self._store, chosen)


def make_app(store: Store, token: str, lookout: Lookout | None = None) -> Flask:
    """The application; who can't show ``token`` sees nothing. ``lookout``: on a fleet, whose machines have a page then.
    Raises MachineError where flask is not installed."""
    try:
        from flask import Flask, request
    except ImportError:
        raise not_installed("kit serve needs", "flask", "serve") from None
    app = Flask("kit.web.app", static_folder=None)
    library = Library(store)

    def page(path: str, make: Callable[..., str | Response]) -> None:
        app.add_url_rule(path, path, lambda **names: make(library, request, **names), methods=["GET"])

    page("/", partial(_list, fleet=lookout is not None))
    if lookout:
        page("/fleet", partial(show_fleet, lookout))
    page("/session/<name>", _session)
    page(f"/session/<name>.<any({', '.join(_FORMS)}):form>", _file)
    page("/compare", _compare)
    page("/history", _history)
    page("/farm", lambda library, request: library.farm(_chosen(request, *CHOICES)))

    @app.errorhandler(KitError)
    def failed(error: KitError) -> tuple[str, int]:
        status = 404 if isinstance(error, UsageError) else 500
        return render_page("message.html.j2", title=error.message, message=error.hint), status

    @app.errorhandler(404)
    def unknown(error: Exception) -> tuple[str, int]:
        return render_page("message.html.j2", title="There is no such page", message="Go back to the list."), 404

    @app.after_request
    def close_off(response: Response) -> Response:
        """A page of this store talks to no one else, and no other page may frame it."""
        response.headers["Content-Security-Policy"] = content_policy()
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response

    @app.before_request
    def only_here() -> tuple[str, int] | None:
        """A name that someone else's server gave this address would let its pages read the store (DNS rebinding)."""
        host = request.host.rpartition(":")[0] or request.host
        if host.strip("[]") not in ("localhost", "127.0.0.1", "::1"):
            return render_page("message.html.j2", title="Not here", message="Use http://127.0.0.1 or localhost."), 403
        return None

    app.before_request(Door(token).check)
    return app


def _same(values: Sequence[str]) -> dict[str, str]:
    """What is called what it is."""
    return {value: value for value in values}


class Door:
    """Who may see the store: whoever has the printed URL. Other users of the machine reach its loopback address too.

    The URL's token is changed for a cookie at the first visit, so that it stays in no address line; a program shows it
    as ``Authorization: Bearer TOKEN``.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        # Of its own for each token: browsers send a cookie to every port, and two servers must not take each other's.
        self._cookie = f"kit-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    def check(self) -> Response | tuple[str, int] | None:
        from flask import redirect, request

        header = request.headers.get("Authorization", "")
        if self._fits(request.cookies.get(self._cookie, "")) or self._fits(header.removeprefix("Bearer ")):
            return None
        if self._fits(request.args.get("token", "")):
            answer: Any = redirect("/", 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
            return answer  # type: ignore[no-any-return]
        message = "Open the whole URL that kit serve has printed: it ends in a token, new with each start."
        return render_page("message.html.j2", title="Not without the token", message=message), 403

    def _fits(self, text: str) -> bool:
        """In a time that does not tell how much of it was right."""
        return hmac.compare_digest(text.encode(errors="replace"), self._token.encode())


def _chosen(request: Request, *names: str) -> dict[str, str]:
    """What the query says; a character that no name of the store can hold is left out."""
    return {name: request.args.get(name, "").replace("\0", "").strip() for name in names}


def _page_number(text: str, last: int) -> int:
    """Within 1 and ``last``, whatever a query says."""
    return min(max(int(text), 1), last) if re.fullmatch("[0-9]{1,9}", text) else 1


def _list(library: Library, request: Request, fleet: bool) -> str:
    """Sessions, filtered by machine, scenario, arm and status, a page at a time."""
    names = ("scenario", "arm", "machine", "status")
    chosen = _chosen(request, *names)
    wanted = Wanted(*(chosen[name] for name in names))
    count = library.count(wanted)
    last = max(1, -(-count // PAGE))
    number = _page_number(request.args.get("page", ""), last)
    options = {**library.options(), "status": _same(STATES)}
    shown = library.heads(wanted, PAGE, (number - 1) * PAGE)
    results = library.results([item.id for item in shown])
    rows = [
        {
            "id": item.id,
            "result": result_line(results.get(item.id, ())),
            "title": item.title,
            "when": units.moment(item.created),
            "status": item.status,
            "arms": ", ".join(item.arms),
            "machine": machine_name(item.facts),
            "kernel": KERNEL.text(item.facts).split(" ")[0],
            "guest": bool(item.guest),
        }
        for item in shown
    ]
    return render_page(
        "list.html.j2", title="Sessions", rows=rows, options=options, chosen=chosen, page=number, last=last,
        count=count, more=count == COUNTED, store=library.name, fleet=fleet,
    )  # fmt: skip


def _session(library: Library, request: Request, name: str) -> str:
    session, analysis = library.get(name)
    links = [(f"all as {form.upper()}", f"/session/{quote(session.id, safe='')}.{form}") for form in sorted(_FORMS)]
    made = view(session, analysis, library.tracks(session, analysis), links=links)
    arms = [item.arm for item in whole_real(analysis.comparisons) if not item.control]
    return render_page(
        "served.html.j2", title=session.title, view=made, arms=list(dict.fromkeys(arms)),
        worker="" if makers(session.facts) else WORKER.text(session.facts),
    )  # fmt: skip


def _file(library: Library, request: Request, name: str, form: str) -> Response:
    from flask import Response

    session, analysis = library.get(name)
    renderer = _FORMS[form]
    return Response(render(renderer.name, session, analysis), content_type=f"{renderer.mime}; charset=utf-8")


def _compare(library: Library, request: Request) -> str:
    from kit.analysis.two_sessions import compare_sessions

    names = _chosen(request, "a", "b")
    sessions = library.heads(Wanted(), 500)
    values: dict[str, Any] = {"title": "Two sessions side by side", "sessions": sessions, "chosen": names}
    if not (names["a"] and names["b"]):
        return render_page("compare.html.j2", **values, found=None, headers=(), rows=(), lines=())
    one, two = library.get(names["a"]), library.get(names["b"])
    found = compare_sessions(one, two)
    headers, rows, lines = between_rows(found)
    return render_page("compare.html.j2", **values, found=found, headers=headers, rows=rows, lines=lines)


def _history(library: Library, request: Request) -> str:
    chosen = _chosen(request, "scenario", "arm", "phase", "metric", "machine")
    options = library.options()
    tracks: Sequence[Track] = ()
    if chosen["scenario"] and chosen["arm"]:
        tracks = library.history(**{**chosen, "metric": chosen["metric"] or "real"})
    views = [track_view(item, (), f"history-{i}") for i, item in enumerate(tracks, 1)]
    return render_page("history.html.j2", title="History", options=options, chosen=chosen, tracks=views)
