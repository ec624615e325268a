"""Sources of scenarios that Debian has, of this machine's suite and of another one."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from kit.core.errors import RunError
from kit.model.scenario import Input
from kit.session.inputs.sources import prepare_input
from tests.needs import needs

PACKAGE = "v4l2loopback-source"  # a small one with a tarball


@pytest.mark.machine
@pytest.mark.unmeasured
@needs("mmdebstrap")
def test_a_package_may_come_from_a_suite_that_this_machine_does_not_run(tmp_path: Path) -> None:
    found = prepare_input(Input("x", source=f"deb:{PACKAGE}#trixie"), tmp_path)
    with tarfile.open(found.path) as packed:
        assert any(name.endswith("/v4l2loopback.c") for name in packed.getnames())
    with pytest.raises(RunError, match="package no-such-source of trixie can't be fetched: Unable to locate package"):
        prepare_input(Input("y", source="deb:no-such-source#trixie"), tmp_path)
