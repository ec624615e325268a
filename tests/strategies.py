"""Input that parsers must stand: right examples with something odd in them, as hypothesis draws it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

SCENARIOS = sorted(Path(__file__).parent.parent.glob("scenarios/*.toml"))

#: What has broken parsers before: quotes, other alphabets' digits, control characters, too much of anything.
ODD = (
    "'", '"', "\\", "{", "}", "[", "[[", "²", "٣", "\0", "\n", "\u2028", "\x1b[2J", ",", ":", ";", "; ", "=", "/", "..",
    "/etc", "🙂", "9" * 400, "9" * 16_000, "0x" + "f" * 16_000, "1e999", "nan", "inf", "-1", "0", "", " ", "a" * 70_000,
    "[" * 3_000, '{"a":' * 3_000, "a." * 3_000, "\n" * 20_000, "1" * 30_000, ",x" * 20_000, "1,2,3,4,5,6,7,8,9,10",
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    *ODD, None, True, 0, -1, 1, 2.5, 1e308, float("inf"), float("nan"), 10**17, 10**400, [], {}, [1], [[]], ["x"], [""],
    [{}], {"x": 1}, {"": ""}, {"name": []}, ["{jobs}" * 1000],
)  # fmt: skip


#: Where, how much of what is there is taken out, and what takes its place: something odd, it twice (None), or text.
_EDITS = st.lists(
    st.tuples(
        st.integers(0, 4095),
        st.integers(0, 12),
        st.one_of(st.sampled_from(ODD), st.just(""), st.none(), st.text(max_size=4)),
    ),
    max_size=4,
)
_CHANGES = st.lists(
    st.tuples(
        st.integers(0, 4095), st.sampled_from(("odd", "own", "gone", "renamed", "doubled")), st.integers(0, 4095)
    ),
    max_size=4,
)


def mutated(examples: Sequence[str]) -> st.SearchStrategy[str]:
    """One of the examples with up to four edits."""
    return st.tuples(st.sampled_from(examples), _EDITS).map(lambda case: _edited(*case))


def _edited(text: str, edits: Sequence[tuple[int, int, str | None]]) -> str:
    for place, length, middle in edits:
        start = place % (len(text) + 1)
        taken = text[start : start + length]
        text = text[:start] + (taken * 2 if middle is None else middle) + text[start + length :]
    return text


def documents(examples: Sequence[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """One of the examples in which up to four values are odd, another's, gone, doubled, or under another name."""
    return st.tuples(st.sampled_from(examples), _CHANGES).map(lambda case: _changed(*case))


def _changed(document: dict[str, Any], changes: Sequence[tuple[int, str, int]]) -> dict[str, Any]:
    document = deepcopy(document)
    for place, kind, which in changes:
        places = _places(document)
        if not places:
            break
        *path, last = places[place % len(places)]
        inner: Any = document
        for key in path:
            inner = inner[key]
        if kind == "odd":
            inner[last] = deepcopy(ODD_VALUES[which % len(ODD_VALUES)])
        elif kind == "own":  # a string of the same document: a cycle, say
            strings = [*_strings(document), ""]
            inner[last] = strings[which % len(strings)]
        elif kind == "gone":
            del inner[last]
        elif kind == "renamed" and isinstance(inner, dict):
            inner[ODD[which % len(ODD)]] = inner.pop(last)
        elif isinstance(inner, list):
            inner.insert(0, inner[last])
    return document


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _places(item, (*path, key))
    return found


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in _strings(part)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) and len(value) < 100 else []


