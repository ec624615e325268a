"""fio's JSON (fio --output-format=json; fio's HOWTO, "JSON output"): read and write apart, all jobs together."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kit.parsers.figure import MORE, Reported
from kit.parsers.lines import parse_lines

_PERCENTILES = {"50.000000": "p50", "99.000000": "p99", "99.900000": "p99.9"}
#: Above any disk's figure, and exact as a float.
_LARGEST = 1 << 53


def parse_fio(text: str) -> tuple[Reported, ...]:
    """Parse fio's JSON. Bandwidth and IOPS are sums over the jobs; latencies are means, percentiles the worst of them.

    Raises ValueError if the text is not fio's JSON, or a job failed."""
    start = text.find("{\n")
    if start < 0:
        raise ValueError("no JSON in it")
    said = parse_lines(text[:start])
    try:
        document, _ = json.JSONDecoder().raw_decode(text[start:])
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None
    jobs = _get(document, "jobs")
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise ValueError("its jobs are not a list of objects")
    failed = [_get(job, "jobname") for job in jobs if job.get("error")]
    if failed:
        raise ValueError(f"fio's job {failed[0]} failed")
    found = (item for kind in ("read", "write", "trim") for item in _direction(kind, [_get(job, kind) for job in jobs]))
    return (*found, *said)


def _get(value: Any, *keys: str) -> Any:
    """Return the value at these keys. Raises ValueError if one is missing."""
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"it lacks '{key}'")
        value = value[key]
    return value


def _number(value: Any, *keys: str) -> float:
    found = _get(value, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= _LARGEST:
        raise ValueError(f"its {keys[-1]} is not a number")
    return float(found)


def _direction(kind: str, jobs: Sequence[Mapping[str, Any]]) -> Iterator[Reported]:
    busy = [job for job in jobs if _number(job, "total_ios")]
    if not busy:
        return
    yield Reported(f"{kind} bandwidth", math.fsum(_number(job, "bw_bytes") for job in busy) / 1e6, "MB/s", MORE)
    yield Reported(f"{kind} IOPS", math.fsum(_number(job, "iops") for job in busy), "per s", MORE)
    latency = math.fsum(_number(job, "lat_ns", "mean") for job in busy)
    yield Reported(f"{kind} latency", latency / len(busy) / 1e3, "µs")
    for key, name in _PERCENTILES.items():
        found = [_number(table, key) for table in map(_percentiles, busy) if key in table]
        if found:
            yield Reported(f"{kind} latency {name}", max(found) / 1e3, "µs")


def _percentiles(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the percentiles; empty if fio kept none. Raises ValueError."""
    latencies = _get(job, "clat_ns")
    found = latencies.get("percentile", {}) if isinstance(latencies, dict) else None
    if not isinstance(found, dict):
        raise ValueError("its clat_ns is not an object with percentiles")
    return found
