"""fio's JSON (fio --output-format=json; fio's HOWTO, "JSON output"): each group of jobs apart, its directions apart.

As show_thread_status_json() of its stat.c writes it. Before 3.0 latencies are in microseconds (``lat``), since then in
nanoseconds (``lat_ns``). Before 3.2 there is only ``bw``, in KiB/s, since then ``bw_bytes``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kit.parsers.figure import MORE, Reported
from kit.parsers.lines import parse_lines
from kit.parsers.tried import Tried

TRIED = (Tried("fio", ("3.33",), ("2.16", "3.1", "3.36"), "before 2.2 and from 4 on"),)
_PERCENTILES = {"50.000000": "p50", "99.000000": "p99", "99.900000": "p99.9"}
#: ``mixed`` stands in the place of the others with unified_rw_reporting=1, and beside them with =both.
_DIRECTIONS = ("read", "write", "trim", "mixed")
#: fio states no version of its form. Other versions than numbers are those of a fork.
_VERSION, _NEWEST = re.compile(r"fio-(\d{1,6})\.\d{1,6}"), 3
_OBJECT = re.compile(r'\{\s{0,100}"(?P<key>fio version)?')
#: Texts that begin like an object and are none, at most: the decoder counts the lines before each.
_MOST_FAILURES = 100
#: Above any disk's figure, and exact as a float.
_LARGEST = 1 << 53
#: Most characters of a group's name.
_LONGEST = 60


def parse_fio(text: str) -> tuple[Reported, ...]:
    """Parse fio's JSON; of several documents (--status-interval) the last, since their figures are cumulative.

    Bandwidth and IOPS are sums over a group's jobs; latencies are means weighted by I/Os, as with group_reporting;
    percentiles are those of the slowest job. Groups (stonewall, new_group) ran one after the other: none is summed.
    Raises ValueError if the text is not fio's JSON, or a job failed."""
    documents, other_text = _documents(text)
    if not documents:
        raise ValueError("no JSON in it")
    document = next((document for document in reversed(documents) if "jobs" in document), documents[-1])
    if (version := _VERSION.match(str(document.get("fio version", "")))) and int(version[1]) > _NEWEST:
        raise ValueError(f"{version[0]}: its form is unknown: use fio 2.2 to {_NEWEST}")
    try:
        figures = tuple(_figures(document))
    except ValueError as error:
        raise ValueError(f"{str(document.get('fio version', 'fio'))[:40]}: {error}") from None
    return (*figures, *parse_lines(other_text))


def _documents(text: str) -> tuple[list[dict[str, Any]], str]:
    """Return every JSON object in the text, and the text around them. Raises ValueError if one of fio's is damaged."""
    documents, around, end, failures = [], [], 0, 0
    decoder = json.JSONDecoder()
    brace = _OBJECT.search(text)
    while brace:
        try:
            document, stop = decoder.raw_decode(text, brace.start())
        except RecursionError:
            raise ValueError("its JSON is nested too deep") from None
        except json.JSONDecodeError as error:
            failures += 1
            if brace["key"] or failures > _MOST_FAILURES:
                raise ValueError(f"its JSON is cut off or damaged in line {error.lineno}") from None
            stop = max(error.pos, brace.end())
        else:
            documents.append(document)
            around.append(text[end : brace.start()])
            end = stop
        brace = _OBJECT.search(text, stop)
    return documents, "".join((*around, text[end:]))


def _figures(document: Mapping[str, Any]) -> Iterator[Reported]:
    jobs = _get(document, "jobs")
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise ValueError("its jobs are not a list of objects")
    failed = [_get(job, "jobname") for job in jobs if job.get("error")]
    if failed:
        raise ValueError(f"job {failed[0]} failed")
    groups = _groups(jobs)
    for name, group in groups.items():
        before = f"{name}: " if len(groups) > 1 else ""
        for kind in _DIRECTIONS:
            if kind in group[0] or ("mixed" not in group[0] and kind != "mixed"):
                yield from _direction(f"{before}{kind}", [_get(job, kind) for job in group])
        # The latencies of fsync, fdatasync and sync_file_range, since fio 3.5.
        syncs = [job["sync"] for job in group if "sync" in job]
        yield from _latency(f"{before}sync", [sync for sync in syncs if _number(sync, "lat_ns", "mean")])


