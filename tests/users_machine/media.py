"""What the user's machine would download, on a disk: it has no network. The kit's wheel with all that it depends on for
the machine's Python, the image and sources of the scenario smoke, and a small image for a container of the user's."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from kit.extra.guest.disk import make_disk
from kit.host.durable import publish
from kit.host.safe_fs import scratch, unpack
from kit.image import ImageCache
from kit.model.scenario import Input
from kit.session.inputs.sources import prepare_input
from tests import machine_state
from tests.tiny import make_tiny

ROOT = Path(__file__).parents[2]
#: The filesystem's label.
LABEL = "users-media"
#: Where the sources of the scenario smoke are on it.
SOURCES = "binutils"
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
    image = ImageCache(cache).from_recipe("smoke", tell=tell)
    sources = prepare_input(_SMOKE, cache, tell)
    shutil.copytree(image.rootfs.parent, content / "cache/images" / image.rootfs.parent.name)
    (content / SOURCES).mkdir()
    unpack(sources.path, content / SOURCES, what="unpacking sources")
    tiny = directory / "tiny"
    tiny.mkdir()
    shutil.copy(make_tiny(tiny), content / "tiny.tar")
    shutil.copy(machine_state.__file__, content / "machine_state.py")
    shutil.copytree(ROOT / "examples", content / "examples")
    make_disk(content, directory / "media.img", LABEL, 64 << 20)
    shutil.rmtree(content)
    return directory / "media.img"


def _wheels(python: str, target: Path, cache: Path) -> None:
    """Write the kit's wheel and those of its dependencies; pip's own too, which pipx upgrades."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    kept = cache / f"wheels-{python}-{hashlib.sha256(repr(needs).encode()).hexdigest()[:12]}"
    if not kept.exists():
        words = ["--only-binary", ":all:", "--python-version", python, "pip", *needs]
        with scratch(cache) as new:
            subprocess.run([*pip, "download", "--dest", new / "wheels", *words], check=True)
            publish(new / "wheels", kept)
    shutil.copytree(kept, target)
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", target, ROOT], check=True, cwd="/")
