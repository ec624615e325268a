"""What others wrote is data: an import holds sessions of the kit's, or is refused in one line, in bounded memory."""

from __future__ import annotations

import bz2
import copy
import gzip
import json
import lzma
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from kit.core.errors import KitError
from kit.extra.exchange.import_command import import_
from kit.model.session import Session
from kit.store import Store, open_store
from kit.store.exchange import dump_lines, load, load_lines
from tests.command_line import Kit
from tests.nights import ladder_session, night
from tests.stores import dump


def export(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dump([session]))
    return found


DOCUMENTS = [export(night(1, 0.1, rounds=2)), export(ladder_session())]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


PATHS = [list(leaves(document)) for document in DOCUMENTS]
ODD: st.SearchStrategy[Any] = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([None, True, "", "a b", "\0", "../../x", "x" * 5000, "\ud800"]),
    st.sampled_from([[], {}, [[]], {"a": 1}, -1, 2**31, 2**63, 10**400]),
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """An export in which up to three values are left out, are others, or are some too many."""
    which = draw(st.integers(0, len(DOCUMENTS) - 1))
    document = copy.deepcopy(DOCUMENTS[which])
    for number in draw(st.lists(st.integers(0, len(PATHS[which]) - 1), min_size=1, max_size=3)):
        path = PATHS[which][number]
        holder: Any = document
        try:
            for key in path[:-1]:
                holder = holder[key]
            act = draw(st.sampled_from(["drop", "replace", "insert"]))
            if act == "drop":
                del holder[path[-1]]
            elif act == "replace":
                holder[path[-1]] = draw(ODD)
            elif isinstance(holder, list):
                holder.insert(path[-1], draw(ODD))
            else:
                holder[draw(st.sampled_from(["nosuch", "", "imported"]))] = draw(ODD)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took away what this one is about
    return json.dumps(document)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return open_store("", tmp_path_factory.mktemp("fuzz") / "kit.db")


