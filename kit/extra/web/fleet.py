"""The page of a fleet's machines: the output of ``kit fleet status``, refreshed regularly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.extra.fleet.report.machines import view_members
from kit.extra.web.served import served_page
from kit.report.format import units

if TYPE_CHECKING:
    from flask import Request

    from kit.extra.fleet.client.status_cache import StatusCache

#: Seconds after which a browser reloads. The page needs no script for this, and so no right to connect.
EVERY = 3


def show_fleet(status_cache: StatusCache, _: object, request: Request) -> str:
    """Return the page of the fleet. ``?hold=1``: without reloads."""
    snapshot = status_cache.look()
    return served_page(
        "fleet.html.j2", title="Fleet", away=snapshot.away, when=units.moment(snapshot.when, "%H:%M:%S"), every=EVERY,
        hold=bool(request.args.get("hold")), view=None if snapshot.away else view_members(snapshot.members),
    )  # fmt: skip
