"""A machine of another kind: a shell's words change this one in a mount namespace of the test's own, then a script of
Python runs there."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

#: Tries the arms that are its arguments, one line each: name, whether it works, reason, fix.
TRY = """
import os, sys
from kit.core.paths import find_paths
from kit.host.machine import read_host
from kit.model.arm import parse_arm
from kit.session.execute.session_loop import held_machine
from kit.session.trial import ran_on, trial_provision, try_arm
from kit.report.text.progress import Quiet

name = f"emulated-{os.getpid()}"
with held_machine(name, find_paths(), True, Quiet()) as lease, trial_provision(lease, read_host()) as provision:
    for text in sys.argv[1:]:
        done = try_arm(provision, parse_arm(text), "arm", text, ran_on)
        print(text, done.works, done.reason, done.fix, sep="\\t")
print("run", not os.path.exists("/run/kit"), sep="\\t")
"""
#: Defines ``hide PROGRAM…``: a file that is no program is where each was.
HIDE = """
hide() {
    for program; do
        for directory in $(echo "$PATH:/usr/local/sbin:/usr/sbin:/sbin" | tr : ' '); do
            [ ! -e "$directory/$program" ] || mount --bind /dev/null "$directory/$program"
        done
    done
}
"""


def emulated(change: str, *words: str | Path, before: Sequence[str] = ()) -> list[str]:
    """Return the command line that runs ``words`` after the shell has run ``change``, in which $1 is the first of
    ``before``."""
    private = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-euc"]
    script = f'{HIDE}{change}\nshift {len(before)}; exec "$@"'
    return [*private, script, "sh", *before, *map(str, words)]


def python_on(
    change: str, script: str, *words: str | Path, before: Sequence[str] = (), umask: int = 0o022, **variables: str
) -> dict[str, list[str]]:
    """Return the lines that a script prints there, each by its first column."""
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path)), **variables}
    done = subprocess.run(
        emulated(change, sys.executable, "-c", script, *words, before=before),
        env=environment, capture_output=True, text=True, check=False, umask=umask,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.split("\t")[0]: line.split("\t")[1:] for line in done.stdout.splitlines()}
