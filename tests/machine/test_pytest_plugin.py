"""The pytest plugin, run by pytest itself in a process of its own."""

import json
import re
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit.core.paths import find_paths
from kit.host.lock import machine_lock
from tests.waiting import wait_until

pytestmark = pytest.mark.images("smoke")

SCENARIO = """\
name = "tiny"
summary = "two phases"
image = "smoke"

[[phases]]
name = "write"
run = ["dd", "if=/dev/zero", "of=file", "bs=1M", "count=4"]

[[phases]]
name = "remove"
run = ["rm", "file"]
"""


@pytest.fixture(autouse=True)
def _in_their_order(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests that are run inside, also where those outside are shuffled: ``pytester`` forgets what was set."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:randomly")


@pytest.mark.machine
@pytest.mark.unmeasured
def test_toml_files_are_left_alone_without_the_option(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", tiny=SCENARIO)
    assert pytester.runpytest_subprocess().ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.machine
@pytest.mark.unmeasured
def test_refuses_under_xdist(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", tiny=SCENARIO)
    done = pytester.runpytest_subprocess("--kit-arms=bare", "-n2")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*benchmarks must not share a machine*"])


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_bad_scenario_or_arm_is_a_collection_error(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", bad=SCENARIO.replace("rm", "rm {nosuch}"), pyproject="[tool.other]\nx = 1\n")
    done = pytester.runpytest_subprocess("--kit-arms=bare")
    done.stdout.fnmatch_lines(["*bad.toml:11: phases*unknown name {nosuch}*"])
    pytester.makefile(".toml", bad=SCENARIO)
    pytester.runpytest_subprocess("--kit-arms=nosuch").stdout.fnmatch_lines(["*unknown placement 'nosuch'*"])


@pytest.mark.machine
@pytest.mark.unmeasured
def test_scenario_files_are_benchmarks(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", tiny=SCENARIO)
    done = pytester.runpytest_subprocess(
        "--kit-arms=bare,layer:overlay2,layer:aufs",
        "--kit-rounds=2",
        "--kit-cache=cold",
        "--kit-no-rerun",
        "--kit-json=out.json",
        "-v",
    )
    done.assert_outcomes(passed=2, skipped=1)
    done.stdout.fnmatch_lines(
        ["*tiny*bare* PASSED*", "*tiny*layer:aufs* SKIPPED*", "*kit tiny*", "*Time is until the data are on disk*"]
    )
    document = json.loads(Path("out.json").read_text())
    rounds = [row["round"] for row in document["samples"] if row["rerun_of"] is None]
    assert rounds == sorted(rounds) and len(rounds) == 8  # interleaved: round by round, not arm by arm
    assert {item["arm"] for item in document["comparisons"]} == {"layer:overlay2"}


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_failing_arm_fails_its_test_with_the_last_lines(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", tiny=SCENARIO.replace('["rm", "file"]', '["rm", "nosuch"]'))
    done = pytester.runpytest_subprocess("--kit-arms=bare", "--kit-rounds=1", "--kit-cache=cold")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*remove failed with exit status 1*", "*cannot remove 'nosuch'*"])


@pytest.mark.machine
@pytest.mark.unmeasured
def test_the_fixture_compares_a_command(pytester: pytest.Pytester, tiny: Path) -> None:
    pytester.makepyfile(
        f"""
        def test_mine(kit_compare, tmp_path):
            (tmp_path / "x").write_text("x")
            result = kit_compare(["cat", "x"], source=tmp_path, image={str(tiny)!r}, rounds=2, cache="cold")
            found = result.of("layer:overlay2")
            assert found.baseline == "bare" and found.n == 2
            assert found.low < found.ratio < found.high

        def test_failing(kit_compare):
            kit_compare(["false"], arms="bare", image={str(tiny)!r}, rounds=1, cache="cold")
        """
    )
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*run failed with exit status 1*", "*kit cat x*"])


@pytest.mark.machine
@pytest.mark.unmeasured
def test_waits_for_the_session_that_holds_the_machine(pytester: pytest.Pytester, tiny: Path) -> None:
    pytester.makepyfile(
        f"""
        def test_mine(kit_compare):
            kit_compare(["busybox", "true"], arms="bare", image={str(tiny)!r}, rounds=1, cache="cold")
        """
    )
    printed = pytester.path / "printed"
    with machine_lock(find_paths().lock, "20260101-000000-long", wait=True), printed.open("w") as output:
        process = pytester.popen([sys.executable, "-m", "pytest"], stdout=output)
        wait_until(lambda: "waiting for" in printed.read_text(), 300, process)  # which other workers slow down
    assert process.wait(300) == pytest.ExitCode.OK, printed.read_text()
    (line,) = re.findall(r"^waiting for .*", printed.read_text(), re.M)
    assert re.fullmatch(r"waiting for session 20260101-000000-long \(process \d+, since [\d:]+\)", line)


#: On overlay, by so much that it is told beside other workers' tests too.
SLOWER = "busybox sleep 0.1; test $(busybox stat -f -c %t .) = 794c7630 && busybox sleep 0.9; true"
MARKED = """
import pytest

pytestmark = [pytest.mark.kit_arms("bare", "union:overlay")]
COMMAND = ["sh", "-c", {slower!r}]
SETTINGS = dict(image={image!r}, cache="cold")

@pytest.mark.kit_threshold("union:overlay < 50000 %")
def test_kept(kit_compare):
    kit_compare(COMMAND, **SETTINGS)

@pytest.mark.kit_threshold("union:overlay run < 10 %")
def test_broken(kit_compare):
    kit_compare(COMMAND, **SETTINGS)

def test_asserted(kit_compare):
    found = kit_compare(COMMAND, **SETTINGS).of("union:overlay")
    assert found.high < 1.1

def test_undecided(kit_compare):
    found = kit_compare(COMMAND, rounds=1, **SETTINGS)
    found.check("union:overlay < 10 %")
    with pytest.raises(AssertionError, match="undecided"):
        found.check("union:overlay < 10 %", undecided="fail")
    with pytest.raises(AssertionError, match="not measured"):
        found.check("layer:overlay2 < 10 %")
"""


@pytest.mark.machine
@pytest.mark.unmeasured
def test_markers_and_thresholds(pytester: pytest.Pytester, tiny: Path) -> None:
    pytester.makepyfile(MARKED.format(slower=SLOWER, image=str(tiny)))
    done = pytester.runpytest_subprocess("--junitxml=out.xml", "--strict-markers", "--kit-rounds=3", "--kit-no-rerun")
    done.assert_outcomes(passed=2, failed=2, warnings=1)
    done.stdout.fnmatch_lines(
        [
            "*union:overlay run < 10 % does not hold*",
            "*union:overlay / bare, real of run, 3 rounds: +* % [[]+*, +*], slower*",
            "*where * = <union:overlay / bare, real of run: * (*–*), 3 rounds>.high*",
            "*union:overlay < 10 % is undecided: one run has no interval*",
        ]
    )
    cases = ElementTree.parse("out.xml").findall(".//testcase")
    kept = {item.get("name"): item.get("value") or "" for item in cases[0].findall(".//property")}
    assert cases[0].get("name") == "test_kept" and "of bare" in kept["kit union:overlay"]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_too_few_rounds_for_a_limit_are_told_before_the_session(pytester: pytest.Pytester, tiny: Path) -> None:
    limit = '@pytest.mark.kit_threshold("union:overlay < 40000 %")\ndef test_kept'
    pytester.makepyfile(MARKED.format(slower=SLOWER, image=str(tiny)).replace("def test_kept", limit, 1))
    printed = pytester.runpytest_subprocess("-k", "kept", "--kit-rounds=2", "--kit-no-rerun").stdout.str()
    assert re.search(r"(?s)\n2 rounds seldom decide.*: use 5 rounds or more\n.*\nsession ", printed), printed


@pytest.mark.machine
@pytest.mark.unmeasured
def test_last_failed_keyword_and_first_failure(pytester: pytest.Pytester, tiny: Path) -> None:
    pytester.makepyfile(MARKED.format(slower=SLOWER, image=str(tiny)))
    rounds = ("--kit-rounds=3", "--kit-no-rerun")
    done = pytester.runpytest_subprocess("-k", "kept or broken", "-x", *rounds, "--durations=1")
    done.assert_outcomes(passed=1, failed=1, deselected=2)
    done.stdout.fnmatch_lines(["*slowest 1 durations*", "*s call*test_*"])
    done = pytester.runpytest_subprocess("--lf", *rounds)
    done.assert_outcomes(failed=1)


@pytest.mark.machine
@pytest.mark.unmeasured
def test_precision_budget_store_and_the_session_before(pytester: pytest.Pytester, tiny: Path) -> None:
    pytester.makepyfile(
        f"""
        def test_mine(kit_compare):
            kit_compare(["busybox", "sleep", "0.1"], arms="bare,union:overlay", image={str(tiny)!r}, cache="cold")
        """
    )
    options = ["--kit-store=sqlite:///mine.db", "--kit-compare=last", "--kit-json=out.json", "--kit-rounds=2"]
    done = pytester.runpytest_subprocess(*options, "--kit-precision=50%", "--kit-budget=1h")
    done.stdout.fnmatch_lines(["*the store sqlite:///mine.db has no earlier session of busybox sleep 0.1*"])
    session = json.loads(Path("out.json").read_text())["session"]
    assert (session["request"]["precision"], session["request"]["budget"]) == (0.5, 3600)
    assert "within ±50" in session["facts"]["rounds"]
    done = pytester.runpytest_subprocess(*options)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(
        ["*against an earlier session*", f"A: busybox sleep 0.1, session {session['id']}*", "*B / A*"]
    )
    done = pytester.runpytest_subprocess(*options[:1], "--kit-compare=nosuch", "--kit-rounds=1")
    done.stdout.fnmatch_lines(["*no session 'nosuch'*"])


@pytest.mark.machine
@pytest.mark.unmeasured
def test_bad_quantities_and_markers_are_errors_of_set_up_without_a_traceback(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        def test_precision(kit_compare):
            kit_compare(["true"])

        @pytest.mark.kit_threshold("layer:overlay2 quickly")
        def test_threshold(kit_compare):
            kit_compare(["true"])

        def test_nothing(kit_compare):
            kit_compare()
        """
    )
    done = pytester.runpytest_subprocess("--kit-precision=fine")
    done.assert_outcomes(errors=3)
    done.stdout.fnmatch_lines(["*--kit-precision fine: not a percentage*"])
    assert "Traceback" not in done.stdout.str()
    done = pytester.runpytest_subprocess("-k", "not precision")
    done.stdout.fnmatch_lines(["*threshold 'layer:overlay2 quickly'*", "*give a command, or a scenario*"])


@pytest.mark.machine
@pytest.mark.unmeasured
def test_beside_pytest_benchmark(pytester: pytest.Pytester, tiny: Path) -> None:
    pytester.makepyfile(
        f"""
        def test_theirs(benchmark):
            benchmark(sum, [1, 2])

        def test_ours(kit_compare):
            kit_compare(["busybox", "true"], arms="bare,union:overlay", image={str(tiny)!r}, rounds=1, cache="cold")
        """
    )
    done = pytester.runpytest_subprocess("--benchmark-json=theirs.json", "--kit-json=ours.json", "-p", "no:randomly")
    done.assert_outcomes(passed=2)
    assert [item["name"] for item in json.loads(Path("theirs.json").read_text())["benchmarks"]] == ["test_theirs"]
    assert json.loads(Path("ours.json").read_text())["session"]["title"] == "busybox true"


@pytest.mark.machine
@pytest.mark.unmeasured
def test_scenario_files_keep_to_thresholds_and_arms_have_their_own_durations(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", tiny=SCENARIO)
    options = ["--kit-arms=bare,union:overlay,layer:aufs", "--kit-rounds=2", "--kit-cache=cold", "--kit-no-rerun"]
    began = time.monotonic()
    done = pytester.runpytest_subprocess(
        *options, "--kit-threshold=union:overlay < -99.9999999 %", "--junitxml=out.xml", "--durations=0", "-vv"
    )
    done.assert_outcomes(passed=1, failed=1, skipped=1)
    done.stdout.fnmatch_lines(["*union:overlay < -100 % does not hold*", "*s call *union:overlay*"])
    cases = {item.get("name"): item for item in ElementTree.parse("out.xml").findall(".//testcase")}
    times = [float(cases[name].get("time", "0")) for name in ("bare", "union:overlay")]
    assert min(times) > 0 and sum(times) < time.monotonic() - began
    done = pytester.runpytest_subprocess(*options, "-k", "bare", "-v")
    done.assert_outcomes(passed=1, deselected=2)


WITH_VARIANT = """
name = "sized"
summary = "one phase"
image = "smoke"

[params.size]
default = "1"

[[phases]]
name = "write"
run = ["dd", "if=/dev/zero", "of=file", "bs=1M", "count={size}"]

[variants.small]
summary = "another size"

[variants.small.params.size]
default = "2"
"""


@pytest.mark.machine
@pytest.mark.unmeasured
def test_settings_reach_the_session(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", sized=WITH_VARIANT)
    beside = pytester.mkdir("beside") / "load.toml"
    beside.write_text(WITH_VARIANT.replace('"sized"', '"load"'))
    done = pytester.runpytest_subprocess(
        "sized.toml", "--kit-arms=bare", "--kit-fs=ext4,xfs", "--kit-variant=small", "--kit-param=size=3",
        "--kit-seed=7", "--kit-rounds=1", "--kit-cache=cold", "--kit-no-rerun", f"--kit-load={beside}",
        "--kit-json=out.json",
    )  # fmt: skip
    done.assert_outcomes(passed=2)
    session = json.loads(Path("out.json").read_text())["session"]
    assert session["title"] == "sized:small" and session["arms"] == ["bare", "bare@xfs"]
    assert (session["seed"], session["request"]["rounds"], session["facts"]["caches"]) == (7, 1, "cold")
    assert session["request"]["rerun"] is False
    assert session["facts"]["parameters"] == "size=3" and "load" in session["facts"]["background load"]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_settings_that_can_not_be_had_fail_with_one_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makefile(".toml", sized=WITH_VARIANT)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-rs -p no:randomly")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    done = pytester.runpytest_subprocess("--kit-engine=system", "--kit-arms=layer:overlay2", "--kit-rounds=1")
    done.stdout.fnmatch_lines(["*SKIPPED*no running Docker at unix:///nonexistent.sock*"])
    for words, says in (
        (("--kit-guest=uml", "--kit-engine=system", "--kit-arms=bare"), "*a guest *"),
        (("--kit-variant=nosuch", "--kit-arms=bare"), "*no variant 'nosuch'*"),
        (("--kit-store=nosuch://x", "--kit-arms=bare"), "*--store nosuch://x*"),
        (("--kit-budget=soon", "--kit-arms=bare"), "*--kit-budget soon: not a time*"),
        (("--kit-threshold=x", "--kit-arms=bare"), "*threshold 'x'*"),
    ):
        done = pytester.runpytest_subprocess(*words)
        done.stdout.fnmatch_lines([says])
        assert done.ret != 0 and "Traceback" not in done.stdout.str(), words