def toml(value: Any) -> str:
    """A document as TOML, all of it inline."""
    return "".join(f"{_string(str(key))} = {_inline(item)}\n" for key, item in value.items() if item is not None)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_string(str(k))} = {_inline(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value if item is not None) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return _string(value) if isinstance(value, str) else repr(value)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


ARMS = (
    "bare", "host@dir", "runtime+control", "layer:overlay2@xfs+cpus=1.5+memory=2g", "union:overlay+metacopy=on",
    "layer:podman/overlay+volatile", "layer:docker@20.10/devicemapper+thinpool", "bind:system/overlay2+seccomp=default",
    "bare,layer:btrfs,bind:containerd/devmapper@ext4-tuned", "tmpfs:vfs, volume:overlay2+cgroup=none",
)  # fmt: skip
THRESHOLDS = (
    "layer:overlay2 < 10 %",
    "layer:overlay2@xfs build cpu_total < 5%",
    "bare real < -3.5 %",
    "x y z w < 1 %",
    "bare" + " " * 20_000 + "5 %",
)
QUANTITIES = ("20G", "512m", "1", "2%", "0.5 %", "90s", "1h30m", "2h", "jobs=4", "x=", "0" * 400 + "1s")
PARAMS = (
    ("jobs", "1,2,4"), ("targets", r"a\,b,c"), ("text", "x"), ("a", ",".join(map(str, range(1000)))),
    ("b", ",".join(map(str, range(1000)))), ("c", "9" * 16_000), ("d", "x;"), ("e", "y; z,1"), ("f", "=,1"),
)  # fmt: skip
LABELS = ("", "jobs=2; config=tinyconfig", "x", "; ", "a=b=c; d")
TIMES = (
    "\nreal\t29m59.190s\nuser\t278m0.988s\nsys\t59m47.379s\n",
    "real 12.5\nuser 1,5\nsys 0.2\n",
    "1.23user 0.45system 0:01.70elapsed 98%CPU (0avgtext+0avgdata 5120maxresident)k\n",
    "29m59.190s / 278m0.988s / 59m47.379s\n",
    "\tUser time (seconds): 1.50\n\tSystem time (seconds): 0.25\n"
    "\tElapsed (wall clock) time (h:mm:ss or m:ss): 0:02.10\n\tMaximum resident set size (kbytes): 5120\n",
    "Elapsed (wall clock) time " * 2_000,
    "#9 1.2 Command terminated by signal 9\n#9 1.2 real\t1h 2m 3s\n#9 1.2 user\t3m 37.95s\n#9 1.2 sys\t0m 0.04s\n",
    "2026-05-01T10:00:00.1Z make -j4  36.46s user 18.69s system 105% cpu 1:02:03.5 total\n",
    "Executed in   92.89 secs    fish   external\n usr time   54.47 mins  1.0 micros\n sys time  863.00 millis\n",
    "12.5u 3.2s 0:20.13 78.0% 0+0k 120+8io 3pf+0w\n    0m14.18s real     0m10.30s user     0m02.36s system\n",
    "1.0u " * 2_000 + "1m" * 2_000 + "real " * 2_000,
    "\n Performance counter stats for 'make' (3 runs):\n\n  1.001806 (+0.000947) ###\n  1.000002 (-0.000857) #\n\n"
    "          # Final result:\n          0.998859 +- 0.000523 seconds time elapsed  ( +- 0.87% )\n",
    " Performance counter stats for 'make':\n\n 0.5 seconds time elapsed\n\n 0.4 seconds user\n 0.1 seconds sys\n" * 50,
    '{"results": [{"command": "make", "mean": 1.5, "user": 1.1, "system": 0.2, "times": [1.4, 1.6],'
    ' "exit_codes": [0, 1]}]}',
    '{"benchmarks": [{"name": "test_a[x]", "stats": {"mean": 2.0, "data": [1.0, 3.0]}}]}',
)
LINES = ("noise\nkit: cycles = 12.5 per s, more is better\nkit: latency p99 = 3e-3 ms\n", "kit: fragments = 7\n")
BONNIE = (
    "1.98,2.00a,vm,1,1795258002,64M,,8192,5,1332,98,+++++,+++,+++++,+++,2076,97,+++++,+++,5000,+++,1,,,,,+++++,+++,"
    "+++++,+++,810,+++,+++++,+++,+++++,+++,+++++,+++,9689us,308us,169us,7730us,69us,9914us,364us,62us,222us,879us,33us,2s\n"
)
BUILDSTATS = """build/tmp/buildstats/20261122064250/zip-native-3.0-r2/do_compile:Started: 1795258002.13
build/tmp/buildstats/20261122064250/zip-native-3.0-r2/do_compile:IO read_bytes: 0
build/tmp/buildstats/20261122064250/zip-native-3.0-r2/do_compile:IO write_bytes: 4096
build/tmp/buildstats/20261122064250/zip-native-3.0-r2/do_compile:rusage ru_utime: 0.082341
build/tmp/buildstats/20261122064250/zip-native-3.0-r2/do_compile:rusage ru_stime: 0.01
build/tmp/buildstats/20261122064250/zip-native-3.0-r2/do_compile:Child rusage ru_utime: 3.1
build/tmp/buildstats/20261122064250/zip-native-3.0-r2/do_compile:Child rusage ru_stime: 0.4
build/tmp/buildstats/20261122064250/zip-native-3.0-r2/do_compile:Ended: 1795258005.63
"""
_SIDE = {
    "total_ios": 100, "bw_bytes": 2_000_000, "iops": 500.0, "lat_ns": {"mean": 4000.0},
    "clat_ns": {"percentile": {"50.000000": 3000, "99.000000": 9000}},
}  # fmt: skip
FIO = {"jobs": [{"jobname": "j", "error": 0, "read": _SIDE, "write": _SIDE, "trim": _SIDE}], "fio version": "fio-3.33"}
SCENARIO: dict[str, Any] = {
    "name": "demo", "summary": "A demo", "image": "smoke", "user": "1000:1000", "lower": "/low", "engine": ["docker"],
    "env": {"HOME": "/root"},
    "params": {
        "jobs": {"default": "{cores}", "type": "int", "help": "how many"},
        "targets": {"default": "all", "type": "words"},
        "size": {"default": "{jobs}{jobs}", "choices": ["22", "44"]},
    },
    "inputs": {
        "src": {"source": "/src/{targets}", "strip": 1, "exclude": ["*.o"]},
        "more": {"fetch": [["get", "{targets}"]], "into": "directory"},
    },
    "prepare": [{"run": ["prepare", "{inputs}"]}],
    "phases": [
        {"name": "build", "run": ["make", "-j{jobs}", "{targets}"], "report": "fio"},
        {"name": "b", "run": ["{targets}"]},
    ],
    "variants": {"tiny": {"summary": "less", "params": {"targets": {"default": "one 'two'"}}}},
}  # fmt: skip
NIGHT: dict[str, Any] = {
    "store": "sqlite:///x.db", "output": "out", "budget": "2h", "wait_idle": "30m", "confirm": 3,
    "notify": {"urls": ["env:URL", "mailto://a:b@c"]},
    "defaults": {"rounds": 5, "arms": ["bare", "layer:overlay2"], "cache": "cold", "size": "10G"},
    "tasks": [
        {"scenario": "kernel:short", "params": {"jobs": 4}, "thresholds": ["layer:overlay2 < 10 %"], "precision": "2%"},
        {"command": ["make", "-j8"], "source": ".", "filesystems": ["ext4"], "ignore": ["kernel"], "fresh": True},
    ],
}  # fmt: skip
PROFILES: dict[str, Any] = {
    "mine": {"type": "ext4", "mkfs": ["-O", "^has_journal"], "mount": ["noatime"], "expect": ["x"], "write_back": ""},
    "memory": {"type": "tmpfs", "write_back": "mine", "every": 5},
    "share": {"type": "nfs", "source": "host:/path"},
}


def toml_texts(document: dict[str, Any], *files: str) -> st.SearchStrategy[str]:
    """TOML of an odd document, and files with something odd in their text."""
    return st.one_of(documents([document]).map(toml), mutated([toml(document), *files]))
