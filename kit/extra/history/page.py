"""The page of histories, and the series on a session's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kit.analysis.runs.compare import is_control
from kit.analysis.session.analyse import Analysis, whole_real
from kit.analysis.session.entry import Entry
from kit.extra.history.analysis.changepoint import ChangeHistory, confirming, find_changes
from kit.extra.history.analysis.series import split
from kit.extra.history.report.page import track_view, track_views
from kit.extra.history.tracks import find_tracks, newest_request
from kit.model.session import RUNNING, Session
from kit.report.format.sanitize import shown
from kit.report.page.page import TrackView
from kit.report.page.store_page import PageContent, PageLinks, StorePage, address_of, slug, store_choices
from kit.store import Store

_PATH = "/history"
#: The choices, by name in the query.
_CHOICES = ("scenario", "arm", "phase", "metric", "machine")


def session_tracks(session: Session, analysis: Analysis, store: Store) -> tuple[TrackView, ...]:
    """Return the session's series."""
    return track_views(find_tracks(session, analysis, store), shown(session).id)


def show_history(store: Store, chosen: Mapping[str, str]) -> PageContent:
    """Return the page of an arm's series."""
    series = _find_series(store, chosen) if chosen["scenario"] and chosen["arm"] else []
    tracks = [track_view(track, (), f"history-{i}") for i, track in enumerate(series, 1)]
    values = {"title": "History", "options": store_choices(store), "chosen": chosen, "tracks": tracks}
    return PageContent("history.html.j2", values)


def _find_series(store: Store, chosen: Mapping[str, str]) -> list[ChangeHistory]:
    """Return every series of an arm, of each point and baseline, the newest first."""
    scenario, arm, machine = chosen["scenario"], chosen["arm"], chosen["machine"]
    entries = store.history(scenario, arm, chosen["phase"], chosen["metric"] or "real", machine)
    request = newest_request(store, scenario, arm, machine)
    confirm = confirming(request)
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        comparison = entry.outcome.comparison
        groups.setdefault((comparison.baseline, comparison.point), []).append(entry)
    series = [one_series for listed in groups.values() for one_series in reversed(split(listed, request.ignore))]
    return [ChangeHistory(one_series, find_changes(one_series, confirm), confirm) for one_series in series]


def page_files(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the pages, one for each arm of a scenario that was compared."""
    heads = [head for head in store.list() if head.status != RUNNING]
    for title, arm in dict.fromkeys((head.title, arm) for head in heads for arm in _compared(head)):
        yield address_of(_PATH, scenario=title, arm=arm), f"history/{slug(f'{title} {arm}')}.html"


def _compared(head: Session) -> Iterator[str]:
    missing = {blocked.arm for blocked in head.not_run}
    yield from (arm for arm, _ in head.baselines if arm not in missing and not is_control(arm))


def _links(session: Session, analysis: Analysis) -> PageLinks | None:
    """Return a link for each arm of the session."""
    arms = dict.fromkeys(comparison.arm for comparison in whole_real(analysis.comparisons) if not comparison.control)
    links = [(arm, {"scenario": shown(session).title, "arm": arm}) for arm in arms]
    return PageLinks("Histories:", links) if links else None


def _is_listed(store: Store, static: bool) -> bool:
    """Return whether the list has a link: among static pages only those of sessions have one."""
    return not static


PAGES = (StorePage(_PATH, "History", _CHOICES, show_history, page_files, _is_listed, _links),)
