"""What a shell puts into the command line has no text of others that it would expand or run."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kit.cli.completion import _beginning
from kit.core.sanitize import visible
from kit.store import Store
from tests.command_line import in_fork
from tests.nights import night
from tests.stores import new_store

ACTING = ("bare$(touch ran)", "bare`touch ran`", "bare;touch ran", "bare\ntouch ran", "bare touch", "--docker=ran",
          "~nobody", "bare|ran", "bare&ran", "bare>ran", "bare'ran", 'bare"ran', "bare\\ran", "bare*", "bare!ran",
          "bare\x1b[31m", "=ran", "{a,b}", "bare#ran", "bare\u202eran")  # fmt: skip
PLAIN = ("bare", "bind:overlay2", "layer:docker@26.1/overlay2@xfs", "layer:overlay2+seccomp=unconfined", "20261101-1",
         "./rootfs.tar.xz", "größe")  # fmt: skip


@pytest.mark.promise("what others wrote", "No text of a store, an import or an export acts in a shell by completion.")
def test_only_plain_words_are_offered() -> None:
    assert _beginning((*ACTING, *PLAIN), "") == [*PLAIN]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A KIT_HOME whose store has a session with hostile arms, as an import or another writer leaves it."""
    first = night(1, 0.1)
    arms = (*first.arms, *ACTING)
    (tmp_path / "home/data").mkdir(parents=True, mode=0o700)
    (tmp_path / "home/data").chmod(0o700)
    store: Store = new_store(tmp_path / "home/data/kit.db")
    store.add(replace(first, arms=arms))
    store.close()
    return tmp_path / "home"


@pytest.mark.promise("what others wrote", "No text of a store, an import or an export acts in a shell by completion.")
def test_arms_of_a_store_do_not_act(home: Path) -> None:
    done = in_fork(KIT_HOME=str(home), _KIT_COMPLETE="bash_complete", COMP_WORDS="kit sessions --arm ", COMP_CWORD="3")
    offered = [line.partition(",")[2] for line in done.stdout.splitlines()]
    assert offered and not [word for word in offered if word in ACTING or "ran" in word], visible(done.stdout)
    assert "bare" in offered, done.stderr


@pytest.mark.promise("what others wrote", "No text of a store, an import or an export acts in a shell by completion.")
@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_runs_nothing_of_a_store(home: Path, tmp_path: Path) -> None:
    """Completes as bash does, then runs the command line that it has made."""
    program = tmp_path / "bin/kit"
    program.parent.mkdir()
    done = in_fork(KIT_HOME=str(home), _KIT_COMPLETE="bash_complete", COMP_WORDS="kit sessions --arm ", COMP_CWORD="3")
    (tmp_path / "said").write_text(done.stdout)
    program.write_text(f'#!/bin/sh\n[ -z "$_KIT_COMPLETE" ] || exec cat {tmp_path}/said\n')
    program.chmod(0o755)
    script = f"""
        PATH={program.parent}:$PATH
        {in_fork("completion", "bash").stdout}
        COMP_LINE='kit sessions --arm ' COMP_POINT=19 COMP_WORDS=(kit sessions --arm '') COMP_CWORD=3
        _kit_completion kit '' --arm
        for word in "${{COMPREPLY[@]}}"; do eval "kit sessions --arm $word"; done
        echo "${{#COMPREPLY[@]}} words"
    """
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "words" in ran.stdout and not ran.stdout.startswith("0 "), ran
    assert not (tmp_path / "ran").exists()
