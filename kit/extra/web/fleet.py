"""The pages of a fleet: the output of ``kit fleet status``, refreshed regularly, and of ``kit fleet show``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kit.core.errors import UsageError
from kit.extra.web.served import served_page
from kit.report.fleet.cost import view_fleet_cost
from kit.report.fleet.machines import view_members
from kit.report.format import units
from kit.store import Store
from kit.store.fleet_cost import FleetQuestion, answer_fleet

if TYPE_CHECKING:
    from flask import Request

    from kit.fleet.client.status_cache import StatusCache

#: Seconds after which a browser reloads. The page needs no script for this, and so no right to connect.
EVERY = 3

#: The choices, by name in the query.
CHOICES = ("scenario", "class", "since", "phase", "metric")


def show_fleet(status_cache: StatusCache, _: object, request: Request) -> str:
    """Return the page of the fleet. ``?hold=1``: without reloads."""
    snapshot = status_cache.look()
    return served_page(
        "fleet.html.j2", title="Fleet", away=snapshot.away, when=units.moment(snapshot.when, "%H:%M:%S"), every=EVERY,
        hold=bool(request.args.get("hold")), view=None if snapshot.away else view_members(snapshot.members),
    )  # fmt: skip


def show_fleet_cost(store: Store, chosen: Mapping[str, str]) -> str:
    """Return the page of the fleet's answer. Raises UsageError."""
    asked = FleetQuestion(
        chosen["scenario"], chosen["class"], _day(chosen["since"]), chosen["phase"], chosen["metric"] or "real"
    )
    fleet = answer_fleet(store, asked)
    classes = sorted({*fleet.classes, *filter(None, [chosen["class"]])})
    return served_page(
        "fleet_cost.html.j2", title="Costs over machines", view=view_fleet_cost(fleet),
        chosen={**chosen, "scenario": fleet.title}, scenarios=store.titles(), classes=classes,
    )  # fmt: skip


def _day(text: str) -> float | None:
    """Return the beginning of the day in Unix time; None for ''."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp() if text else None
    except ValueError:
        raise UsageError(f"since {text}: not a day", "use for example 2026-11-01") from None
