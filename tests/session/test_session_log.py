"""The log of a session is not worth the session."""

import logging
from pathlib import Path

import pytest

from kit.session.execute.session_loop import _session_log


@pytest.mark.promise("faults", "A full or broken disk leaves no half record, and costs a session its log alone.")
@pytest.mark.parametrize("where", ["/dev/full", "/proc/nosuch"])
def test_a_full_or_broken_disk_costs_the_log_alone(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "session.log").symlink_to(where)
    with _session_log(tmp_path / "session.log"):
        logging.getLogger("kit").debug("said")
    assert capsys.readouterr().err == ""
