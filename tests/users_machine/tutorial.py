"""The tutorial and the how-to pages on a user's machine: root installs the kit by hand, the user has it from pipx."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kit.core.paths import APP
from tests.pages import NEEDS_ROOT, ROOTS, TUTORIAL, USERS_PAGES, blocks, commands
from tests.users_machine.guest import MEDIA, WHEELS, Guest
from tests.users_machine.media import FOR_PAGES

_CHECKOUT = f"~/{APP}"
#: What would take longer than a test may, and what runs instead.
_SHORTER = {
    "kit compare kernel:short": "kit compare kernel:short --dry-run",
    "--budget 30m": "--budget 1m",
    "-- make -j8": "--rounds 1 -- make -j8",
}
#: What the output of each block of the tutorial has.
_PRINTED = (
    r"Setting up gcc ",
    r"  works +docker/overlay2 ",
    r"layer:overlay2 .*\(no interval\)",
    r"layer:overlay2",
    r"vs layer:overlay2",
    r"Building in the writable layer of overlay2",
    r"layer:btrfs(.*\n)+.*report.html",
)
#: Commands that need a network.
_DOWNLOADS = re.compile(r"^(apt-get|mmdebstrap) ")
#: Where each user's kit is.
_PROGRAMS = {"root": f"{_CHECKOUT}/.venv/bin", "debian": f"~/.local/share/pipx/venvs/{APP}/bin"}
_PAGES = f"""
mkdir -p ~/.cache; [ -e ~/.cache/{APP} ] || cp -r {MEDIA}/cache ~/.cache/{APP}
cp -r {MEDIA}/pages/. ~
chmod 600 ~/kit.db
"""
#: The session that the pages call the last one.
_LAST = "compare --image rootfs.tar --arms host@dir --rounds 1 -q -- true"


def follow_tutorial(guest: Guest) -> None:
    """Run each block of the tutorial as root."""
    guest.must("root", f"cp -r {MEDIA}/kit {_CHECKOUT}; cp -r {MEDIA}/pages/project ~")
    for block, expected in zip(blocks(TUTORIAL, "sh"), _PRINTED, strict=True):
        for words, shorter in _SHORTER.items():
            block = block.replace(words, shorter)
        if guest.noexec:  # as the page of troubles says
            block = block.replace("pip install", "TMPDIR=$HOME pip install")
        script = f"export HOME=~; cd {_CHECKOUT}; PATH=$PWD/.venv/bin:$PATH; {WHEELS}\n{block}"
        printed = guest.install(script) if "apt-get install" in block else guest.must("root", script, 3600)
        assert re.search(expected, printed), f"{block}: no {expected}"


def run_pages(guest: Guest, user: str) -> list[str]:
    """Run the commands of the pages, shortened as in tests/machine/test_docs.py. Return the output of each that fails.
    The ordinary user's may say that they need root."""
    path = f"PATH=~/shims:{_PROGRAMS[user]}:$PATH"
    environment = f"export HOME=~; cd; export {path} KIT_STORE=sqlite:///$HOME/kit.db XDG_CONFIG_HOME=$HOME"
    guest.install(f"apt-get install {' '.join(FOR_PAGES)}")
    guest.must(user, f"{_PAGES}\n{environment}; python3 -m kit {_LAST}")
    failures = []
    for command in _commands(user):
        done = guest.run(f"{environment}\n{command}", user)
        needs_root = user != "root" and NEEDS_ROOT.search(done.text)
        if "Traceback" in done.text or (done.code and not needs_root):
            failures.append(f"{command}\n{done.text[-1000:]}")
    return failures


def _commands(user: str) -> Iterator[str]:
    """Yield each command of the pages once that needs no network, and that this user may run."""
    listed = dict.fromkeys(command for page in USERS_PAGES for command in commands(page))
    for command in listed:
        if not _DOWNLOADS.search(command) and (user == "root" or not ROOTS.search(command)):
            yield command
