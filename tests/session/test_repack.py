"""What is repacked has the content of its source, within bounds, in any locale and whatever the umask was."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.errors import UsageError
from kit.host.command import environment
from kit.model.scenario import Input
from kit.session.inputs.repack import repack
from tests.image_archives import holes, long_header, tarball


def content(path: Path) -> dict[str, bytes]:
    """Unpack with GNU tar, as an arm does."""
    top = path.with_name("unpacked")
    top.mkdir()
    subprocess.run(["tar", "-xpf", path, "-C", top], check=True)
    return {str(file.relative_to(top)): file.read_bytes() for file in sorted(top.rglob("*")) if file.is_file()}


FORMS = [("gnu",), *[("posix", f"--sparse-version={number}") for number in ("0.0", "0.1", "1.0")]]


@pytest.mark.parametrize("parts", [3, 100])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[-1])
def test_a_sparse_file_of_a_tarball_keeps_its_content(tmp_path: Path, form: tuple[str, ...], parts: int) -> None:
    top = tmp_path / "top"
    top.mkdir()
    with (top / "sparse").open("wb") as file:
        for number in range(parts):  # the header of a GNU tarball has room for four
            file.seek(number << 16)
            file.write(b"%d" % number)
        file.truncate(parts << 16)
    (top / "plain").write_text("x")
    words = [
        "tar",
        f"--format={form[0]}",
        *form[1:],
        "--sparse",
        "-C",
        str(tmp_path),
        "-cf",
        f"{tmp_path}/x.tar",
        "top",
    ]
    subprocess.run(words, check=True)
    assert (tmp_path / "x.tar").stat().st_size < parts << 16
    repack(tmp_path / "x.tar", tmp_path / "made.tar", Input("src", strip=1))
    assert content(tmp_path / "made.tar") == {"plain": b"x", "sparse": (top / "sparse").read_bytes()}


def test_a_sparse_file_of_a_directory_gives_the_digest_of_its_content(tmp_path: Path) -> None:
    digests = []
    for name, hole in (("one", True), ("two", False)):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "file").open("wb") as file:
            if hole:
                file.truncate(1 << 20)
            else:
                file.write(bytes(1 << 20))
        os.utime(tmp_path / name / "file", (0, 0))
        digests.append(repack(tmp_path / name, tmp_path / f"{name}.tar", Input("src")))
    assert digests[0] == digests[1]
    assert hashlib.sha256((tmp_path / "one.tar").read_bytes()).hexdigest() == digests[0]


def _holes(top: Path) -> Path:
    with (top / "holes").open("wb") as file:
        file.truncate((1 << 30) + 1)
    return top / "holes"


def _holes_in_a_directory(top: Path) -> Path:
    (top / "sources").mkdir()
    _holes(top / "sources")
    return top / "sources"


def _holes_in_a_tarball(top: Path) -> Path:
    return holes(top / "x.tar")


def _header(top: Path) -> Path:
    return long_header(top / "x.tar.gz")


def _cut(top: Path) -> Path:
    data = gzip.compress(tarball({"file": os.urandom(1 << 16)}))
    (top / "x.tar.gz").write_bytes(data[: len(data) // 2])
    return top / "x.tar.gz"


def _unknown(top: Path) -> Path:
    """An entry whose content tarfile does not know to read."""
    member = tarfile.TarInfo("x")
    member.type, member.size = b"D", 512
    (top / "x.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(512) + tarball({"y": b""}))
    return top / "x.tar"


@pytest.mark.promise(
    "what others wrote", "Sources, root filesystems and images beyond the bounds are refused, and take no space."
)
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_holes, "holes has more than 1 GiB of holes"),
        (_holes_in_a_directory, r"holes has more than 1 GiB of holes"),
        (_holes_in_a_tarball, "holes has more than 1 GiB of holes"),
        (_header, "a header has 2097152 bytes, more than allowed"),
        (_cut, "unexpected end"),
        (_unknown, "x is of an unknown type"),
    ],
)
def test_a_source_beyond_the_bounds_is_an_error_in_one_line(
    tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    source = make(tmp_path)
    with pytest.raises(UsageError, match=reason) as caught:
        repack(source, tmp_path / "made", Input("src", into="inputs"))
    assert caught.value.message.startswith(f"{source}: ") and "\n" not in caught.value.message
    assert (tmp_path / "made").stat().st_size < 1 << 20


@pytest.mark.promise(
    "what others wrote", "Sources, root filesystems and images beyond the bounds are refused, and take no space."
)
def test_what_a_tarball_decompresses_to_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.arms.image.decompress._LEAST", 1 << 20)
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(tarball({"y": b""}) + bytes(2 << 20)))
    with pytest.raises(UsageError, match=r"it decompresses to more than 1 GiB and 100 times its size"):
        repack(tmp_path / "x.tar.gz", tmp_path / "made.tar", Input("src"))


REPACK = """
import sys
from pathlib import Path
from kit.model.scenario import Input
from kit.session.inputs.repack import repack
print(repack(Path(sys.argv[1]), Path(sys.argv[2]), Input("src")))
"""


def _locales() -> list[str]:
    listed = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.split()
    return [name for name in listed if "iso88591" in name.lower().replace("-", "")]


@pytest.fixture(scope="module")
def latin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a locale whose encoding is ISO 8859-1, made here unless this machine has one."""
    if names := _locales():
        return {"LC_ALL": names[0]}
    top = tmp_path_factory.mktemp("locales")
    made = subprocess.run(
        ["localedef", "-i", "en_US", "-f", "ISO-8859-1", top / "en_US.ISO-8859-1"], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("needs a locale of ISO-8859-1, or localedef and Debian's package locales")
    return {"LC_ALL": "en_US.ISO-8859-1", "LOCPATH": str(top)}


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_names_are_the_same_in_any_locale(tmp_path: Path, latin: dict[str, str], form: int) -> None:
    names = ["ü", "日本語" * 40]
    with tarfile.open(tmp_path / "x.tar", "w", format=form, encoding="utf-8") as tar:
        for name in names:
            member = tarfile.TarInfo(f"top/{name}")
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
    digests = []
    for variables in ({"LC_ALL": "C.UTF-8"}, latin):
        done = subprocess.run(
            [sys.executable, "-c", REPACK, tmp_path / "x.tar", tmp_path / "made.tar"],
            env={**environment(), "PYTHONPATH": str(Path(__file__).parents[2]), **variables},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        digests.append(done.stdout)
    assert digests[0] == digests[1]
    with tarfile.open(tmp_path / "made.tar", encoding="utf-8") as tar:
        assert tar.getnames() == [f"top/{name}" for name in names]


def test_other_users_may_read_an_input_that_they_use_in_place(tmp_path: Path) -> None:
    """A tree made with umask 077; in the build tree and in an archive the files are the scenario's user's own."""
    top = tmp_path / "sources"
    (top / "sub").mkdir(mode=0o700, parents=True)
    for name, mode in (("sub/file", 0o600), ("sub/program", 0o700), ("sub/secret", 0o000)):
        (top / name).write_text(name)
        (top / name).chmod(mode)
    for into, modes in (("directory", [0o755, 0o644, 0o755, 0]), ("tree", [0o700, 0o600, 0o700, 0])):
        repack(top, tmp_path / "made.tar", Input("src", into=into))
        with tarfile.open(tmp_path / "made.tar") as tar:
            assert [stat.S_IMODE(member.mode) for member in tar] == modes
