"""Tarballs of others are read as tarfile reads them, within bounds."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from kit.host import tarball as door
from kit.host.tarball import members, read_tarball
from tests.image_archives import tarball


def read(data: bytes, most: int = 100) -> list[str]:
    with read_tarball(io.BytesIO(data)) as tar:
        return [member.name for member in members(tar, most)]


def test_entries_have_an_end() -> None:
    data = tarball({str(number): b"" for number in range(5)})
    assert read(data, 5) == ["0", "1", "2", "3", "4"]
    with pytest.raises(tarfile.ReadError, match="more than 4 entries"):
        read(data, 4)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_headers_have_an_end(kind: bytes) -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, 2 << 20
    data = member.tobuf(tarfile.GNU_FORMAT) + b"a" * (2 << 20) + tarball({"y": b""})
    with pytest.raises(tarfile.ReadError, match="a header has 2097152 bytes"):
        read(data)


@pytest.mark.parametrize("form", [("gnu",), ("posix", "--sparse-version=0.0"), ("posix", "--sparse-version=0.1"),
                                  ("posix", "--sparse-version=1.0")], ids=lambda form: form[-1])  # fmt: skip
def test_sparse_files_are_whole_and_their_maps_have_an_end(
    tmp_path: Path, form: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(400 << 12)
    with (tmp_path / "x").open("wb") as file:
        for number in range(0, 400, 4):  # more parts than the first header has room for
            content[number << 12] = number % 255 + 1
            file.seek(number << 12)
            file.write(content[number << 12 : (number + 1) << 12])
        file.truncate(len(content))
    words: list[str | Path] = [
        "tar",
        f"--format={form[0]}",
        *form[1:],
        "--sparse",
        "-C",
        tmp_path,
        "-cf",
        tmp_path / "x.tar",
        "x",
    ]
    subprocess.run(words, check=True)
    assert (tmp_path / "x.tar").stat().st_size < len(content)
    with read_tarball(tmp_path / "x.tar") as tar:
        (member,) = members(tar, 10)
        source = tar.extractfile(member)
        assert source and source.read() == content
    monkeypatch.setattr(door, "_MOST_MAP", 1)
    if form[-1] in ("gnu", "--sparse-version=1.0"):  # the others' maps lie in a header
        with pytest.raises(tarfile.ReadError, match="a sparse file has too many parts"):
            read((tmp_path / "x.tar").read_bytes())
