"""fio's JSON (fio --output-format=json; fio's HOWTO, "JSON output"): read and write apart, all jobs together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kit.parsers.lines import parse_lines
from kit.reported import MORE, Reported

_PERCENTILES = {"50.000000": "p50", "99.000000": "p99", "99.900000": "p99.9"}


def parse_fio(text: str) -> tuple[Reported, ...]:
    """Bandwidth and IOPS are sums over the jobs; latencies the means over them, percentiles the worst of them.

    Raises ValueError where there is no JSON, or a job of it failed.
    """
    start = text.find("{\n")
    if start < 0:
        raise ValueError("there is no JSON in it")
    said = parse_lines(text[:start])
    document, _ = json.JSONDecoder().raw_decode(text[start:])
    jobs = document["jobs"]
    failed = [job["jobname"] for job in jobs if job.get("error")]
    if failed:
        raise ValueError(f"fio's job {failed[0]} failed")
    found = (item for kind in ("read", "write", "trim") for item in _direction(kind, [job[kind] for job in jobs]))
    return (*found, *said)


def _direction(kind: str, jobs: Sequence[Mapping[str, Any]]) -> Iterator[Reported]:
    busy = [job for job in jobs if job["total_ios"]]
    if not busy:
        return
    yield Reported(f"{kind} bandwidth", sum(job["bw_bytes"] for job in busy) / 1e6, "MB/s", MORE)
    yield Reported(f"{kind} IOPS", sum(job["iops"] for job in busy), "per s", MORE)
    yield Reported(f"{kind} latency", sum(job["lat_ns"]["mean"] for job in busy) / len(busy) / 1e3, "µs")
    for key, name in _PERCENTILES.items():
        found = [job["clat_ns"]["percentile"][key] for job in busy if key in job["clat_ns"].get("percentile", {})]
        if found:
            yield Reported(f"{kind} latency {name}", max(found) / 1e3, "µs")
