"""Odd input for every parser and message of the kit, and what is called with it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import socket
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from kit.analysis.session.threshold import parse_threshold
from kit.arms.filesystem import BackingOptions, Profile, bundled, find_profile
from kit.arms.filesystem.profile import parse_profiles, recorded
from kit.arms.image.image_file import read_image_file
from kit.arms.image.manifest import LONGEST_JSON
from kit.arms.probe.client import Probe
from kit.cli.infile import read_lines
from kit.core.codec import UnreadableError, decode, decode_json, encode, encode_json, encode_tagged
from kit.core.errors import UsageError
from kit.core.quantity import cpu_list, duration, pairs, percentage, size
from kit.core.sanitize import printable
from kit.extra.exchange.runs import read_runs
from kit.extra.fleet.address import parse_address
from kit.extra.fleet.client.each import EachCourse
from kit.extra.fleet.client.split import SplitCourse
from kit.extra.fleet.share import Share
from kit.extra.history.nightly.file import parse_nightly
from kit.extra.tracing.bpftrace import read_maps
from kit.extra.tracing.calls import rows
from kit.extra.tracing.cpu_attribution import Parts
from kit.extra.tracing.functions import function_rows
from kit.extra.tracing.perf import fold_script
from kit.host.recovery.journal import parse as parse_journal
from kit.model.arm import parse_arm, parse_arms
from kit.model.event import (
    Change,
    Event,
    FactsKnown,
    PhaseStarted,
    Relay,
    RunFlagged,
    RunsAdded,
    RunsPlanned,
    SampleTaken,
    SessionStarted,
    StatusChanged,
    Told,
)
from kit.model.machine import Member, Progress, parse_where
from kit.model.plan import PlanStep
from kit.model.profile import CpuProfile
from kit.model.scenario import parse_point, points
from kit.model.scenariofile import parse_scenario
from kit.model.session import DONE, FAILED, NotRun
from kit.parsers import parse_report
from kit.parsers.task import BuildTask
from kit.report.text.progress import Quiet
from kit.session.setup.cleanups import CLEANUPS
from kit.session.wire.claims import Bounds
from kit.session.wire.messages import Alive, Done, Failed, Message, MessageReader, decode_line, encode_message
from kit.session.wire.remote_session import RemoteSession
from kit.store.exchange import load_lines
from kit.store.outbox.events import load_change
from kit.store.outbox.outbox import whole_lines
from tests import strategies as odd
from tests.build_output import BUILDAH, BUILDKIT, BUILDKIT_CACHED, CACHED, CLASSIC
from tests.extra.fleet.machines import FIRST, ONE, TWO, sample
from tests.image_archives import directory
from tests.nights import night
from tests.sinks import Recorded
from tests.stored import PROFILES, SAMPLE, SESSION
from tests.stores import dump

Call = Callable[[Any], object]


def _scenario(case: tuple[str, str, dict[str, str]]) -> None:
    text, variant, given = case
    scenario = parse_scenario(text, "demo.toml", variant).bind(given, 2)
    names = {"tree": "/build", "inputs": "/in", "lower": "/low", "engine": "/e"}
    assert all(step.render(names) for step in (*scenario.prepare, *scenario.phases)) and scenario.digest
    uid, gid = map(int, scenario.user.split(":"))
    assert max(uid, gid) < 1 << 32
    assert all("/" not in item.name and not item.name.startswith(".") for item in scenario.inputs)


def _profiles(text: str) -> None:
    profiles = {**bundled(), **parse_profiles(text, "mine.toml")}
    for name in profiles:
        find_profile(name, BackingOptions(profiles=profiles))
    assert recorded(tuple((name, profile.text) for name, profile in profiles.items())) == profiles


def _points(params: list[tuple[str, str]]) -> None:
    found = points(params)
    for label, values in found.items():
        assert parse_point(label).items() <= dict(values).items()


def _report(name: str) -> Callable[[str], None]:
    def call(text: str) -> None:
        report = parse_report(name, text)
        for item in report.figures:
            assert item.value is None or abs(item.value) < float("inf")
            assert 0 < len(item.name) <= 100 and len(item.unit) <= 40 and (item.name + item.unit).isprintable()
        for task in report.tasks:
            assert decode(BuildTask, encode(task)) == task
            assert 0 < len(task.recipe) <= 100 and 0 < len(task.kind) <= 100 and (task.recipe + task.kind).isprintable()

    return call


def _mkfs(text: str) -> None:
    BackingOptions(mkfs=(("ext4", text),), mount=(("ext4", text),)).mkfs_words(Profile("ext4", "ext4"))


_scenario_texts = odd.toml_texts(odd.SCENARIO, *(path.read_text() for path in odd.SCENARIOS))
#: Each parser: what it is given, and what is called with it.
INPUTS: dict[str, tuple[st.SearchStrategy[Any], Call]] = {
    "arm": (
        st.tuples(odd.mutated(odd.ARMS), st.lists(odd.mutated(["xfs", "ext4"]), max_size=2).map(tuple)),
        lambda case: parse_arms(case[0], "docker", case[1]),
    ),
    "size": (odd.mutated(odd.QUANTITIES), lambda text: size(text).to_bytes(8)),
    "cpu list": (odd.mutated(odd.QUANTITIES), cpu_list),
    "percentage": (odd.mutated(odd.QUANTITIES), lambda text: percentage(text, "--precision")),
    "duration": (odd.mutated(odd.QUANTITIES), lambda text: duration(text, "--budget")),
    "pairs": (st.lists(odd.mutated(odd.QUANTITIES), max_size=3).map(tuple), lambda texts: pairs(texts, "--param")),
    "sweep": (st.lists(st.tuples(st.sampled_from("abcdef"), odd.mutated([v for _, v in odd.PARAMS]))), _points),
    "point": (odd.mutated(odd.LABELS), parse_point),
    "threshold": (odd.mutated(odd.THRESHOLDS), lambda text: str(parse_threshold(text))),
    "scenario": (
        st.tuples(
            _scenario_texts,
            st.sampled_from(("", "tiny", "python2", "short", "x")),
            st.dictionaries(st.sampled_from(("jobs", "targets", "size", "x")), odd.mutated(["4", "a 'b c'"])),
        ),
        _scenario,
    ),
    "nightfile": (
        odd.toml_texts(odd.NIGHT),
        lambda text: [task.name for task in parse_nightly(text, "night.toml", "night").tasks],
    ),
    "profile": (odd.toml_texts(odd.PROFILES), _profiles),
    "mkfs words": (odd.mutated(["-O ^has_journal -E 'a=b,c'", 'x "y z"']), _mkfs),
    "timed runs": (odd.mutated(odd.TIMES), lambda text: read_runs(text, "time.txt")),
    "lines": (odd.mutated(odd.LINES), _report("lines")),
    "bonnie": (odd.mutated([odd.BONNIE]), _report("bonnie")),
    "build steps": (odd.mutated([CLASSIC, CACHED, BUILDAH]), _report("build-steps")),
    "buildkit": (odd.mutated([BUILDKIT, BUILDKIT_CACHED]), _report("buildkit")),
    "buildstats": (odd.mutated([odd.BUILDSTATS]), _report("buildstats")),
    "fio": (
        st.one_of(
            odd.documents([odd.FIO]).map(lambda document: json.dumps(document, indent=2)),
            odd.mutated([json.dumps(odd.FIO, indent=2), f"kit: x = 1\n{json.dumps(odd.FIO, indent=1)}\nend"]),
        ),
        _report("fio"),
    ),
}  # fmt: skip


@contextmanager
def _file(data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "in"
        path.write_bytes(data)
        yield path


def _bytes_edited(data: bytes, edits: Sequence[tuple[int, int, bytes]]) -> bytes:
    for place, length, middle in edits:
        start = place % (len(data) + 1)
        data = data[:start] + middle + data[start + length :]
    return data


_BYTE_EDITS = st.lists(
    st.tuples(
        st.integers(0, 1 << 20),
        st.integers(0, 600),
        st.one_of(st.binary(max_size=8), st.sampled_from((b"", bytes(512), b"\xff" * 600, b"9" * 12, b"\n" * 5_000))),
    ),
    max_size=3,
)


def damaged(data: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Bytes with up to three edits."""
    return st.tuples(data, _BYTE_EDITS).map(lambda case: _bytes_edited(*case))


