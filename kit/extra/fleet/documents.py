"""The documents of ``kit fleet show --json`` and ``kit fleet status --json``."""

from __future__ import annotations

from kit.cli.document import Document, fields_of, list_of, record
from kit.extra.fleet.analysis.answer import FleetAnswer, FleetArm
from kit.extra.fleet.analysis.cost import FleetRatio
from kit.model.machine import Member, ShareStatus

_ENDS = dict.fromkeys(("low", "high", "low_all", "high_all"), float | None)
_OF_FLEET = fields_of(FleetRatio, ratio=float | None, **_ENDS)
_FLEET_ARM = record("FleetArmRecord", **fields_of(
    FleetArm, whole=record("FleetRatioRecord", **_OF_FLEET, verdict=str), classes_differ=bool,
    classes=list_of(record("FleetRatio", **_OF_FLEET)),
))  # fmt: skip

SHOW = Document("kit fleet show --json", fields_of(FleetAnswer, arms=list_of(_FLEET_ARM)), 2, after="nightly")
STATUS = Document("kit fleet status --json", {
    "machines": list_of(record("MachineStatus", **fields_of(Member), runs=list[ShareStatus])),
}, after="fleet-show")  # fmt: skip
