"""The commands of the pages, and a directory with all that they name: for tests that run them.

Commands that take minutes are run as far as they go without measuring: ``kit compare`` with --dry-run, unless it is
quick, ``pytest`` with --collect-only, ``make`` with -n. A program of the same name, first on PATH, does that."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kit.model.session import Session
from kit.store import open_store
from tests.nights import night
from tests.repository import make_repository

ROOT = Path(__file__).parents[1]

TUTORIAL = ROOT / "docs/tutorial.md"
#: What an ordinary user reads first.
USERS_PAGES = [TUTORIAL, *sorted((ROOT / "docs/how-to").glob("*.md"))]
#: Root's commands; systemd-analyze makes /run/systemd where no systemd runs.
ROOTS = re.compile(r"\bsudo\b|^apt-get |^systemd-analyze verify ")
#: How a command says that it needs root, and what to do.
NEEDS_ROOT = re.compile(r"fix: .*(sudo|root)|root privileges|only root")

#: As much of a kernel as a dry run looks at.
BZ_IMAGE = bytes(514) + b"HdrS"

#: What stands in for each command: the same command, shortened where it would measure for minutes.
SHIMS = {
    "kit": """
        PATH=${PATH#*:}  # what the kit itself calls is the real thing
        case "$1 $*" in
        *app.toml*|*--prepare*|*rootfs.tar*) few=1 quick="--rounds 1 --cache cold --size 3G --no-rerun -q" ;;
        "compare "*"--engine system"*) PYTHON -m kit "$@" --dry-run 2>&1 | grep -E "no running Docker|rounds"; exit ;;
        "compare "*--resume*) quick=-q budget=10s ;;
        "compare "*--dry-run*) quick= ;;
        "compare "*) quick=--dry-run ;;
        "doctor "*) quick=--help ;;
        "fleet fleet scheduler "*|"fleet fleet worker "*|"fleet fleet status "*) exec PYTHON -m kit "$@" --help ;;
        "kernel kernel build "*) exec PYTHON -m kit "$@" --help ;;
        "serve "*) timeout -s INT 2 PYTHON -m kit "$@"; exit 0 ;;
        *) exec PYTHON -m kit "$@" ;;
        esac
        first=$1
        shift
        for word; do
            [ "$before" = --rounds ] && word=${few:-$word}
            [ "$before" = --budget ] && word=${budget:-$word}
            set -- "${@:2}" "$word"
            before=$word
        done
        exec PYTHON -m kit "$first" $quick "$@"
        """,
    "pytest": 'exec PYTHON -m pytest -p no:cacheprovider --collect-only -q -c /dev/null --rootdir . "$@"',
    "sudo": 'exec "$@"',
    "docker": "exit",  # test_container.py runs it
    "apt-get": 'exec APT_GET --simulate "$@"',
    "mmdebstrap": 'PATH=${PATH#*:} exec MMDEBSTRAP --simulate "$@"',  # it calls the real apt-get
    "make": 'exec MAKE -n "$@"',
    "pip": 'for word; do case $word in .*) PYTHON extras.py "$word" || exit 1 ;; esac; done',
}
EXTRAS = """
import re, sys, tomllib
known = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
for name in re.findall(r"[a-z]+", sys.argv[1]):
    assert name in known, f"no extra {name}"
