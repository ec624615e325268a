"""The page of costs over machines: the output of ``kit fleet show``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from kit.analysis.session.analyse import Analysis
from kit.core.errors import UsageError
from kit.extra.fleet.report.cost import view_fleet_cost
from kit.extra.fleet.stored import FleetQuestion, answer_fleet
from kit.model.fact import WORKER, makers
from kit.model.session import DONE, Session
from kit.report.format.sanitize import shown
from kit.report.page.store_page import PageContent, PageLinks, StorePage, address_of, slug
from kit.store import Store

_PATH = "/machines"
#: The choices, by name in the query.
_CHOICES = ("scenario", "class", "since", "phase", "metric")


def show_fleet_cost(store: Store, chosen: Mapping[str, str]) -> PageContent:
    """Return the page of the fleet's answer. Raises UsageError."""
    question = FleetQuestion(
        chosen["scenario"], chosen["class"], _day(chosen["since"]), chosen["phase"], chosen["metric"] or "real"
    )
    fleet = answer_fleet(store, question)
    classes = sorted({*fleet.classes, *filter(None, [chosen["class"]])})
    values = {"title": "Costs over machines", "view": view_fleet_cost(fleet), "scenarios": store.titles()}
    form = {"chosen": {**chosen, "scenario": fleet.title}, "classes": classes}
    return PageContent("fleet_cost.html.j2", {**values, **form})


def _day(text: str) -> float | None:
    """Return the beginning of the day in Unix time; None for ''."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp() if text else None
    except ValueError:
        raise UsageError(f"since {text}: not a day", "use for example 2026-11-01") from None


def page_files(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the pages, one for each scenario that machines of a fleet have measured."""
    heads = [head for head in store.list() if head.status == DONE and WORKER.text(head.facts)]
    for title in dict.fromkeys(head.title for head in heads):
        yield address_of(_PATH, scenario=title), f"machines/{slug(title)}.html"


def _links(session: Session, analysis: Analysis) -> PageLinks | None:
    """Return a link for a session that one machine of a fleet ran by itself."""
    session = shown(session)
    worker = "" if makers(session.facts) else WORKER.text(session.facts)
    links = [("What all machines say together", {"scenario": session.title})]
    return PageLinks(f"This is {worker} alone.", links, first=True) if worker else None


def _is_listed(store: Store, static: bool) -> bool:
    """Return whether the list has a link: among static pages, only if machines of a fleet have sessions."""
    return not static or any(WORKER.text(facts) for facts in store.machines().values())


PAGES = (StorePage(_PATH, "Costs over machines", _CHOICES, show_fleet_cost, page_files, _is_listed, _links),)
