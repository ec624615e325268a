"""The table of releases with which the tests have passed, releases.json: read, extended, and printed as Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

TABLE = Path(__file__).with_name("releases.json")


@dataclass(frozen=True)
class Release:
    program: str
    source: str  # suite of Debian, or registry; what is served there changes
    version: str
    date: str = ""  # of the run


def read_table(path: Path = TABLE) -> list[Release]:
    return [Release(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def record(release: Release, path: Path = TABLE) -> None:
    """Write a release into the table, in place of an earlier one of the same source, or of the same version."""
    dated = Release(release.program, release.source, release.version, f"{datetime.now(UTC):%Y-%m-%d}")
    rows = {(row.program, row.source): row for row in read_table(path)}
    rows[dated.program, dated.source] = dated
    text = json.dumps([asdict(rows[key]) for key in sorted(rows)], indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")


def releases_table(releases: list[Release]) -> str:
    """Return a line for each program: a version for each source, with the day on which its tests passed."""
    lines = ["| program | tests passed with |", "| --- | --- |"]
    for program in sorted({release.program for release in releases}):
        versions = [f"{row.version} ({row.source}, {row.date})" for row in releases if row.program == program]
        lines.append(f"| {program} | {'; '.join(versions)} |")
    return "\n".join(lines)
