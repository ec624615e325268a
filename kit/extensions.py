"""What each extra adds to the core: a row of ``EXTRAS`` for each. Without its row and its folder the core still works.

The core imports no extra. It asks this table, and imports what a row names on use. Names are relative to the extra's
package, as in ``command:matrix`` for the object ``matrix`` of ``kit.extra.NAME.command``. Imports nothing of the kit.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")


# Named tuples: to define a dataclass takes as long as to import ten modules, and kit --help needs these two.
class ExtraCommand(NamedTuple):
    """A subcommand of ``kit``."""

    name: str
    heading: str  # of kit --help
    after: str | None  # the command that is listed before it, '' for the heading's end, None for its beginning
    maker: str
    summary: str
    measures: bool = False  # so that there may be something to keep after Ctrl-C
    example: str = ""  # of kit --help


class Extra(NamedTuple):
    """What an extra adds."""

    name: str  # of its package below kit.extra
    commands: tuple[ExtraCommand, ...] = ()
    #: The kit.cli.scenario_kind.ScenarioKind of scenarios whose names begin so.
    scenarios: Mapping[str, str] = {}
    #: By subject: a sequence of kit.report.renderer.Renderer.
    renderers: Mapping[str, str] = {}
    #: Parts of the analysis of a session, by name: called with Session and Runs, returns a tuple of dataclasses, as its
    #: annotation says.
    analyses: Mapping[str, str] = {}
    #: What costs arms their penalty: called with Analysis, yields kit.report.text.causes.Cause.
    causes: str = ""
    #: Of the page of a session: a sequence of kit.report.page.section.PageSection.
    sections: str = ""
    #: A sequence of kit.report.page.store_page.StorePage.
    pages: str = ""
    #: By name of the engine: what makes it, such as a kit.arms.engines.managed.EngineKind.
    engines: Mapping[str, str] = {}
    #: Readers of other programs' outputs, as kit.parsers.tried takes them: the docs list them.
    readers: str = ""
    #: The kit.session.place.Places of guests.
    places: str = ""
    #: Runs the traced rounds of a session: called with Session and RunContext, returns the Session.
    traced_rounds: str = ""
    #: Of kit doctor, each with the kind that it lists: called with Paths and Host, yields Diagnosis.
    checks: tuple[tuple[str, str], ...] = ()
    #: The same, of what is tried while the machine is held: called with MachineLease.
    held_checks: tuple[tuple[str, str], ...] = ()
    #: By name: the kit.cli.document.Document of kit schema.
    documents: Mapping[str, str] = {}
    #: Earlier sessions on a session's page: called with Session, Analysis and Store, returns
    #: a tuple of kit.report.page.page.TrackView.
    tracks: str = ""
    #: Sessions that kit prune --keep-changes keeps: called with entries of a title, the conditions that their series
    #: ignore, and the number of sessions that confirm a change (0: the usual one); returns the reason for each, by id.
    turning: str = ""
    #: What a new store has besides its tables: a sequence of functions of a Connection, called in their order.
    schema: str = ""
    #: Parts of the pages of the documentation, by name: called without arguments, returns Markdown.
    page_parts: Mapping[str, str] = {}
    #: The kit.session.machines.Machines on which sessions run, beside this one.
    machines: str = ""
    #: Notes of a session: called with Session, yields sentences.
    notes: str = ""
    #: What kit compare prints after the answer: called with Session, returns the text, '' for none.
    after_answer: str = ""
    #: The group of entry points in pyproject.toml by which another program loads it.
    entry_point: str = ""

    def full_name(self, name: str) -> str:
        return f"kit.extra.{self.name}.{name}"

    def load(self, name: str) -> Any:
        """Import and return what a field names."""
        return pkgutil.resolve_name(self.full_name(name))


#: An extra may import those above its own row.
EXTRAS = (
    Extra(
        "sharing",
        commands=(
            ExtraCommand("store", "Many machines", "fleet", "store_command:store",
                         "Set up a shared store; grant access."),
            ExtraCommand("sync", "Many machines", "store", "sync_command:sync",
                         "Deliver results measured while the store was away."),
        ),
        schema="schema:MAKERS",
        documents={"sync": "documents:SYNC"},
        page_parts={"store-views": "view_columns:store_views"},
    ),
    Extra(
        "exchange",
        commands=(
            ExtraCommand("export", "Many machines", "sync", "export_command:export",
                         "Write sessions to a file for another store."),
            ExtraCommand("import", "Many machines", "export", "import_command:import_",
                         "Import exported sessions or timed runs."),
        ),
        renderers={"sessions": "renderers:RENDERERS"},
        readers="runs:MAKERS",
    ),
    Extra(
        "tracing",
        renderers={"session": "renderers:OF_SESSION", "sessions": "renderers:OF_SESSIONS"},
        analyses={"calls": "analysis.calls:session_calls", "overheads": "analysis.calls:session_overheads"},
        causes="report.calls:causes",
        sections="page:SECTIONS",
        traced_rounds="traced:traced_rounds",
        held_checks=(("tracing", "doctor:tracing"),),
    ),
    Extra(
        "guest",
        commands=(
            ExtraCommand("kernel", "Set up", "image", "command:kernel", "Build, list and remove guest kernels."),
        ),
        places="place:PLACES",
        checks=(("guest", "doctor:guests"), ("guest", "doctor:guest_kernels")),
        documents={"kernels": "documents:KERNELS"},
    ),
    Extra(
        "builds",
        engines={
            "docker-build": "engine:DOCKER_BUILD",
            "podman-build": "engine:PODMAN_BUILD",
            "buildah-build": "engine:BUILDAH",
            "buildkit-build": "buildkit:BUILDKIT",
        },
    ),
    Extra(
        "history",
        commands=(
            ExtraCommand("nightly", "Measure", "compare", "nightly.command:nightly",
                         "Run a file of tasks; check them against limits and history.",
                         measures=True, example="kit nightly nightly.toml"),
            ExtraCommand("history", "Look at results", "sessions", "command:history",
                         "Show an arm's penalty over time, and when it changed."),
        ),
        renderers={"history": "renderers:HISTORIES", "night": "renderers:NIGHTS"},
        pages="page:PAGES",
        documents={"history": "documents:HISTORY", "nightly": "documents:NIGHTLY"},
        tracks="page:session_tracks",
        turning="analysis.turning:find_turning",
        page_parts={"nightly-keys": "page_parts:nightly_keys"},
    ),
    Extra(
        "fleet",
        commands=(
            ExtraCommand("fleet", "Many machines", None, "command:fleet",
                         "Measure on many machines: scheduler, workers, status."),
        ),
        renderers={"fleet": "renderers:RENDERERS"},
        pages="page:PAGES",
        documents={"fleet-show": "documents:SHOW", "fleet-status": "documents:STATUS"},
        machines="compare:MACHINES",
        notes="report.session:fleet_notes",
        after_answer="report.session:answer_of_machines",
        sections="report.section:SECTIONS",
    ),
    Extra(
        "matrix",
        commands=(
            ExtraCommand("matrix", "Look at results", "history", "command:matrix",
                         "Show which driver to take: scenarios and arms in one table."),
        ),
        scenarios={"suite:": "suite_command:SUITES"},
        renderers={"matrix": "renderers:RENDERERS"},
        pages="page:PAGES",
        documents={"matrix": "documents:MATRIX"},
    ),
    Extra(
        "web",
        commands=(
            ExtraCommand("serve", "Look at results", "report", "serve_command:serve",
                         "Show the store in a browser on this machine."),
            ExtraCommand("site", "Look at results", "serve", "site_command:site", "Write the store as static pages."),
        ),
    ),
    Extra("pytest_plugin", entry_point="pytest11"),
)  # fmt: skip


def added(field: str) -> Iterator[Any]:
    """Yield what that field names, imported, of each extra that has it."""
    for extra in EXTRAS:
        if name := getattr(extra, field):
            yield extra.load(name)


def merged(core: Mapping[str, Value], added: Iterable[tuple[str | None, str, Value]]) -> dict[str, Value]:
    """Return the core's entries with those of extras. ``added``: of each, the name of the entry that comes before it
    ('' or a missing one: the last; None: the first), its own name and its value."""
    entries = dict(core)
    for before, name, value in added:
        names = [*entries]
        at = 0 if before is None else names.index(before) + 1 if before in entries else len(names)
        entries = {key: entries.get(key, value) for key in (*names[:at], name, *names[at:])}
    return entries


def extra_commands(heading: str) -> Iterator[tuple[str | None, str, tuple[str, str]]]:
    """Yield the commands below a heading, as ``merged`` takes them: the maker's full name and the line of each."""
    for extra in EXTRAS:
        for command in extra.commands:
            if command.heading == heading:
                yield command.after, command.name, (extra.full_name(command.maker), command.summary)
