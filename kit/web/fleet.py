"""The page of a fleet: what ``kit fleet status`` says, anew every few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.report import units
from kit.report.fleet import view_members
from kit.report.html import render_page

if TYPE_CHECKING:
    from flask import Request

    from kit.fleet.lookout import Lookout

#: Seconds after which a browser asks again. The page needs no script for it, and so no leave to talk to anyone.
EVERY = 3


def show_fleet(lookout: Lookout, _: object, request: Request) -> str:
    """``?hold=1``: as it is now, for whoever wants to read it in peace."""
    sight = lookout.look()
    return render_page(
        "fleet.html.j2", title="Fleet", away=sight.away, when=units.moment(sight.when, "%H:%M:%S"), every=EVERY,
        hold=bool(request.args.get("hold")), view=None if sight.away else view_members(sight.members),
    )  # fmt: skip
