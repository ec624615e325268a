"""Where the sources that bitbake would download can be had without its addresses.

    sources.py find LISTED GIVEN DOWNLOADS   fill DOWNLOADS from the directory GIVEN and from Debian's source packages,
                                             each file under the name that its recipe has for it
    sources.py missing LISTED DOWNLOADS      name, recipe by recipe, what is not there; then the exit status is 1

LISTED is what list-sources.bbclass wrote. A file is known by its SHA-256, whatever it is called.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Where the image's own packages are from, and the suites whose source packages are looked at.
APT_SOURCES = Path("/etc/apt/sources.list")
SUITES = ("bullseye", "bookworm", "trixie", "sid")
#: What the user is shown of a fetch that failed has few lines.
SHOWN = 4


@dataclass(frozen=True)
class Source:
    """One file that a recipe downloads. ``digest``: its SHA-256, '' where the recipe has none; ``names``: what bitbake
    takes it by, the first is preferred."""

    recipe: str
    digest: str
    names: tuple[str, ...]
    address: str


@dataclass(frozen=True)
class Packed:
    """A file of a Debian source package."""

    package: str
    version: str
    name: str


def read_listed(directory: Path) -> list[Source]:
    """In the order of the recipes' names."""
    found = []
    for path in sorted(directory.iterdir()):
        for line in path.read_text().splitlines():
            recipe, digest, names, address = line.split("\t")
            found.append(Source(recipe, digest.replace("-", ""), tuple(names.split("|")), address))
    return found


def digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def present(source: Source, directory: Path) -> Path | None:
    """The file that bitbake would take there, if it has the recipe's checksum."""
    paths = [directory / name for name in source.names]
    return next((path for path in paths if path.is_file() and source.digest in ("", digest_of(path))), None)


def missing(sources: Iterable[Source], downloads: Path) -> list[Source]:
    return [source for source in sources if not present(source, downloads)]


def from_directory(sources: Iterable[Source], given: Path, downloads: Path) -> None:
    """Those that the user has, also under other names."""
    renamed: dict[str, list[Source]] = {}
    for source in sources:
        path = present(source, given)
        if path:
            shutil.copyfile(path, downloads / path.name)
        elif source.digest:
            renamed.setdefault(source.digest, []).append(source)
    for path in sorted(given.iterdir()) if renamed and given.is_dir() else ():
        for source in renamed.get(digest_of(path), ()) if path.is_file() else ():
            shutil.copyfile(path, downloads / source.names[0])


def read_index(lines: Iterable[str]) -> Iterator[tuple[str, Packed]]:
    """SHA-256 and file of every source package in one of Debian's Sources files."""
    package = version = ""
    files: list[tuple[str, str]] = []
    inside = False
    for line in lines:
        if line.startswith(" "):
            if inside:
                digest, _, name = line.split()
                files.append((digest, name))
            continue
        inside = line.startswith("Checksums-Sha256:")
        if line.startswith("Package:"):
            package = line.split()[1]
        elif line.startswith("Version:"):
            version = line.split()[1]
        elif not line.strip():
            yield from ((digest, Packed(package, version, name)) for digest, name in files)
            files = []
    yield from ((digest, Packed(package, version, name)) for digest, name in files)


def choose(sources: Sequence[Source], index: Iterable[tuple[str, Packed]]) -> dict[Source, Packed]:
    """Those of the sources that some package has, byte for byte; of the first suite that has it."""
    wanted = {source.digest for source in sources if source.digest}
    found: dict[str, Packed] = {}
    for digest, packed in index:
        if digest in wanted:
            found.setdefault(digest, packed)
    return {source: found[source.digest] for source in sources if source.digest in found}


def from_debian(sources: list[Source], downloads: Path) -> None:
    """Those that a source package has. What apt can't read or download, it says itself, and is still missing then."""
    with tempfile.TemporaryDirectory(dir=downloads) as scratch:  # /tmp may be too small
        apt = _Apt(Path(scratch))
        found = choose(sources, apt.index())
        apt.download(found.values())
        for source, packed in found.items():
            path = Path(scratch, packed.name)
            if path.is_file():
                shutil.copyfile(path, downloads / source.names[0])
                print(f"{source.recipe}: {source.names[0]} is Debian's {packed.name}")


class _Apt:
    """An apt of its own, for the sources of several suites: the image's has those of one, and is root's."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        for name in ("lists/partial", "cache/archives/partial"):
            (scratch / name).mkdir(parents=True)
        mirror = _mirror()
        lines = [f"deb-src {mirror} {suite} main\n" for suite in SUITES if mirror]
        (scratch / "sources.list").write_text("".join(lines))
        settings = {
            "Dir::Etc::sourcelist": scratch / "sources.list", "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": scratch / "lists", "Dir::Cache": scratch / "cache",
            "Acquire::GzipIndexes": "false", "Acquire::Languages": "none", "Acquire::Retries": "1",
            # A mirror may lag behind; a file is what the recipe says it is, or is not taken.
            "Acquire::Check-Valid-Until": "false", "APT::Sandbox::User": "",
        }  # fmt: skip
        self._options = [f"-o{name}={value}" for name, value in settings.items()]

    def index(self) -> Iterator[tuple[str, Packed]]:
        # A suite that the mirror no longer has fails the whole; what the others have is there all the same.
        self._run("update")
        for path in sorted((self._scratch / "lists").glob("*_Sources")):
            with path.open(encoding="utf-8") as lines:
                yield from read_index(lines)

    def download(self, files: Iterable[Packed]) -> None:
        packages = sorted({f"{packed.package}={packed.version}" for packed in files})
        if packages:
            self._run("source", "--download-only", "--tar-only", "--only-source", *packages)

    def _run(self, *words: str) -> None:
        subprocess.run(["apt-get", "-q", *self._options, *words], cwd=self._scratch, check=False)


def _mirror() -> str:
    """Where the image's own packages are from; '' where it does not say: then no source package is looked at."""
    lines = APT_SOURCES.read_text().splitlines() if APT_SOURCES.is_file() else []
    words = next((line.split() for line in lines if line.startswith("deb ")), [])
    return next((word for word in words if "://" in word), "")


def explain(lacking: list[Source]) -> str:
    """What the user can get elsewhere; few lines, so that none is cut."""
    shown = [f"{source.recipe}: {source.names[0]} from {source.address}" for source in lacking[:SHOWN]]
    if len(lacking) > SHOWN:
        shown.append("also: " + " ".join(f"{source.recipe}: {source.names[0]}" for source in lacking[SHOWN:]))
    return "\n".join([*shown, "put them into a directory, and give it as --param downloads=DIRECTORY"])


def main(words: list[str]) -> int:
    step, *directories = words
    listed, *rest = map(Path, directories)
    sources, downloads = read_listed(listed), rest[-1]
    if step == "find":
        from_directory(sources, rest[0], downloads)
        lacking = missing(sources, downloads)
        if any(source.digest for source in lacking):
            from_debian(lacking, downloads)
    lacking = missing(sources, downloads)
    if lacking:
        print(explain(lacking))
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
