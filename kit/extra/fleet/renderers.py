"""The outputs of ``kit fleet show``."""

from __future__ import annotations

from kit.report.renderer import Renderer

#: The subject; its argument is a FleetAnswer.
FLEET = "fleet"

_COST = "kit.extra.fleet.report.cost"

#: The default first.
RENDERERS = (
    Renderer("table", FLEET, f"{_COST}:render_fleet_cost", "a table, the answer first"),
    Renderer("markdown", FLEET, f"{_COST}:render_fleet_cost_markdown", "a table as Markdown", "md"),
    Renderer("json", FLEET, f"{_COST}:render_fleet_cost_json", "arms, classes and machines as JSON", "json"),
    Renderer("csv", FLEET, f"{_COST}:render_fleet_cost_csv", "a line for each arm, class and machine", "csv"),
)