STEP = PlanStep(1, parse_arm("bare"), "measured")
#: One of each kind, as a guest or a machine says them in order.
MESSAGES: tuple[Message, ...] = (
    Alive(), Told("text"), RunsPlanned(2, 0), FactsKnown.of(FIRST), RunsAdded(3, "why"), PhaseStarted(STEP, "run"),
    SampleTaken(sample(1)), RunFlagged("bare", "", 1, "burst"), SampleTaken(sample(2)),
    Failed("RunError", "message", "hint"), Done.by(replace(FIRST, status=DONE)),
)  # fmt: skip
_SAID = [{"said": json.loads(encode_message(message))} for message in MESSAGES]


def _line(document: dict[str, Any]) -> bytes:
    return b"\n" + json.dumps(document.get("said")).encode() + b"\n"


_lines = st.lists(st.one_of(st.sampled_from(MESSAGES).map(encode_message), odd.documents(_SAID).map(_line)), max_size=8)


def _guest(lines: list[bytes]) -> None:
    arms, points = FIRST.arms, FIRST.kept_plan().points
    remote = RemoteSession(FIRST, Bounds("the guest", arms, points), Relay(Recorded(), Quiet()), str)
    for message in MessageReader().feed(b"".join(lines)):
        match message:
            case Failed():
                raise message.error()
            case Done():
                remote.end(message, (DONE, FAILED))
            case Alive():
                pass
            case _:
                remote.take(message)


