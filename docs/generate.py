"""Fill the reference pages from the code, and the tutorial's output from a stored session.

A hook of MkDocs (mkdocs.yml): a line ``<!-- generate: NAME -->`` of a page becomes the text of ``NAME`` in the site.
``python docs/generate.py`` writes the tutorial's output blocks again, after a change of the kit's words, and the JSON
Schemas, after a change of a type.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs/tutorial.md"
#: The session that the tutorial shows, as kit export wrote it.
SESSION = ROOT / "tests/data/tutorial.kit.json.gz"
MARK = re.compile(r"^<!-- generate: ([a-z-]+) -->$", re.MULTILINE)
#: An output block: the command, and how its paragraph begins, if it shows one.
OUTPUT = re.compile(r"^<!-- output: kit ([^>#]*?)(?: # ([^>]*?))? -->\n```text\n.*?^```", re.MULTILINE | re.DOTALL)
#: A link to a file of the repository that is no page.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:examples|images|scenarios|[A-Z]+\.md)[^)]*)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return _OUTSIDE.sub(r"`\2`", MARK.sub(lambda match: PARTS[match[1]](), markdown))


def on_post_build(config: Any, **_: Any) -> None:
    """Called by MkDocs at the end: write the JSON Schemas into the site."""
    from kit.cli.schemas import DOCUMENTS

    directory = Path(config["site_dir"], "reference/schemas")
    directory.mkdir(parents=True)
    for name, item in DOCUMENTS.items():
        (directory / f"{name}.json").write_text(json.dumps(item.schema(name), indent=1), encoding="utf-8")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [[_cell(text) for text in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    """In code a bar needs no escape."""
    escaped = re.sub(r"(`[^`]*`)|\|", lambda match: match[1] or "\\|", text)
    return escaped.replace("\n", " ")


def _code(words: Iterable[object]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def metrics() -> str:
    """The metrics by which arms are compared."""
    from kit.model.metric import METRICS

    def made(item: Any) -> str:
        return _code(item.parts).replace(", ", " + ") + (f" / `{item.over}`" if item.over else "")

    rows = [
        (f"`{item.name}`", item.unit or "count", f"{item.better} is better", made(item))
        for item in METRICS.values()
        if item.compared
    ]
    return _table(("metric", "unit", "", "made of"), rows)


def arms() -> str:
    """``kit help arms``."""
    from kit.cli.help import arms as text

    return f"```text\n{text()}\n```"


def filesystems() -> str:
    """The bundled profiles."""
    from kit.filesystem.profile import bundled

    def options(profile: Any) -> str:
        server = [f"server {profile.server}", f"delay {profile.delay} ms"] if profile.server else []
        back = [f"written back to {profile.write_back} every {profile.every} s"] if profile.write_back else []
        made = [f"mkfs `{' '.join(profile.mkfs)}`"] if profile.mkfs else []
        mounted = [f"mount `{','.join(profile.mount)}`"] if profile.mount else []
        return "; ".join([*made, *mounted, *server, *back])

    rows = [(f"`@{name}`", item.type, item.summary, options(item)) for name, item in bundled().items()]
    return _table(("profile", "type", "what it is", "options"), rows)


def drivers() -> str:
    """Every driver of every engine."""
    from kit.model.driver import Driver
    from kit.model.drivers import DRIVERS, UNION, default_placement

    def needed(driver: Driver) -> list[str]:
        """Return its packages; a program that Debian has in none is in an engine root."""
        root = f" (in the root of {driver.root})" if driver.root else ""
        return [package or f"`{program}`{root}" for program, package in driver.packages.items()]

    parts = []
    for engine, known in DRIVERS.items():
        prefix = {"docker": "layer:", UNION: "union:"}.get(engine, f"{default_placement(engine)}:{engine}/")
        rows = [
            (
                f"`{prefix}{item.name}`",
                item.kernel.called if item.kernel else "",
                item.filesystem or "any",
                ", ".join([*needed(item), *([item.versions] if item.versions else [])]),
                ", ".join(item.guests),
            )
            for item in known
        ]
        heads = ("arm", "kernel", "filesystem", "needs", "guests")
        notes = [f"- `{item.name}`: {note}." for item in known for note in item.notes]
        parts.append("\n".join([f"## {engine.capitalize()}\n", _table(heads, rows), "", *notes]))
    return "\n\n".join(parts)


def commands() -> str:
    """Each command with its options, from click."""
    from kit.cli import SECTIONS, cli

    context = click.Context(cli, info_name="kit")
    parts = []
    for heading, section in SECTIONS.items():
        parts.append(f"## {heading}")
        for name in section:
            command = cli.get_command(context, name)
            assert command is not None
            parts += _command(command, f"kit {name}")
            if isinstance(command, click.Group):
                below = click.Context(command, info_name=f"kit {name}")
                for item in command.list_commands(below):
                    found = command.get_command(below, item)
                    assert found is not None
                    parts += _command(found, f"kit {name} {item}")
    return "\n\n".join(parts)


def _command(command: click.Command, name: str) -> list[str]:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    text = re.sub(r"\s+", " ", command.help or "").strip()
    parts = [f"### {name}", f"`{usage}`", re.sub(r"([*_<>])", r"\\\1", text)]
    options = [item for item in command.get_params(context) if isinstance(item, click.Option) and not item.hidden]
    rows = []
    for item in options:
        record = item.get_help_record(context)
        if record:
            rows.append((f"`{record[0]}`", re.sub(r"([*_<>])", r"\\\1", record[1])))
    epilog = (command.epilog or "").replace("\b", "").strip("\n")
    examples = f"```text\n{epilog}\n```" if epilog else ""
    return [part for part in (*parts, _table(("option", ""), rows) if rows else "", examples) if part]


def scenarios() -> str:
    """Phases, parameters and variants of every bundled scenario."""
    from kit.session.plan.planning import find_scenario, scenario_names

    parts = []
    for name in scenario_names():
        item = find_scenario(name)
        lines = [f"### {item.label}", f"{item.summary.rstrip('.')}. Image: `{item.image}`."]
        lines.append(f"Phases: {_code(step.name for step in item.phases)}.")
        if item.variants:
            rows = [(f"`{item.name}:{variant}`", summary) for variant, summary in item.variants]
            lines.append(_table(("variant", ""), rows))
        if item.params:
            here = [(param, param.default.replace(item.here, "{here}")) for param in item.params]
            rows = [(f"`{param.name}={default}`", param.help) for param, default in here]
            lines.append(_table(("parameter", ""), rows))
        parts += lines
    return "\n\n".join(parts)


def scenario_keys() -> str:
    """All keys of a scenario file, as it is read."""
    from kit.model.scenario import Command, Param
    from kit.model.scenariofile import _Document, _InputTable

    tables = {"top": _Document, "params.NAME": Param, "inputs.NAME": _InputTable, "[[phases]], [[prepare]]": Command}
    rows = [(where, _code(_keys(table))) for where, table in tables.items()]
    return _table(("table", "all keys"), rows)


def _keys(table: type) -> list[str]:
    given = {"name"} if table.__name__ == "Param" else set()
    return [f"{item.name}" for item in fields(table) if item.name not in given]


def nightly_keys() -> str:
    """All keys of a nightly file, as it is read."""
    from kit.nightly.file import _File, _NotifyTable, _TaskTable

    rows = [
        ("top", _code(_File.__annotations__)),
        ("[notify]", _code(_NotifyTable.__annotations__)),
        ("[defaults], [[tasks]]", _code(_task_keys(_TaskTable))),
    ]
    return _table(("table", "all keys"), rows)


def _task_keys(table: Any) -> list[str]:
    return sorted(table.__optional_keys__ | table.__required_keys__)


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
        pytest = words.replace("--", "--kit-", 1) if key in (*SHARED, "store") else ""
        rows.append((f"`{key}`", kind_name, f"`{words}`", f"`{pytest}`" if pytest else ""))
    return _table(("key", "is", "option", "of pytest"), rows)


def facts() -> str:
    """Every kind of fact."""
    from kit.model.fact import KINDS

    keys = [(kind.key.replace("{}", "…"), kind.volatile) for kind in KINDS if kind.key != "{}"]
    return _table(("fact", "begins a new series"), [(key, "no" if volatile else "yes") for key, volatile in keys])


def exit_codes() -> str:
    """What each exit code means."""
    from kit.core.exit_code import MEANINGS

    rows = [(str(code), f"{short}, {more}" if more else short) for code, (short, more) in MEANINGS.items()]
    return _table(("code", "meaning"), rows)


def errors() -> str:
    """The kinds of error with their exit codes."""
    from kit.core import errors as module

    found = [item for item in vars(module).values() if isinstance(item, type) and issubclass(item, module.KitError)]
    rows = [(f"`{item.__name__}`", str(item.exit_code), " ".join((item.__doc__ or "").split())) for item in found]
    return _table(("error", "code", "what it is"), rows)


def json_keys() -> str:
    """Keys of a row of ``samples``."""
    from kit.model.sample import Sample
    from kit.report.data.structured import JSON_SCHEMA, sample_rows

    given = {item.name: None for item in fields(Sample) if item.default is MISSING and item.default_factory is MISSING}
    made: dict[str, Any] = {**given, "phases": (), "kind": "measured"}
    keys = next(sample_rows(Sample(**made)))
    return f"The schema is {JSON_SCHEMA}. Keys of a sample: {_code(keys)}."


def json_documents() -> str:
    """Every document that a command writes."""
    from kit.cli.schemas import DOCUMENTS

    rows = [(f"`{name}`", item.written_by, str(item.version)) for name, item in DOCUMENTS.items()]
    return _table(("schema", "written by", "`schema` is"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "metrics": metrics, "arms": arms, "filesystems": filesystems, "drivers": drivers, "commands": commands,
    "scenarios": scenarios, "scenario-keys": scenario_keys, "nightly-keys": nightly_keys, "settings": settings,
    "facts": facts, "errors": errors, "exit-codes": exit_codes, "json": json_keys, "json-documents": json_documents,
}  # fmt: skip


def tutorial(text: str) -> str:
    """Return the tutorial with each output block as this kit prints it."""
    with tempfile.TemporaryDirectory() as home:
        _fill_store(Path(home))
        env = {
            **os.environ,
            "KIT_HOME": home,
            "KIT_STORE": f"sqlite:///{home}/kit.db",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "100",
        }

        def again(match: re.Match[str]) -> str:
            words = [sys.executable, "-m", "kit", *shlex.split(match[1])]
            done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
            head = match[0].partition("\n")[0]
            return f"{head}\n```text\n{_paragraph(done.stdout, match[2] or '')}```"

        return OUTPUT.sub(again, text)


def _fill_store(home: Path) -> None:
    """As the session was measured: of an imported one the kit names no rule that ended it and no way to go on."""
    from kit.store import open_store
    from kit.store.exchange import load

    store = open_store(f"sqlite:///{home}/kit.db", home)
    for session in load(gzip.decompress(SESSION.read_bytes()).decode(), str(SESSION)):
        store.add(replace(session, imported=False))
    store.close()


def _paragraph(output: str, beginning: str) -> str:
    """Return the paragraph that begins so, or all of the output if ``beginning`` is empty."""
    if not beginning:
        return output
    return next(text for text in output.split("\n\n") if text.startswith(beginning)).rstrip("\n") + "\n"


if __name__ == "__main__":
    TUTORIAL.write_text(tutorial(TUTORIAL.read_text(encoding="utf-8")), encoding="utf-8")