"""


def blocks(path: Path, language: str) -> list[str]:
    """Return the code blocks of a page; in a list they are indented."""
    texts = re.findall(rf"^( *)```{language}\n(.*?)^ *```", path.read_text(), re.M | re.S)
    return [textwrap.dedent(text) for _, text in texts]


def commands(path: Path) -> Iterator[str]:
    """The commands of a page, each in one line."""
    for block in blocks(path, "sh"):
        for line in block.replace("\\\n", "").splitlines():
            command = re.sub(r"\s+# .*|^#.*", "", line).strip()
            if command:
                yield command


def fill_sandbox(directory: Path, tiny: Path, python: str | Path) -> Path:
    """Write everything that the pages name, and a store with earlier sessions, ``kit.db``. ``python``: runs the kit.
    Return the directory that comes first on PATH."""
    for name in ("scenarios", "images", "examples"):
        shutil.copytree(ROOT / name, directory / name)
    for name in ("pyproject.toml", "Makefile"):
        shutil.copy(ROOT / name, directory)
    shutil.copy(ROOT / "examples/nightly.toml", directory)
    project = make_repository(directory / "project")
    (project / "Makefile").write_text("hello: hello.c\n\t$(CC) -o $@ $<\nclean:\n\trm -f hello\n")
    (project / "hello.c").write_text("int main(void) { return 0; }\n")
    (directory / "app.toml").write_text(next(text for text in blocks(ROOT / "docs/how-to/measure-my-build.md", "toml")))
    # What a dry run looks for: it is there before the command, or made by one that is not run.
    for name in ("poky", "linux/arch/x86/boot", "downloads", "bitbake-builds/poky-wrynose/layers"):
        (directory / name).mkdir(parents=True)
    with tarfile.open(directory / "zfs.tar", "w") as tar:  # as mmdebstrap would have made it
        for name, content in (("./boot/vmlinuz-6.1", BZ_IMAGE), ("./usr/lib/modules/6.1", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.type = tarfile.REGTYPE if content else tarfile.DIRTYPE
            tar.addfile(member, io.BytesIO(content))
    for name in ("rootfs.tar", "cmake.tar"):  # the second as mmdebstrap would have made it
        shutil.copy(tiny, directory / name)
    kernel = directory / "linux/arch/x86/boot/bzImage"  # a dry run looks whether it is there
    kernel.write_bytes(BZ_IMAGE)
    (directory / "extras.py").write_text(EXTRAS)
    _write_results(directory)
    store = open_store(f"sqlite:///{directory}/kit.db", directory)
    for number in range(8):
        store.add(_kernel_session(number))
    return write_shims(directory, python)


def _write_results(directory: Path) -> None:
    """Write files of other programs, which pages import."""
    for name in ("bare.txt", "aufs.txt"):
        (directory / name).write_text("real 0m10.0s\nuser 0m8.0s\nsys 0m1.0s\n")
    (directory / "job.log").write_text("2026-05-01T10:00:00.1Z make  8.00s user 1.00s system 90% cpu 10.00 total\n")
    runs = [{"command": name, "mean": 1.5, "times": [1.4, 1.6]} for name in ("make", "docker run mine make")]
    (directory / "both.json").write_text(json.dumps({"results": runs}))
    rounds = [{"name": f"test_build[{arm}]", "stats": {"mean": 2.0, "data": [1.9, 2.1]}} for arm in ("bare", "layer")]
    (directory / "bench.json").write_text(json.dumps({"benchmarks": rounds}))
    (directory / "kas.yml").write_text("header: {version: 14}\n")


def _kernel_session(number: int) -> Session:
    session = replace(night(number, 0.05), id=f"2026110{number + 1}-000000-aaaa", title="kernel:short")
    samples = [
        replace(
            sample,
            phases=(replace(sample.phases[0], name="unpack", sys=sample.phases[0].real), *sample.phases[1:]),
        )
        for sample in session.samples
    ]
    return replace(session, samples=tuple(samples))


def write_shims(directory: Path, python: str | Path) -> Path:
    """Write what stands in for commands, beside the ``extras.py`` of the directory; return where they are. Commands
    run in that directory."""
    shims = directory / "shims"
    shims.mkdir(exist_ok=True)
    for name, text in SHIMS.items():
        script = text.replace("PYTHON", str(python))
        for program in ("make", "mmdebstrap", "apt-get"):
            script = script.replace(program.upper().replace("-", "_"), shutil.which(program) or program)
        (shims / name).write_text(f"#!/bin/bash\n{script}\n")
        (shims / name).chmod(0o755)
    return shims