def _fleet(course: Callable[[], EachCourse | SplitCourse]) -> Call:
    """Two machines: one says odd things, the other what it should."""

    def call(lines: list[bytes]) -> None:
        made = course()
        made.assign([ONE, TWO])
        for member, told in ((ONE, lines), (TWO, [encode_message(message) for message in MESSAGES])):
            for line in told:
                message = None
                with suppress(UnreadableError):
                    message = decode_line(line)
                if isinstance(message, Done | Failed):
                    made.end(member, message)
                    break
                if isinstance(message, Event):
                    made.on_event(member, message)

    return call


def _each() -> EachCourse:
    return EachCourse(
        {"one": FIRST, "two": replace(FIRST, id="other")}, {"one": Recorded(), "two": Recorded()}, Quiet()
    )


def _split() -> SplitCourse:
    return SplitCourse(FIRST, FIRST.kept_plan(), (ONE, TWO), Recorded(), Quiet())


def _probe(answer: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(answer[:100_000])
        theirs.shutdown(socket.SHUT_WR)
        Probe(ours).timing()


def _maps(text: str) -> None:
    with _file(text.encode(errors="replace")) as path:
        maps = read_maps(path)
    for call in (*rows(maps), *function_rows(maps)):
        encode(call)


def _perf(text: str) -> None:
    profile = fold_script(iter(text.splitlines(keepends=True)), Parts([500], [], 1), (10.0, 11.0), 5.0)
    assert decode(CpuProfile, encode(profile)) == profile
    profile.stacks()


def _outbox(data: bytes) -> None:
    for line in whole_lines(data)[1:]:
        load_change(line)


def _import(data: bytes) -> None:
    with _file(data) as path:
        for session in load_lines(read_lines(str(path), 256 << 20, "--limit"), "in"):
            assert session.imported


def _profile(packed: str) -> None:
    replace(PROFILES[0], folded=packed).stacks()


def _saved(data: bytes) -> None:
    with _file(data) as path:
        read_image_file(path, path.with_name("rootfs"), path.with_name("archive"))


def _layout(files: dict[str, bytes]) -> None:
    """A directory in OCI layout."""
    with tempfile.TemporaryDirectory() as scratch:
        top = directory(Path(scratch) / "layout", files)
        read_image_file(top, Path(scratch) / "rootfs", Path(scratch) / "archive")


def _journal(data: bytes) -> None:
    try:
        parse_journal(data, Path("x.journal"), CLEANUPS)
    except ValueError as error:  # as its callers do
        raise UsageError(f"journal x: {error}") from None


def _tar(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


def _archive(documents: dict[str, Any], layer: bytes, packed: bool) -> bytes:
    """As docker save writes it, of odd documents and one layer, whose digest is right."""
    text = json.dumps(documents).replace("DIGEST", f"sha256:{hashlib.sha256(layer).hexdigest()}")
    found = json.loads(text)
    files = {"0/layer.tar": gzip.compress(layer) if packed else layer}
    files |= {f"{name}.json": json.dumps(content).encode() for name, content in found.items()}
    return _tar(files)


_SAVED = {
    "manifest": [{"Config": "c.json", "RepoTags": ["debian:12"], "Layers": ["0/layer.tar"]}],
    "c": {"config": {"Env": ["PATH=/bin", "A=b=c"]}, "rootfs": {"type": "layers", "diff_ids": ["DIGEST"]}},
}  # fmt: skip
#: As OCI layout; 4242 is the size of the blob whose digest is beside it.
_OCI = {
    "config": {"os": "linux", "config": {"Env": ["PATH=/bin"]}, "rootfs": {"diff_ids": ["DIGEST"]}},
    "manifest": {
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "CONFIG", "size": 4242},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": "LAYER", "size": 4242}],
    },
    "nested": {"manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "MANIFEST", "size": 4242,
        "platform": {"os": "linux", "architecture": ""}, "annotations": {"org.opencontainers.image.ref.name": "a"},
    }]},
    "index": {"manifests": [
        {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "NESTED", "size": 4242},
    ]},
}  # fmt: skip


