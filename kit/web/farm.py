"""The page of a farm: what ``kit fleet show`` says of stored sessions of many machines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from kit.core.errors import UsageError
from kit.report.farm import view_farm
from kit.report.html import render_page
from kit.store import Store
from kit.store.farm import FarmQuestion, answer_farm

#: What can be chosen, by the name that a query has for it.
CHOICES = ("scenario", "class", "since", "phase", "metric")


def show_farm(store: Store, chosen: Mapping[str, str]) -> str:
    """Raises UsageError."""
    asked = FarmQuestion(
        chosen["scenario"], chosen["class"], _day(chosen["since"]), chosen["phase"], chosen["metric"] or "real"
    )
    farm = answer_farm(store, asked)
    classes = sorted({*farm.classes, *filter(None, [chosen["class"]])})
    return render_page(
        "farm.html.j2", title="Farm", view=view_farm(farm), chosen={**chosen, "scenario": farm.title},
        scenarios=store.titles(), classes=classes,
    )  # fmt: skip


def _day(text: str) -> float | None:
    """When it began, Unix time; None for ''."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp() if text else None
    except ValueError:
        raise UsageError(f"since {text}: not a day", "for example 2026-11-01") from None
