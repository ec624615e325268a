"""Every driver of every engine, as Markdown."""

from __future__ import annotations

from kit.cli.pages.markdown import table
from kit.model.drivers import DRIVERS, UNION, Driver, default_placement


def drivers() -> str:
    parts = []
    for engine, drivers in DRIVERS.items():
        prefix = {"docker": "layer:", UNION: "union:"}.get(engine, f"{default_placement(engine)}:{engine}/")
        heads = ("arm", "kernel", "filesystem", "needs", "guests")
        notes = [f"- `{driver.name}`: {note}." for driver in drivers for note in driver.notes]
        arms_table = table(heads, [_row(prefix, driver) for driver in drivers])
        parts.append("\n".join([f"### {engine.capitalize()}\n", arms_table, "", *notes]))
    return "\n\n".join(parts)


def _row(prefix: str, driver: Driver) -> tuple[str, ...]:
    return (
        f"`{prefix}{driver.name}`",
        driver.kernel.called if driver.kernel else "",
        driver.filesystem or "any",
        ", ".join([*_needed(driver), *([driver.versions] if driver.versions else [])]),
        ", ".join(driver.guests),
    )


def _needed(driver: Driver) -> list[str]:
    """Return its packages; a program that Debian has in none is in an engine root."""
    root = f" (in the root of {driver.root})" if driver.root else ""
    return [package or f"`{program}`{root}" for program, package in driver.packages.items()]
