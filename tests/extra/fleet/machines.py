"""Two machines of a fleet, and a session for each."""

from dataclasses import replace

from kit.model.arm import parse_arms
from kit.model.machine import Member
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.sample import Phase, Sample
from kit.model.session import RUNNING, Request, Session

ONE = Member(
    name="one", kind="x", kit_version="0", probe="p", kernel="6", cpu="c", cores=1, memory=1, virtualization="none",
    root=True, machine="m",
)  # fmt: skip
TWO = replace(ONE, name="two", machine="n")
FIRST = Session(
    id="20260101-000000-aaaa", created=1e9, kit_version="0", title="true", status=RUNNING,
    request=Request(command=("true",), arms=("bare",), rounds=2), arms=("bare",), baselines=(), seed=1,
    plan=make_plan(parse_arms("bare"), SessionOptions(rounds=2, seed=1)),
)  # fmt: skip
SECOND = replace(FIRST, id="20260101-000000-bbbb")


def sample(round_: int) -> Sample:
    return Sample("bare", round_, "measured", "ok", 1e9 + round_, (Phase(name="run", status="ok", real=1.0),))
