"""Parts of the reference pages that are made from the code: a function for each, which returns Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kit.cli.lazy import LazyGroup
from kit.extensions import EXTRAS
from kit.model.drivers import DRIVERS, UNION, Driver, default_placement

if TYPE_CHECKING:
    from kit.arms.filesystem import Profile
    from kit.model.metric_source import Source

#: A line of a page that stands for a generated part.
MARK = re.compile(r"^<!-- generate: ([a-z-]+) -->$", re.MULTILINE)
#: A link to a file of the repository that is no page.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:benchmarks|examples|images|tests|scenarios|[A-Z]+\.md)[^)]*)\)")


def complete_page(markdown: str, root: LazyGroup) -> str:
    """Return a page of the site. ``root``: the command whose commands are listed."""
    contents = parts(root)
    return _OUTSIDE.sub(r"`\2`", MARK.sub(lambda mark: contents[mark[1]](), markdown))


def parts(root: LazyGroup) -> Mapping[str, Callable[[], str]]:
    """Return what makes each part, by its name in ``<!-- generate: NAME -->``. ``root``: whose commands are listed."""
    return {
        "metrics": metrics, "arms": arms, "filesystems": filesystems, "drivers": drivers,
        "commands": partial(commands, root), "scenarios": scenarios, "scenario-keys": scenario_keys,
        "settings": settings, "facts": facts, "errors": errors,
        "assumptions": assumptions, "exit-codes": exit_codes, "json": json_keys, "json-documents": json_documents,
        "programs-read": programs_read, "environment": environment, "verdicts": verdicts,
        **{name: extra.load(maker) for extra in EXTRAS for name, maker in extra.page_parts.items()},
    }  # fmt: skip


def metrics() -> str:
    """The figures of a phase and of a run."""
    from kit.model.metric import METRICS
    from kit.model.metric_source import RUN_SOURCES, SOURCES

    def row(source: Source) -> Sequence[str]:
        metrics = [METRICS[name] for name in source.names]
        unit = ", ".join(dict.fromkeys(metric.unit or "count" for metric in metrics))
        parts = code(metrics[0].parts).replace(", ", " + ") + (f" / `{metrics[0].over}`" if metrics[0].over else "")
        compared = "yes" if metrics[0].compared else "no"
        return (code(source.names), unit, compared, source.source or parts, source.pitfalls)

    run = [(code(source.names), "s", "no", source.source, source.pitfalls) for source in RUN_SOURCES]
    return table(("figure", "unit", "compared", "from", "pitfalls"), [*map(row, SOURCES), *run])


def programs_read() -> str:
    """The programs whose output is read: how they write it, what is read, and with which versions that was tried."""
    from kit.parsers import PARSERS
    from kit.parsers.tried import tried

    added = [maker for extra in EXTRAS if extra.readers for maker in extra.load(extra.readers)]
    makers = (*added, *PARSERS.values())
    rows = [
        (of.program, f"`{of.command}`" if of.command else "", of.figures, ", ".join(of.versions), ", ".join(of.forms),
         of.refused)
        for of in tried(makers)
    ]  # fmt: skip
    heads = (
        "program",
        "command",
        "read of each run",
        "wrote what tests read",
        "tests have its form",
        "refused by name",
    )
    return table(heads, rows)


def arms() -> str:
    """What an arm can be, in short."""
    from kit.cli.pages.arms import arms as text

    return f"```text\n{text()}\n```"


def filesystems() -> str:
    """The bundled profiles."""
    from kit.arms.filesystem import bundled

    def options(profile: Profile) -> str:
        server = [f"server {profile.server}", f"delay {profile.delay} ms"] if profile.server else []
        back = [f"written back to {profile.write_back} every {profile.every} s"] if profile.write_back else []
        mkfs = [f"mkfs `{' '.join(profile.mkfs)}`"] if profile.mkfs else []
        mounted = [f"mount `{','.join(profile.mount)}`"] if profile.mount else []
        return "; ".join([*mkfs, *mounted, *server, *back])

    rows = [(f"`@{name}`", profile.type, profile.summary, options(profile)) for name, profile in bundled().items()]
    return table(("profile", "type", "what it is", "options"), rows)


def scenarios() -> str:
    """Phases, parameters and variants of every bundled scenario."""
    from kit.session.plan.planning import find_scenario, scenario_names

    lines_of_all = []
    for name in scenario_names():
        scenario = find_scenario(name)
        lines = [f"### {scenario.label}", f"{scenario.summary.rstrip('.')}. Image: `{scenario.image}`."]
        lines.append(f"Phases: {code(step.name for step in scenario.phases)}.")
        if scenario.variants:
            lines.append(
                table(("variant", ""), [(f"`{scenario.name}:{name}`", text) for name, text in scenario.variants])
            )
        if scenario.params:
            here = [(param, param.default.replace(scenario.here, "{here}")) for param in scenario.params]
            rows = [(f"`{param.name}={default}`", param.help) for param, default in here]
            lines.append(table(("parameter", ""), rows))
        lines_of_all += lines
    return "\n\n".join(lines_of_all)


def scenario_keys() -> str:
    """All keys of a scenario file, as it is read."""
    from kit.model.scenariofile import known_keys

    return keys_table(known_keys())


def verdicts() -> str:
    """What each verdict means."""
    from kit.analysis.stats.estimate import VERDICTS

    return table(("verdict", "means"), list(VERDICTS.items()))


def environment() -> str:
    """The environment variables that the kit reads."""
    from kit.core.environment import VARIABLES
    from kit.host.git import CI_VARIABLES

    ci = (code(CI_VARIABLES), "the commit of a CI job; the first that holds one becomes the fact `CI commit`")
    return table(("variable", "what it does"), [*((f"`{name}`", text) for name, text in VARIABLES.items()), ci])


def settings() -> str:
    """All keys of a file with settings, with their options of kit compare and of pytest."""
    from kit.model.options import OPTIONS, SHARED
    from kit.model.settings import KEYS

    others = {"store": "--store", "arms": "--arms", "rank": "--rank"}
    kinds = {str: "text", int: "number", bool: "true or false"}
    rows = []
    for key, kind in KEYS.items():
        kind_name = kinds.get(kind, "table" if "dict" in str(kind) else "list")
        words = others[key] if key in others else OPTIONS[key].words
        pytest = "--kit-store" if key == "store" else OPTIONS[key].spelled("--kit-") if key in SHARED else ""
        rows.append((f"`{key}`", kind_name, f"`{words}`", f"`{pytest}`" if pytest else ""))
    return table(("key", "is", "option", "of pytest"), rows)


def facts() -> str:
    """Every kind of fact."""
    from kit.model.fact import KINDS

    keys = [(kind.key.replace("{}", "…"), kind.volatile) for kind in KINDS if kind.key != "{}"]
    return table(("fact", "begins a new series"), [(key, "no" if volatile else "yes") for key, volatile in keys])


def assumptions() -> str:
    """What the kit assumes of its machine."""
    from kit.host.assumptions import ASSUMPTIONS

    rows = [
        (
            f"{assumption.kind}: {assumption.name}",
            assumption.what,
            f"no {assumption.needed_by}" if assumption.needed_by else "advice",
        )
        for assumption in ASSUMPTIONS
    ]
    return table(("checked", "what is assumed", "otherwise"), rows)


def exit_codes() -> str:
    """What each exit code means."""
    from kit.core.exit_code import MEANINGS

    rows = [(str(number), f"{short}, {more}" if more else short) for number, (short, more) in MEANINGS.items()]
    return table(("code", "meaning"), rows)


def errors() -> str:
    """The kinds of error with their exit codes."""
    from kit.core import errors as module

    errors = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, module.KitError)]
    rows = [(f"`{error.__name__}`", str(error.exit_code), " ".join((error.__doc__ or "").split())) for error in errors]
    return table(("error", "code", "what it is"), rows)


def json_keys() -> str:
    """Keys of a row of ``samples``."""
    from kit.model.sample import Sample
    from kit.report.data.structured import JSON_SCHEMA, sample_rows

    required = {
        field.name: None for field in fields(Sample) if field.default is MISSING and field.default_factory is MISSING
    }
    values: dict[str, Any] = {**required, "phases": (), "kind": "measured"}
    keys = next(sample_rows(Sample(**values)))
    return f"The schema is {JSON_SCHEMA}. Keys of a sample: {code(keys)}."


def json_documents() -> str:
    """Every document that a command writes."""
    from kit.cli.schemas import DOCUMENTS

    rows = [(f"`{name}`", document.written_by, str(document.version)) for name, document in DOCUMENTS.items()]
    return table(("schema", "written by", "`schema` is"), rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [[_cell(text) for text in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    """In code a bar needs no escape."""
    escaped = re.sub(r"(`[^`]*`)|\|", lambda match: match[1] or "\\|", text)
    return escaped.replace("\n", " ")


def keys_table(tables: Mapping[str, Mapping[str, str]]) -> str:
    """Return the keys of a file, by its tables; ``top``: those of none."""
    rows = [(f"`{where}`" if where != "top" else where, f"`{key}`", text)
            for where, keys in tables.items() for key, text in keys.items()]  # fmt: skip
    return table(("table", "key", "is"), rows)


def code(words: Iterable[object]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def commands(root: LazyGroup) -> str:
    """Return every command below the headings of ``kit --help``."""
    context = click.Context(root, info_name="kit")
    parts = []
    for heading, section in root.sections.items():
        parts.append(f"## {heading}")
        for name in section:
            parts += _described(root, context, name)
    return "\n\n".join(parts)


def _described(group: click.Group, context: click.Context, name: str) -> Iterator[str]:
    """Yield the paragraphs of a command, and of those below it."""
    command = group.get_command(context, name)
    assert command is not None
    below_context = click.Context(command, info_name=f"{context.info_name} {name}")
    yield from _command(command, below_context)
    if isinstance(command, click.Group):
        for below in command.list_commands(below_context):
            yield from _described(command, below_context, below)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"### {context.info_name}"
    yield f"`{' '.join([str(context.info_name), *command.collect_usage_pieces(context)])}`"
    yield _escaped(re.sub(r"\s+", " ", command.help or "").strip())
    options = [
        option for option in command.get_params(context) if isinstance(option, click.Option) and not option.hidden
    ]
    records = [record for option in options if (record := option.get_help_record(context))]
    if records:
        yield table(("option", ""), [(f"`{words}`", _escaped(text)) for words, text in records])
    epilog = (command.epilog or "").replace("\b", "").strip("\n")
    if epilog:
        yield f"```text\n{epilog}\n```"


def _escaped(text: str) -> str:
    return re.sub(r"([*_<>])", r"\\\1", text)


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
