"""The pytest plugin, run by pytest itself in a process of its own."""

import json
from pathlib import Path

import pytest

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


def test_toml_files_are_left_alone_without_the_option(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", tiny=SCENARIO)
    assert pytester.runpytest_subprocess().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_refuses_under_xdist(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", tiny=SCENARIO)
    done = pytester.runpytest_subprocess("--kit-arms=bare", "-n2")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*benchmarks must not share a machine*"])


def test_a_bad_scenario_or_arm_is_a_collection_error(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", bad=SCENARIO.replace("rm", "rm {nosuch}"), pyproject="[tool.other]\nx = 1\n")
    done = pytester.runpytest_subprocess("--kit-arms=bare")
    done.stdout.fnmatch_lines(["*bad.toml:11: phases*unknown name {nosuch}*"])
    pytester.makefile(".toml", bad=SCENARIO)
    pytester.runpytest_subprocess("--kit-arms=nosuch").stdout.fnmatch_lines(["*unknown placement 'nosuch'*"])


@pytest.mark.machine
def test_scenario_files_are_benchmarks(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", tiny=SCENARIO)
    done = pytester.runpytest_subprocess(
        "--kit-arms=bare,layer:overlay2,layer:aufs", "--kit-rounds=2", "--kit-cache=cold", "--kit-json=out.json", "-v"
    )
    done.assert_outcomes(passed=2, skipped=1)
    done.stdout.fnmatch_lines(
        ["*tiny*bare* PASSED*", "*tiny*layer:aufs* SKIPPED*", "*kit tiny*", "*total of 2 phases*"]
    )
    document = json.loads(Path("out.json").read_text())
    blocks = [row["block"] for row in document["samples"]]
    assert blocks == sorted(blocks) and len(blocks) == 8  # interleaved: block by block, not arm by arm
    assert {item["arm"] for item in document["comparisons"]} == {"layer:overlay2"}


@pytest.mark.machine
def test_a_failing_arm_fails_its_test_with_the_last_lines(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", tiny=SCENARIO.replace('["rm", "file"]', '["rm", "nosuch"]'))
    done = pytester.runpytest_subprocess("--kit-arms=bare", "--kit-rounds=1", "--kit-cache=cold")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*remove failed with exit status 1*", "*cannot remove 'nosuch'*"])


@pytest.mark.machine
def test_the_fixture_compares_a_command(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_mine(kit_compare, tmp_path):
            (tmp_path / "x").write_text("x")
            result = kit_compare(["cat", "x"], source=tmp_path, image="smoke", rounds=2, cache="cold")
            found = result.of("layer:overlay2")
            assert found.baseline == "bare" and found.n == 2
            assert found.low < found.ratio < found.high

        def test_failing(kit_compare):
            kit_compare(["false"], arms="bare", image="smoke", rounds=1, cache="cold")
        """
    )
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*run failed with exit status 1*", "*kit cat x*"])