def _oci(documents: dict[str, Any], layer: bytes, packed: bool) -> dict[str, bytes]:
    """An OCI layout of odd documents and one layer, each with the digest and size that the next names."""
    blob = gzip.compress(layer) if packed else layer
    made = {"DIGEST": layer, "LAYER": blob}
    for name in _OCI:
        text = json.dumps(documents.get(name))
        for label, data in made.items():
            sized = text.replace(f'"{label}", "size": 4242', f'"{label}", "size": {len(data)}')
            text = sized.replace(f'"{label}"', f'"sha256:{hashlib.sha256(data).hexdigest()}"')
        made[name.upper()] = text.encode()
    files = {f"blobs/sha256/{hashlib.sha256(data).hexdigest()}": data for data in made.values()}
    return {**files, "oci-layout": b"{}", "index.json": made["INDEX"]}


_LAYER = _tar({"etc/passwd": b"x" * 600, "etc/.wh.gone": b"", "etc/.wh..wh..opq": b"", "usr/bin/a": b"y"})
MAPS: list[dict[str, Any]] = [
    {"type": "map", "data": {"@errors": {"257,-18": 1}, "@took": {"257": 9000}, "@entered": 7, "@faults": 2}},
    {"type": "hist", "data": {"@spread": {"257": [{"min": 1024, "max": 2047, "count": 3}]}}},
    {"type": "hist", "data": {"@fuse_spread": {"1": [{"min": 65536, "max": 131071, "count": 2}]}}},
    {"type": "hist", "data": {"@function_spread": {"1": [{"min": 1, "max": 1, "count": 2}]}}},
    {"type": "map", "data": {"@fuse_errors": {"1,-2": 1}, "@fuse_took": {"1": 200000}, "@calls": {"1": 2}}},
]
PERF = """\
        kthreadd     0/0         0.000000: PERF_RECORD_FORK(70:70):(2:2)
ls 501/501    10.100000:    2004008 cpu-clock:I:
\tffffffff816dfdb6 __d_lookup_rcu ([kernel.kallsyms])
\t            828e [unknown] (/usr/bin/ls (deleted))

          python  5287/5287  51964.452281: PERF_RECORD_LOST lost 120
Web Content 9/12    10.200000:    2004008 cycles:
\t           f82ec operator()(int) const (/usr/lib/x86_64-linux-gnu/libc.so.6)

"""
PERF_ODD = (PERF, PERF.replace("ls ", "l" + " " * 3_000 + "s "), PERF.replace("2004008", "9" * 400), "a " * 20_000)
CHANGES: tuple[Change, ...] = (
    SessionStarted(SESSION), FactsKnown.of(SESSION), SampleTaken(SAMPLE), RunFlagged("bare", "", 1, "x"),
    StatusChanged("done"),
)  # fmt: skip
_EXPORTED = dump([night(1, 0.1)]).encode()
EXPORT = json.loads(dump([replace(night(1, 0.05), not_run=(NotRun("layer:aufs", "no", "boot"),))]))
ANSWER = (
    "status=exit code=0 real_ns=12 end_ns=15 user_us=1 sys_us=2 maxrss_kib=3 minflt=4 majflt=5 nvcsw=6 nivcsw=7 "
    "oublock=8\n",
    "status=error errno=2 what=exec\n",
    "status=signal code=9 real_ns=1\n",
)


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 1)).decode()


def _bomb(name: str, item: str, many: int) -> bytes:
    """A session of a few kilobytes, packed, that becomes many values."""
    head, _, tail = json.dumps({**EXPORT, "sessions": [{**EXPORT["sessions"][0], name: ["HERE"]}]}).partition('"HERE"')
    return gzip.compress((head + ",".join([item] * many) + tail).encode(), 1)


