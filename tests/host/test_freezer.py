"""A control group that goes while it is stopped."""

from pathlib import Path

import pytest

from kit.core.errors import RunError
from kit.host.cgroup import UNIFIED, Cgroup
from kit.host.freezer import Freezer


def test_a_group_that_is_gone_fails_the_run_alone(tmp_path: Path) -> None:
    (tmp_path / "cgroup.freeze").write_text("0")
    freezer = Freezer.of(Cgroup({UNIFIED: tmp_path}))
    with pytest.raises(RunError, match="No such file"):  # of cgroup.events: the group went after it was told to stop
        freezer.freeze()
    assert (tmp_path / "cgroup.freeze").read_text() == "1"