def _groups(jobs: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the jobs of each group by the names of its jobs, with its number where two groups have the same."""
    by_number: dict[str, list[Mapping[str, Any]]] = {}
    for job in jobs:
        by_number.setdefault(str(job.get("groupid", 0)), []).append(job)
    names = {
        number: ", ".join(dict.fromkeys(str(job.get("jobname", "")) for job in group))[:_LONGEST]
        for number, group in by_number.items()
    }
    return {
        name if list(names.values()).count(name) == 1 else f"{name} (group {number[:20]})": by_number[number]
        for number, name in names.items()
    }


def _get(value: Any, *keys: str) -> Any:
    """Return the value at these keys. Raises ValueError if one is missing."""
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"it lacks '{key}'")
        value = value[key]
    return value


def _number(value: Any, *keys: str) -> float:
    number = _get(value, *keys)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= _LARGEST:
        raise ValueError(f"its {keys[-1]} is not a number")
    return float(number)


def _direction(name: str, jobs: Sequence[Mapping[str, Any]]) -> Iterator[Reported]:
    busy = [job for job in jobs if _number(job, "total_ios")]
    if not busy:
        return
    yield Reported(f"{name} bandwidth", math.fsum(map(_bandwidth, busy)) / 1e6, "MB/s", MORE)
    yield Reported(f"{name} IOPS", math.fsum(_number(job, "iops") for job in busy), "per s", MORE)
    yield from _latency(name, busy)


def _bandwidth(job: Mapping[str, Any]) -> float:
    """Return bytes per second."""
    return _number(job, "bw_bytes") if "bw_bytes" in job else _number(job, "bw") * 1024


def _latency(name: str, jobs: Sequence[Mapping[str, Any]]) -> Iterator[Reported]:
    """Yield the mean of all I/Os, unless fio did not take it (disable_lat, gtod_reduce), and the percentiles."""
    latencies = [(_number(_times(job, "lat"), "mean"), job) for job in jobs]
    weighted = [(mean, _count(job)) for mean, job in latencies if mean]
    total = math.fsum(count for _, count in weighted)
    if total:
        yield Reported(f"{name} latency", math.fsum(mean * count for mean, count in weighted) / total / 1e3, "µs")
    percentiles = [_percentiles(job) for job in jobs]
    for key, label in _PERCENTILES.items():
        of_jobs = [_number(table, key) for table in percentiles if key in table]
        if of_jobs:
            yield Reported(f"{name} latency {label}", max(of_jobs) / 1e3, "µs")


def _count(job: Mapping[str, Any]) -> float:
    """Return the number of I/Os whose latency was taken. ``total_ios`` of ``sync`` is 0 for fdatasync."""
    times = _times(job, "lat")
    return (_number(times, "N") if "N" in times else _number(job, "total_ios")) or 1.0


def _times(job: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return ``lat`` or ``clat``, with its times in nanoseconds."""
    times = job.get(f"{key}_ns", job.get(key))
    if not isinstance(times, dict):
        raise ValueError(f"its {key}_ns is not an object")
    if f"{key}_ns" in job:
        return times
    table = times.get("percentile")
    percentiles = (
        {}
        if not isinstance(table, dict)
        else {name: _number(table, name) * 1e3 for name in _PERCENTILES if name in table}
    )
    return {"mean": _number(times, "mean") * 1e3, "percentile": percentiles}


def _percentiles(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the percentiles of ``lat`` (lat_percentiles=1, or of a sync), else of ``clat``; empty without any."""
    for key in ("lat", "clat"):
        if f"{key}_ns" in job or key in job:
            table = _times(job, key).get("percentile", {})
            if not isinstance(table, dict):
                raise ValueError(f"its {key}_ns has no object of percentiles")
            if table:
                return table
    return {}
