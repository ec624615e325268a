"""What the user's machine would download, on a disk: it has no network. The kit's checkout and its wheel, with all that
they depend on for the machine's Python; packages of Debian; images, the sources of the scenario smoke, and a small
image for a container of the user's; what the pages name."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from kit.arms.image import ImageCache
from kit.extra.guest.disk import make_disk
from kit.host.durable import publish
from kit.host.safe_fs import scratch, unpack
from kit.model.scenario import Input
from kit.session.inputs.sources import prepare_input
from tests import machine_state
from tests.pages import ROOT, TUTORIAL, commands, fill_sandbox
from tests.tiny import make_tiny
from tests.users_machine.root import fetch_packages

#: The filesystem's label.
LABEL = "users-media"
#: Where the sources of the scenario smoke are on it.
SOURCES = "binutils"
#: Packages of what the how-to pages do: compare commits, and draw letters in pictures.
FOR_PAGES = ("git", "fonts-dejavu-core")
#: The Python of each release.
PYTHON = {"bookworm": "3.11", "trixie": "3.13"}
_SMOKE = Input(
    "binutils",
    "deb:binutils-source#bookworm",
    into="inputs",
    strip=1,
    exclude=(
        "*",
        "!libiberty/*",
        "!include/*",
        "!config/*",
        "!config*",
        "!install-sh",
        "!ltmain.sh",
        "!move-if-change",
    ),
)


def make_media(release: str, cache: Path, directory: Path, tell: Callable[[str], None]) -> Path:
    """Return a disk for one release. ``cache``: the host's cache of the kit, in which images and sources are made."""
    content = directory / "content"
    content.mkdir(parents=True)
    _wheels(PYTHON[release], content / "wheels", cache / "users_machine")
    for name in ("kernel", "smoke"):
        image = ImageCache(cache).from_recipe(name, tell=tell).rootfs.parent
        shutil.copytree(image, content / "cache/images" / image.name)
    sources = prepare_input(_SMOKE, cache, tell)
    (content / "cache/inputs").mkdir()
    for path in sources.path.parent.glob(f"{sources.path.name}*"):  # and its facts
        shutil.copy(path, content / "cache/inputs")
    (content / SOURCES).mkdir()
    unpack(sources.path, content / SOURCES, what="unpacking sources")
    tiny = directory / "tiny"
    tiny.mkdir()
    shutil.copy(make_tiny(tiny), content / "tiny.tar")
    shutil.copy(machine_state.__file__, content / "machine_state.py")
    _checkout(content / "kit")
    pages = content / "pages"
    pages.mkdir()
    fill_sandbox(pages, content / "tiny.tar", "python3")
    (pages / "kit.db").chmod(0o644)  # the user copies it
    (install,) = (line for line in commands(TUTORIAL) if line.startswith("apt-get install "))
    packages = fetch_packages(release, cache, [*install.split()[2:], *FOR_PAGES], tell)
    shutil.copytree(packages, content / "apt")
    make_disk(content, directory / "media.img", LABEL, 64 << 20)
    shutil.rmtree(content)
    return directory / "media.img"


def _checkout(target: Path) -> None:
    """Copy the files that Git has, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name, follow_symlinks=False)


def _wheels(python: str, target: Path, cache: Path) -> None:
    """Write the kit's wheel and those of what it, its extras and its build need; pip's own, which pipx upgrades."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = data["project"]["optional-dependencies"]
    needs = [
        *data["project"]["dependencies"],
        *(need for name in extras if name != "all" for need in extras[name]),
        *data["build-system"]["requires"],
    ]
    kept = cache / f"wheels-{python}-{hashlib.sha256(repr(needs).encode()).hexdigest()[:12]}"
    if not kept.exists():
        words = ["--only-binary", ":all:", "--python-version", python, "pip", *needs]
        with scratch(cache) as new:
            subprocess.run([*pip, "download", "--dest", new / "wheels", *words], check=True)
            publish(new / "wheels", kept)
    shutil.copytree(kept, target)
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", target, ROOT], check=True, cwd="/")
