"""Fill the reference pages from the code, and the output of commands from stored sessions.

A hook of MkDocs (mkdocs.yml): a line ``<!-- generate: NAME -->`` of a page becomes the part of that name in the site
(kit.cli.pages.parts). ``python docs/generate.py`` writes the output blocks of pages again, after a change of the kit's
words, the tables of machines, after benchmarks/users_machine/stock_machines.py has recorded one, those of promises,
after a change of the tests that keep them, and that of releases, after ``make releases``, which calls ``python
docs/generate.py releases`` for it alone.
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
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: The pages with output, and the sessions that they show, as kit export wrote them.
SHOWN = {
    "docs/tutorial.md": "tests/data/tutorial.kit.json.gz",
    "docs/explanation/published.md": "docs/results.kit.json.gz",
}
#: The pages that say on which machines the kit has run, and what of them is generated.
MACHINES = {"README.md": re.compile(r"^It has run .*$", re.M), "benchmarks/users_machine/MACHINES.md": re.compile(
    r"(?<=^<!-- machines -->\n).*?(?=^<!-- end -->)", re.M | re.S)}  # fmt: skip
#: Which releases the tests have passed with, and the page that says so.
RELEASES, RELEASED = "tests/releases/RELEASES.md", re.compile(
    r"(?<=^<!-- releases -->\n).*?(?=^<!-- end -->)", re.M | re.S)  # fmt: skip
#: The page of what tests promise, and its tables.
PROMISES, PROMISED = "docs/explanation/promises.md", re.compile(
    r"(?<=^<!-- promises: )([^>]+) -->\n.*?(?=^<!-- end -->)", re.M | re.S)  # fmt: skip
#: An output block: the command, and how its paragraph begins, if it shows one. Markdown is no block of text.
OUTPUT = re.compile(
    r"^<!-- output: kit ([^>#]*?)(?: # ([^>]*?))? -->\n(?:```text\n.*?^```|.*?^<!-- end -->)", re.MULTILINE | re.DOTALL
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    from kit.cli import cli
    from kit.cli.pages.parts import complete_page

    return complete_page(markdown, cli)


def on_post_build(config: Any, **_: Any) -> None:
    """Called by MkDocs at the end: write the JSON Schemas into the site."""
    from kit.cli.schemas import DOCUMENTS

    directory = Path(config["site_dir"], "reference/schemas")
    directory.mkdir(parents=True)
    for name, item in DOCUMENTS.items():
        (directory / f"{name}.json").write_text(json.dumps(item.schema(name), indent=1), encoding="utf-8")


def shown(page: str) -> str:
    """Return a page of SHOWN with each output block as this kit prints it."""
    with tempfile.TemporaryDirectory() as home:
        _fill_store(Path(home), ROOT / SHOWN[page])
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
            if match[0].endswith("-->"):
                return f"{head}\n\n{_wrapped(done.stdout)}\n<!-- end -->"
            return f"{head}\n```text\n{_paragraph(done.stdout, match[2] or '')}```"

        return OUTPUT.sub(again, (ROOT / page).read_text(encoding="utf-8"))


def with_machines(page: str) -> str:
    """Return a page of MACHINES with what the table of machines says."""
    sys.path.insert(0, str(ROOT / "benchmarks/users_machine"))
    from machine_table import machines_line, machines_table, read_table

    machines = read_table()
    text = machines_line(machines) if page == "README.md" else f"\n{machines_table(machines)}\n\n"
    return MACHINES[page].sub(lambda _: text, (ROOT / page).read_text(encoding="utf-8"))


def with_releases() -> str:
    """Return the page of RELEASES with the releases that the tests have passed with."""
    sys.path.insert(0, str(ROOT))
    from tests.releases.release_table import read_table, releases_table

    text = f"\n{releases_table(read_table())}\n\n"
    return RELEASED.sub(lambda _: text, (ROOT / RELEASES).read_text(encoding="utf-8"))


def with_promises() -> str:
    """Return the page of PROMISES with what the tests promise, and their names."""
    sys.path.insert(0, str(ROOT))
    from tests.promises import promises_table, read_promises

    promises = read_promises()

    def table(match: re.Match[str]) -> str:
        return f"{match[1]} -->\n\n{promises_table(promises, match[1])}\n\n"

    return PROMISED.sub(table, (ROOT / PROMISES).read_text(encoding="utf-8"))


def _fill_store(home: Path, file: Path) -> None:
    """As the sessions were measured: of an imported one the kit names no rule that ended it and no way to go on."""
    from kit.store import open_store
    from kit.store.exchange import load

    store = open_store(f"sqlite:///{home}/kit.db", home)
    for session in load(gzip.decompress(file.read_bytes()).decode(), str(file)):
        store.add(replace(session, imported=False))
    store.close()


def _wrapped(markdown: str) -> str:
    """Return Markdown without long lines, but in tables."""
    return "".join(f"{_short(line)}\n" for line in markdown.splitlines())


def _short(line: str) -> str:
    if line.startswith("|"):
        return line
    more = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=more, break_long_words=False, break_on_hyphens=False)


def _paragraph(output: str, beginning: str) -> str:
    """Return the paragraph that begins so, or all of the output if ``beginning`` is empty."""
    if not beginning:
        return output
    return next(text for text in output.split("\n\n") if text.startswith(beginning)).rstrip("\n") + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["releases"]:
        for name in SHOWN:
            (ROOT / name).write_text(shown(name), encoding="utf-8")
        for name in MACHINES:
            (ROOT / name).write_text(with_machines(name), encoding="utf-8")
        (ROOT / PROMISES).write_text(with_promises(), encoding="utf-8")
    (ROOT / RELEASES).write_text(with_releases(), encoding="utf-8")
