"""An option of a session is declared in one place: one that does not exist reaches every front end from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kit
from kit.core.codec import UnreadableError, decode, encode
from kit.core.errors import UsageError
from kit.model.options import OPTIONS, RoundOptions, SessionOptions, in_words_of_pytest
from kit.model.session import Request

#: The one place: a line of RoundOptions.
_GRACE = """    grace: float | None = option(
        "Wait this long.", "DURATION", default="5m", read=duration, night="7m", group=MEASUREMENT, in_pytest=True,
    )
"""
_TRIED = """
from pathlib import Path
import pytest
from kit.cli.compare import _request, compare
from kit.cli.pages.parts import settings
from kit.core.codec import decode, encode
from kit.model.arm import parse_arms
from kit.model.command_line import until_decided_command
from kit.model.plan import Plan, make_plan
from kit.model.session import Request
from kit.model.settings import option_values, merged, read_settings
from kit.extra.history.nightly.file import known_keys, parse_nightly

def read(*words):
    context = compare.make_context("compare", [*words, "--arms", "bare", "--", "make"])
    return _request(context.meta["kit.command"], context.params)

assert (Request().grace, read().grace) == (300, 300)
asked = read("--grace", "9m")
assert asked.grace == 540 and "--grace 540s" in until_decided_command(asked, "5m")
plan = make_plan(parse_arms("bare"), asked)
assert plan.grace == 540 and decode(Plan, encode(plan)) == plan and decode(Request, encode(asked)) == asked
(entry,) = read_settings('grace = "8m"', "kit.toml")
assert option_values(merged([entry])) == {"grace": "8m"} and "`--kit-grace`" in settings()
task = '[[tasks]]\\nscenario = "smoke"\\n'
graces = [parse_nightly(task + more, "n", "n").tasks[0].request.grace for more in ("", 'grace = "4m"')]
assert graces == [420, 240] and "grace" in known_keys()["[defaults], [[tasks]]"]
Path("pytest.ini").write_text("[pytest]\\nkit_grace = 2m\\n")
Path("test_it.py").write_text(
    "from kit.extra.pytest_plugin.runner import RUNNER\\n"
    "def test_it(pytestconfig):\\n    print('settings', pytestconfig.stash[RUNNER].settings()['grace'])\\n"
)
for words in ([], ["--kit-grace", "3m"]):
    pytest.main(["-q", "-s", "-p", "kit.extra.pytest_plugin", "-p", "no:cacheprovider", *words, "test_it.py"])
compare.main(["--help-all"])
"""


def test_an_option_that_one_line_declares_is_everywhere(tmp_path: Path) -> None:
    package = Path(kit.__file__).parent
    ours = tmp_path / "tree" / "kit"
    shutil.copytree(package, ours, copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__"))
    text = (package / "model" / "options.py").read_text()
    place = "    cache: str = option("
    assert text.count(place) == 1
    (ours / "model" / "options.py").unlink()
    (ours / "model" / "options.py").write_text(text.replace(place, _GRACE + place))
    done = subprocess.run(
        [sys.executable, "-c", _TRIED],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ours.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if "settings" in line] == ["settings 120.0", "settings 180.0"]
    assert "--grace DURATION" in done.stdout and "Wait this long." in done.stdout


def test_every_option_says_where_the_help_shows_it() -> None:
    assert [name for name, item in OPTIONS.items() if not item.group or not item.help] == []


def test_a_default_is_what_its_text_says() -> None:
    options = SessionOptions()
    assert (options.margin, options.size, options.rounds, options.rerun) == (0.03, 20 << 30, 0, True)
    assert {name: item.value for name, item in OPTIONS.items()} == {name: getattr(options, name) for name in OPTIONS}


@pytest.mark.parametrize(("name", "odd"), [("rounds", -1), ("rounds", 2**31), ("margin", -0.5), ("seed", 2**70),
                                           ("budget", 1e30), ("size", -1)])  # fmt: skip
def test_a_number_out_of_bounds_is_refused_from_a_store_too(name: str, odd: float) -> None:
    with pytest.raises(UsageError, match=f"--{name} .*out of bounds"):
        Request(**{name: odd})  # type: ignore[arg-type]
    with pytest.raises(UnreadableError):
        decode(Request, {**encode(Request()), name: odd})


def test_a_plan_has_every_option_of_rounds() -> None:
    options = SessionOptions(precision=0.02, cache="cold", margin=0.1)
    assert RoundOptions(**options.of_rounds()).of_rounds() == options.of_rounds()


def test_an_error_names_options_as_pytest_has_them() -> None:
    error = UsageError("--load and --fresh exclude each other", "leave out --no-rerun, or use --fleet and --device")
    assert in_words_of_pytest(error) == (
        "--kit-load and fresh exclude each other\n  fix: leave out --kit-no-rerun, or use --fleet and --device"
    )
    command = UsageError("--load-param needs --load", "use for example kit compare git --load kernel:loop")
    assert in_words_of_pytest(command).endswith("kit compare git --load kernel:loop")