def _json_bomb(name: str, item: str) -> bytes:
    """An archive with as many values in a document as its bounds permit."""
    many = ",".join([item] * ((LONGEST_JSON - 40) // (len(item) + 1)))
    text = f"[{many}]" if name == "manifest.json" else f'{{"manifests":[{many}]}}'
    return _tar({name: text.encode(), "blobs/sha256/x": b""})


def _header(kind: bytes, size: int) -> bytes:
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


#: What a few kilobytes may become, and what is called with it.
BOMBS: dict[str, tuple[Callable[[], Any], Call]] = {
    "samples": (lambda: _bomb("samples", json.dumps(encode(SAMPLE)), 30_000), _import),
    "short samples": (lambda: _bomb("samples", json.dumps({**encode(SAMPLE), "phases": []}), 200_000), _import),
    "arms": (lambda: _bomb("arms", '"a"', 5_000_000), _import),
    "empty samples": (lambda: _bomb("samples", "[]", 20_000_000), _import),
    "blanks": (
        lambda: gzip.compress(b'{"kit-export": 1, "sessions": [\n' + b" " * 100_000_000 + b"\n]}\n", 1),
        _import,
    ),
    "deep stacks": (lambda: _packed(("a;" * 200 + "b 1\n") * 200_000), _profile),
    "many stacks": (lambda: _packed("a 1\n" * 5_000_000), _profile),
    "one line": (lambda: _packed("x" * 100_000_000), _profile),
    "manifests": (lambda: _json_bomb("index.json", '{"digest":"","size":0,"mediaType":""}'), _saved),
    "annotations": (
        lambda: _json_bomb("index.json", '{"digest":"","size":0,"mediaType":"","annotations":{"a":"","b":"","c":""}}'),
        _saved,
    ),
    "images": (lambda: _json_bomb("manifest.json", '{"Config":"","Layers":[""]}'), _saved),
    "header": (lambda: _tar({"oci-layout": b""})[:1024] + _header(tarfile.XHDTYPE, 1 << 33), _saved),
    "names": (lambda: _packed("".join(f"a{number};b{number} 1\n" for number in range(3_000_000))), _profile),
    "recipe": (lambda: "b/" + "a-1" * 50_000 + " -/do_compile:Started: 1.0\n", _report("buildstats")),
    "symbol": (lambda: f"{PERF}{chr(9)}{'f' * 16} {' (' * 30_000}\n{' ' * 60_000}\n{'a ' * 30_000}1/1 x\n", _perf),
}

INPUTS |= {
    "guest": (_lines, _guest),
    "guest bytes": (st.lists(damaged(_lines.map(b"".join)), max_size=2), _guest),
    "fleet each": (_lines, _fleet(_each)),
    "fleet split": (_lines, _fleet(_split)),
    "member": (odd.documents([encode(ONE)]), lambda document: decode(Member, document)),
    "progress": (odd.documents([encode(Progress(1, 2, 3.0))]), lambda document: decode(Progress, document)),
    "share": (damaged(st.just(encode_json(Share(FIRST)).encode())), lambda text: decode_json(Share, text)),
    "address": (
        odd.mutated(["fleet:8786", "tls://[::1]:1", "tcp://127.0.0.1:65535", "localhost"]),
        lambda text: parse_address(text, ""),
    ),
    "where": (odd.mutated(["cores>=32, memory>=64G", "kernel=6.8*,name!=b7"]), parse_where),
    "outbox": (
        damaged(st.permutations(CHANGES).map(lambda it: b"\n".join([b"{}", *map(encode_tagged, it), b""]))), _outbox,
    ),
    "outbox change": (
        odd.documents([{"said": json.loads(encode_tagged(change))} for change in CHANGES]),
        lambda document: load_change(json.dumps(document.get("said")).encode()),
    ),
    "journal": (
        damaged(st.just(b'["kit", "1"]\n["acquire", "mount", "/run/kit/x"]\n["acquire", "directory", "/tmp/x"]\n')),
        _journal,
    ),
    "perf": (odd.mutated(PERF_ODD), _perf),
    "bpftrace": (
        st.lists(odd.documents(MAPS).map(json.dumps), max_size=4).map("\n".join), _maps,
    ),
    "bpftrace text": (odd.mutated(["\n".join(map(json.dumps, MAPS))]), _maps),
    "probe": (odd.mutated(ANSWER).map(lambda text: text.encode(errors="replace")), _probe),
    "docker save": (
        st.builds(_archive, odd.documents([_SAVED]), damaged(st.just(_LAYER)), st.booleans()), _saved,
    ),
    "oci layout": (st.builds(_oci, odd.documents([_OCI]), damaged(st.just(_LAYER)), st.booleans()), _layout),
    "oci archive bytes": (
        damaged(st.builds(_oci, st.just(_OCI), st.just(_LAYER), st.booleans()).map(_tar)), _saved,
    ),
    "docker save bytes": (damaged(st.builds(_archive, st.just(_SAVED), st.just(_LAYER), st.booleans())), _saved),
    "import": (odd.documents([EXPORT]).map(lambda document: json.dumps(document).encode()), _import),
    "import bytes": (damaged(st.sampled_from((_EXPORTED, gzip.compress(_EXPORTED)))), _import),
    "cpu profile": (odd.mutated([PROFILES[0].folded]), _profile),
    "text shown": (odd.mutated([*odd.LINES, "password=x " * 100, "curl -u a:b " * 100]), printable),
}  # fmt: skip
