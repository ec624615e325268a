"""The table of environment variables lists what the kit reads, and nothing else."""

import re
from pathlib import Path

from kit.core.environment import VARIABLES
from kit.host.git import CI_VARIABLES

ROOT = Path(__file__).parents[2] / "kit"
#: What every program reads, what sudo sets, a request's path of a web server, and what the kit gives its own programs.
USUAL = {"PATH", "HOME", "SUDO_UID", "PATH_INFO", "KIT_PLAIN_ROOT", "KIT_STATIC"}
READ = re.compile(r"""environ(?:\.get\(|\[)\s*"(\w+)"|envvar="(\w+)"|"(KIT_[A-Z_]+)\"""")


def test_each_variable_that_the_kit_reads_is_listed() -> None:
    texts = [path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py") if path.name != "environment.py"]
    names = {name for text in texts for match in READ.findall(text) for name in match if name}
    assert len(names) > 10 and names - USUAL <= {*VARIABLES, *CI_VARIABLES}
    assert not [name for name in VARIABLES if name.startswith("KIT_") and name not in names | {"KIT_TEST_INPUTS"}]
