"""What a kernel counts of the bytes that a program dirties in the page cache."""

from pathlib import Path

import pytest

from kit.arms.filesystem import BackingOptions, make_backing
from kit.arms.filesystem.backing import GIB
from kit.host.page_cache import counts_whole_folios
from kit.host.recovery.journal import Journal
from kit.session.setup.cleanups import CLEANUPS


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize("name", ["xfs", "btrfs"])
def test_xfs_counts_whole_folios(name: str, tmp_path: Path) -> None:
    """Since Linux 5.18. ext4 does so since 6.16, btrfs has no large folios by default."""
    journal = Journal(tmp_path / "journal" / "mine.jsonl", CLEANUPS)
    options = BackingOptions(size=GIB, images=tmp_path / "loops")
    with make_backing(name, options, tmp_path / "run" / "fs" / name, "run", journal) as backing:
        assert counts_whole_folios(backing.path) == (name == "xfs")
        assert list(backing.path.iterdir()) == []


def test_a_directory_that_takes_no_file_has_no_such_figure(tmp_path: Path) -> None:
    assert counts_whole_folios(tmp_path / "missing")