@settings(max_examples=max(5, settings().max_examples // 4))  # 40 ms each
@given(written=mutated())
def test_what_is_imported_is_read_again_or_refused(written: str, shared: Store) -> None:
    try:
        found = load(written, "x")
    except KitError as error:
        assert "\n" not in error.message and error.message.startswith("x: ")
        return
    for session in found:
        shared.add(session)
        try:
            assert shared.get(session.id) == session and session.imported
            shared.history(session.title, "layer:overlay2")
        finally:
            shared.remove([session.id])
    assert shared.list() == ()


SESSION = dump([night(1, 0.1)]).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (SESSION.replace(b"86400.0", b"Infinity", 1), "JSON is malformed"),
        (SESSION.replace(b'"created": 1000086400.0', b'"created": 1e400', 1), "out of range - at `$.created`"),
        (SESSION.replace(b'"created": 1000086400.0', b'"created": 1e300', 1), "at `$.created`"),
        (SESSION.replace(b'"real": 1.0', b'"real": "1"', 1), "got `str` - at `$.samples[0].phases[1].real`"),
        (SESSION.replace(b'"real": 1.0', b'"real": -1.0', 1), "at `$.samples[0].phases[1].real`"),
        (SESSION.replace(b'"real": 1.0', b'"reel": 1.0', 1), "$.samples[0].phases[1].reel is unknown"),
        (SESSION.replace(b'"arms": ["bare"', b'"arms": ["bare", "bare"'), "an arm is listed twice"),
        (SESSION.replace(b'"seed":', b'"x": "\xff", "seed":'), "not a"),
        (SESSION.removesuffix(b"]}\n"), "cut off"),
        (b'{"kit-export": 1, "sessions": [' + b"[" * 10**6, "nested too deep"),
        (b'{"kit-export": 1, "sessions": ' + b'{"a":' * 10**6, "got `object` - at `$.sessions`"),
        (b'{"kit-export": 1, "x": ' + b'{"a":' * 10**6, "not an export"),
        (b'{"kit-export": 1, "sessions": [{"id": "\xff"}]}', "not a Session"),
        (gzip.compress(SESSION)[:-20], "damaged"),
        (gzip.compress(SESSION)[:40] + bytes(100), "damaged"),
        (b"\x1f\x8b" + bytes(50), "damaged"),
        (bz2.compress(SESSION)[:-20], "damaged"),
        (bz2.compress(SESSION)[:40] + bytes(100), "damaged"),
        (lzma.compress(SESSION)[:40] + bytes(100), "damaged"),
        (b"", "no timed run"),
    ],
)  # fmt: skip
def test_a_file_that_holds_something_else_is_refused_in_one_line(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "in.kit.json"
    file.write_bytes(content)
    with pytest.raises(KitError) as found:
        import_.main([str(file), "--store", f"sqlite:///{tmp_path}/kit.db"], standalone_mode=False)
    assert found.value.message.startswith(f"{file}: ") and says in found.value.message and found.value.hint
    assert "\n" not in found.value.message and len(found.value.message) < 300


def test_a_file_is_imported_whole_or_not_at_all(tmp_path: Path) -> None:
    store = open_store("", tmp_path / "kit.db")
    lines = dump([night(number, 0.1) for number in range(3)]).replace('"created": 1000172800.0', '"created": "?"')
    with pytest.raises(KitError, match="session 3"):
        store.add_new(load_lines(lines.encode().splitlines(keepends=True), "x"))
    assert store.list() == ()
    assert store.add_new([night(0, 0.1), night(1, 0.1)]) == frozenset()
    assert store.add_new([night(1, 0.2), night(2, 0.1)]) == {night(1, 0.1).id}
    assert store.get(night(1, 0.1).id) == night(1, 0.1)


def test_exports_in_one_line_as_older_kits_wrote_them_are_read() -> None:
    sessions = (night(1, 0.1), ladder_session())
    found = load(json.dumps(json.loads(dump(sessions))), "x")
    assert found == load(dump(sessions), "x") == tuple(replace(session, imported=True) for session in sessions)


def measured(words: list[str], content: Iterator[bytes]) -> tuple[subprocess.CompletedProcess[bytes], int]:
    """The command with that on its stdin, and the most memory of it and of other children so far, in MiB."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kit", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin and process.stderr and process.stdout
    try:
        for chunk in content:
            process.stdin.write(chunk)
        process.stdin.close()
    except BrokenPipeError:
        pass
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(status), out, err), usage.ru_maxrss >> 10


def bomb(head: bytes, unit: bytes, size: int) -> Iterator[bytes]:
    packer = zlib.compressobj(9, wbits=31)
    yield packer.compress(head)
    round_ = unit * (1 + (1 << 20) // len(unit))
    for _ in range(size // len(round_)):
        yield packer.compress(round_)
    yield packer.flush()


@pytest.mark.promise("what others wrote", "A few kilobytes of input take neither gigabytes nor minutes.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_file_that_grows_beyond_the_limit_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    head, url = b'{"kit-export": 1, "sessions": [\n', f"sqlite:///{tmp_path}/kit.db"
    _, plain = measured(["import", "-", "--store", url], iter([b"x"]))
    for start, unit in ((head, b" "), (head + b'{"id": "', b"x")):
        done, peak = measured(["import", "-", "--limit", "32M", "--store", url], bomb(start, unit, 200 << 20))
        assert done.returncode == 2 and b"holds more than 32 MiB" in done.stderr and b"--limit" in done.stderr
        assert peak < plain + 3 * 32, (start, unit)


@pytest.mark.promise("what others wrote", "A few kilobytes of input take neither gigabytes nor minutes.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_many_sessions_are_held_one_at_a_time(tmp_path: Path) -> None:
    many = (replace(ladder_session(), id=f"s-{number}", status="running") for number in range(200))
    content = [line.encode() for line in dump_lines(many)]
    assert sum(map(len, content)) > 8 << 20
    url = f"sqlite:///{tmp_path}/kit.db"
    _, plain = measured(["import", "-", "--store", url], iter([SESSION]))
    done, peak = measured(["import", "-", "--store", url], iter(content))
    assert done.returncode == 0 and done.stdout.count(b"samples") == 200
    assert peak < plain + 8


def test_sessions_names_the_one_that_is_damaged_and_goes_on(tmp_path: Path, kit: Kit) -> None:
    url = f"sqlite:///{tmp_path}/kit.db"
    store = open_store(url, tmp_path)
    for number in range(4):
        store.add(night(number, 0.1))
    store.close()
    with create_engine(url).begin() as connection:
        change = "UPDATE kit_sessions SET {} WHERE id = '2026-000{}'"
        connection.execute(text(change.format("created = 9e999", 1)))
        connection.execute(text(change.format("facts = '{]'", 2)))
        connection.execute(text("UPDATE kit_samples SET round = 'x' WHERE session = '2026-0003'"))
    done = kit("sessions", "--store", url)
    assert done.returncode == 0 and "2026-0000" in done.stdout and "2026-0001" not in done.stdout
    assert "2026-0001" in done.stderr and "created" in done.stderr and "2026-0002" in done.stderr
    for name in ("2026-0001", "2026-0002", "2026-0003"):
        done = kit("show", name, "--store", url)
        assert done.returncode == 2 and f"session {name}" in done.stderr and "Traceback" not in done.stderr
