"""Two machines of a fleet, and a session for each."""

from dataclasses import replace

from kit.model.member import Member
from kit.model.sample import Phase, Sample
from kit.model.session import RUNNING, Request, Session

ONE = Member(
    name="one", kind="x", kit_version="0", probe="p", kernel="6", cpu="c", cores=1, memory=1, virtualization="none",
    root=True, machine="m",
)  # fmt: skip
TWO = replace(ONE, name="two")
FIRST = Session(
    id="20260101-000000-aaaa", created=1e9, kit_version="0", title="true", status=RUNNING,
    request=Request(command=("true",), arms=("bare",), rounds=2), arms=("bare",), baselines=(), seed=1,
)  # fmt: skip
SECOND = replace(FIRST, id="20260101-000000-bbbb")


def sample(block: int) -> Sample:
    return Sample("bare", block, "measured", "ok", 1e9 + block, (Phase(name="run", status="ok", real=1.0),))
