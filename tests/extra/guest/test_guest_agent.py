"""What a guest's kernel cannot do is decided in the guest."""

from pathlib import Path

import pytest

from kit.extra.guest.agent import as_kernel_can
from kit.host.cgroup.cgroup import UNIFIED, Cgroup
from kit.model.fact import RUN_ORDER, RUN_ORDER_WHY
from kit.model.sample import INTERLEAVED, SEQUENTIAL
from kit.model.session import Request, Session

KERNEL = "4.19.0 #1"


def session(interleave: str = "0.2s", **facts: str) -> Session:
    return Session("x", 0.0, "0", "s", "running", Request(interleave=interleave), ("bare",), (), 1, facts)


def test_a_kernel_without_a_freezer_runs_arms_sequentially(tmp_path: Path) -> None:
    found = as_kernel_can(session(), Cgroup({UNIFIED: tmp_path}), KERNEL)
    assert RUN_ORDER.text(found.facts) == SEQUENTIAL
    assert RUN_ORDER_WHY.text(found.facts).startswith("the guest's kernel 4.19.0 cannot freeze control groups")


@pytest.mark.parametrize("begun", [session("off"), session(**{"run order": INTERLEAVED})])
def test_nothing_is_said_where_nothing_is_to_be_decided(begun: Session, tmp_path: Path) -> None:
    assert as_kernel_can(begun, Cgroup({UNIFIED: tmp_path}), KERNEL) == begun


def test_a_kernel_with_a_freezer_interleaves_them(tmp_path: Path) -> None:
    (tmp_path / "cgroup.freeze").touch()
    assert as_kernel_can(session(), Cgroup({UNIFIED: tmp_path}), KERNEL) == session()
