"""Input that is wrong in ways that once ended in a traceback, took minutes, or was taken as it stood."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.analysis.session.threshold import parse_threshold
from kit.arms.filesystem import BackingOptions, bundled, find_profile, read_profiles
from kit.arms.filesystem.profile import parse_profiles
from kit.core.errors import KitError, UnavailableError, UsageError
from kit.core.quantity import duration, size, word_pairs
from kit.core.toml import parse_toml
from kit.extra.exchange.runs import read_runs
from kit.extra.history.nightly.file import parse_nightly
from kit.model.arm import parse_arm, parse_arms
from kit.model.scenario import points
from kit.model.scenariofile import parse_scenario
from kit.model.session import Request
from kit.parsers import parse_report
from kit.session.execute.materials import take_fetched
from kit.session.plan.planning import find_scenario, plan_of
from tests import strategies as odd
from tests.command_line import Kit


def scenario(**changes: Any) -> str:
    return odd.toml({**odd.SCENARIO, **changes})


def test_a_scenario_that_is_right_is_read() -> None:
    assert parse_scenario(scenario(), "demo.toml", "tiny").bind({}, 2).phases[1].run == ("one", "two")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"variants": {"tiny": 3}}, "variants.tiny: is not a table"),
        ({"variants": {"tiny": {"summary": 3}}}, "variants.tiny.summary: is int, not a string"),
        ({"inputs": {"x": {"fetch": 3}}}, "inputs.x.fetch: is not a list of commands"),
        ({"inputs": {"x": {"fetch": ["git"]}}}, "inputs.x.fetch: is not a list of strings"),
        ({"inputs": {"x": {"fetch": [[]]}}}, "inputs.x.fetch: holds an empty command"),
        ({"inputs": {"x": {"source": "/", "strip": True}}}, "inputs.x.strip: is not a whole number"),
        ({"inputs": {"/some/dir": {"source": "/"}}}, "inputs: '/some/dir' is not a valid name"),
        ({"inputs": {"..": {"source": "/"}}}, r"inputs: '\.\.' is not a valid name"),
        ({"params": {"tree": {"default": "x"}}}, "params.tree: is a reserved name"),
        ({"params": {f"p{i}": {"default": ""} for i in range(101)}}, "params: has 101 entries"),
        ({"user": "builder"}, "user: is 'builder'"),
        ({"engine": "yes"}, "engine: is not a list of strings"),
        ({"env": {"A=B": "x"}}, "env: 'A=B' is not a valid name"),
        ({"summary": "a\0b"}, "a string in it holds a NUL"),
        ({"phases": [{"name": "n" * 61, "run": ["x"]}]}, "is not usable"),
    ],
)
def test_a_scenario_that_is_wrong_says_where(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=rf"demo\.toml.*: .*{says}"):
        parse_scenario(scenario(**changes), "demo.toml")


@pytest.mark.parametrize(
    ("value", "says"),
    [("it's", "parameter targets it's: no closing quotation"), ("", "the command of b is empty")],
)
def test_words_that_make_no_command(value: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_scenario(scenario(), "demo.toml").bind({"targets": value}, 2)


def test_parameters_that_hold_each_other_do_not_grow_without_end() -> None:
    params = {"p0": {"default": "x" * 50}}
    params |= {f"p{i}": {"default": f"{{p{i - 1}}}{{p{i - 1}}}"} for i in range(1, 60)}
    with pytest.raises(UsageError, match="has more than"):
        parse_scenario(scenario(params={**odd.SCENARIO["params"], **params}), "demo.toml").bind({}, 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "9" * 16_000, "thousands of digits"),
        ("a = 0x" + "f" * 16_000, "out of range"),
        ("a = " + "[" * 10_000, "nested too deep"),
        ("a." * 10_000 + "a = 1", "nested too deep"),
        ("a = inf", "not finite"),
        ('a = "\\u0000"', "holds a NUL"),
        ('a = "x', "not valid TOML"),
        ("#" * 300_000, "has 300000 characters"),
    ],
)
def test_toml_that_would_take_too_much(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"x.toml: .*{says}"):
        parse_toml(text, "x.toml")


def test_files_that_are_not_utf_8(tmp_path: Path, kit: Kit) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"# fine\n# caf\xe9\n")
    for read in (read_profiles, lambda path: find_scenario(str(path))):
        with pytest.raises(UsageError, match=r"x.toml:2: not UTF-8"):
            read(path)
    for words in (("nightly", path, "--check"), ("compare", path, "--dry-run")):
        done = kit(*words)
        assert (done.returncode, "x.toml:2: not UTF-8" in done.stderr) == (2, True), done.stderr


def night(**changes: Any) -> str:
    return odd.toml({**odd.NIGHT, **changes})


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (3, "task 1: not a table"),
        ({"scenario": "smoke", "params": {"x": ["1", "2"]}}, "task 1: params.x is neither text nor a number"),
        ({"scenario": "smoke", "engine": "dokcer", "arms": ["bare"]}, "task 1: unknown engine = 'dokcer'"),
    ],
)
def test_a_nights_task_that_is_none(task: object, says: str) -> None:
    with pytest.raises(UsageError, match=f"night.toml: {says}"):
        parse_nightly(night(tasks=[task]), "night.toml", "night")


def test_a_profile_that_names_itself() -> None:
    with pytest.raises(UsageError, match=r"mine\.write_back names itself"):
        parse_profiles('[mine]\ntype = "tmpfs"\nwrite_back = "mine"', "x.toml")
    profiles = {**bundled(), "ext4": replace(bundled()["ext4"], type="tmpfs", write_back="tmpfs-sync")}
    with pytest.raises(UsageError, match="tmpfs-sync is written back itself"):
        find_profile("ext4", BackingOptions(profiles=profiles))
    with pytest.raises(UsageError, match=r"'\.\./x' is not a name"):
        parse_profiles('["../x"]\ntype = "ext4"', "x.toml")
    with pytest.raises(UsageError, match=r"mine\.every is not usable"):
        parse_profiles('[mine]\ntype = "tmpfs"\nevery = true', "x.toml")


def test_quantities_without_end() -> None:
    for text in ("9" * 400 + "s", "9" * 16_000 + "s", "²s"):
        with pytest.raises(UsageError, match="not a time"):
            duration(text, "--budget")
    for text in ("9" * 16_000, "9" * 15 + "T"):
        with pytest.raises(UsageError, match="not a size"):
            size(text)
    with pytest.raises(UsageError, match="not ARM"):
        parse_threshold(f"bare < {'9' * 400} %")


def test_an_open_quote_in_words_for_mkfs() -> None:
    with pytest.raises(UsageError, match="--mkfs ext4: ': no closing quotation"):
        word_pairs(("ext4='",), "--mkfs")


def test_sweeps_and_lists_of_arms_have_an_end() -> None:
    values = ",".join(map(str, range(1000)))
    with pytest.raises(UsageError, match="more than 1000 points"):
        points((("a", values), ("b", values)))
    with pytest.raises(UsageError, match="more than 100 arms"):
        parse_arms(",".join(["bare"] * 100_000))


def test_limits_that_are_none() -> None:
    for text in ("layer:overlay2+cpus=0", "layer:overlay2+memory=0g", f"layer:overlay2+cpus={'9' * 400}"):
        with pytest.raises(UsageError, match="is not valid"):
            parse_arm(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fio", '{\n"jobs": 3}'),
        ("fio", '{\n"jobs": [3]}'),
        ("fio", '{\n"jobs": [{"jobname": "j"}]}'),
        ("fio", '{\n"jobs": [{"read": [], "write": {}, "trim": {}}]}'),
        ("fio", "{\n" + '"a":{' * 100_000),
        ("fio", "{\n" + '"a": ' + "9" * 16_000 + "}"),
        ("bonnie", "1.98," * 9 + "1e999"),
        ("bonnie", "1.98," * 9 + "nan"),
        ("lines", f"kit: {'n' * 101} = 1"),
        ("lines", "kit: a\0b = 1"),
        ("lines", "kit: a = 1 s\x1b[2J"),
        ("lines", "kit: a = 1\n" * 1001),
    ],
)
def test_reports_that_can_not_be_read(name: str, text: str) -> None:
    with pytest.raises(KitError, match=f"the figures that it reports can't be read as {name}"):
        parse_report(name, text)


def test_no_number_of_time_is_read_by_halves_or_beside_another_runs() -> None:
    long = "User time (seconds): 1234567890123.5\nSystem time (seconds): 1\nElapsed (wall clock) time (h:mm:ss): 0:02\n"
    two = long.replace("1234567890123", "1") + "User time (seconds): 2\n"
    for text in (long, two, "1234567890123.45user 0.1system 0:01elapsed"):
        with pytest.raises(UsageError):
            read_runs(text, "x.txt")


def test_words_that_are_not_utf_8() -> None:
    words: list[str | bytes] = [sys.executable, "-m", "kit", "compare", "--dry-run", "--", b"caf\xe9"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    says = "kit: 'caf\\udce9' is not UTF-8\n  fix: give that word in UTF-8, or in a file\n"
    assert (done.returncode, done.stderr) == (2, says)


@pytest.mark.parametrize("name", ["a,b", "c:d", "e\\f", 'g"h'])
def test_a_directory_that_no_engine_accepts(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither overlay nor an engine accepts a path with") as caught:
        plan_of(Request(scenario="smoke", arms=("bare@dir",), directory=str(tmp_path / name), seed=1))
    assert caught.value.hint == f"run mount --bind {shlex.quote(str(tmp_path / name))} /mnt, then use --dir /mnt"


def test_an_input_that_was_fetched_is_a_directory_and_no_symlink(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").symlink_to("/etc")
    assert take_fetched(tmp_path / "good", tmp_path / "one").is_dir()
    for name in ("bad", "none"):
        with pytest.raises(UnavailableError, match=f"its commands left no directory {name}"):
            take_fetched(tmp_path / name, tmp_path / f"two-{name}")


def test_lines_for_bitbake_begin_where_they_should(tmp_path: Path) -> None:
    (tmp_path / "poky").mkdir()
    (tmp_path / "poky/oe-init-build-env").write_text('mkdir -p "$1/conf"; cd "$1"\n')
    script = Path(__file__).parents[2] / "scenarios/yocto/yocto.sh"
    lines = 'MACHINE = "qemuarm64"; HOSTTOOLS += "x y" ;\tA = "b"; SRC_URI = "git://c;branch=d"'
    subprocess.run(["bash", script, "prepare", "/in", "2", lines, "off"], cwd=tmp_path, check=True)
    written = (tmp_path / "build/conf/local.conf").read_text()
    assert 'MACHINE = "qemuarm64"\nHOSTTOOLS += "x y" \nA = "b"\nSRC_URI = "git://c;branch=d"\n' in written
    assert not [line for line in written.splitlines() if line.startswith((" ", "\t"))]
