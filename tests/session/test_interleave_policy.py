"""Tests of when arms may be interleaved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kit.analysis.runs.waiting import Waiting
from kit.core.errors import UsageError
from kit.host.machine import read_host
from kit.model.options import slice_of
from kit.model.session import Request, Session
from kit.session.measure.pilot import Pilot
from kit.session.plan.interleave_policy import decide
from kit.session.plan.planning import prepare

HOST = replace(read_host(), root=True)
NOTHING = Waiting(0.0, 0.0)
SESSION = Session("x", 0.0, "0", "s", "running", Request(), ("bare",), (), 1)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"load": "kernel:loop"}, "a background load"),
        ({"fresh": True}, "--fresh"),
        ({"precision": 0.01}, r"--precision 1.00% is less than 1.19%"),
        ({"device": "/dev/x"}, "each other's data"),
        ({"arms": ("bare@nfs",)}, "each other's data"),
        ({"arms": ("bare@tmpfs-sync",)}, "by the clock"),
        ({"arms": ("host",)}, "no control group"),
        ({"arms": ("bare", "layer:overlay2+cpus=1")}, r"layer:overlay2\+cpus=1: .* refilled in every slice"),
        ({"arms": ("bare", "layer:overlay2+memory=1g")}, r"layer:overlay2\+memory=1g: .* while it is frozen"),
        ({"scenario": "lifecycle"}, "clock of its own"),
        ({"scenario": "fio"}, "clock of its own"),
    ],
)
def test_refused_by_name(given: dict[str, Any], reason: str) -> None:
    request = replace(Request("kernel:short", arms=("bare",), interleave="0.5s"), **given)
    with pytest.raises(UsageError, match=f"--interleave 0.5s: .*{reason}"):
        prepare(request, HOST)
    prepare(replace(request, interleave="auto"), HOST)


def test_a_precision_that_interleaved_rounds_can_have() -> None:
    prepare(Request("kernel:short", arms=("bare",), interleave="0.5s", precision=0.012), HOST)


def test_without_root_nothing_is_frozen() -> None:
    with pytest.raises(UsageError, match="only root may"):
        prepare(Request("kernel:short", arms=("bare",), interleave="0.5s"), replace(HOST, root=False))


@pytest.mark.parametrize("text", ["0s", "0.05s", "11s", "fast", "0.5", "1m", ""])
def test_lengths_of_slices_that_are_not_valid(text: str) -> None:
    with pytest.raises(UsageError, match="unknown mode"):
        slice_of(text)


def test_lengths_of_slices() -> None:
    assert slice_of("auto") is None and slice_of("off") is None
    assert slice_of("0.5s") == 0.5 and slice_of("10s") == 10


Pilots = Callable[[], Sequence[Pilot]]


def pilot(seconds: float = 10.0, waits: Waiting = NOTHING, error: str = "") -> Pilots:
    return lambda: (Pilot("bare", seconds, waits, error),)


TEN = pilot()


def decided(
    request: Request, found: Pilots = TEN, facts: Mapping[str, str] | None = None
) -> tuple[float | None, dict[str, str]]:
    prepared = prepare(request, HOST)
    session = replace(SESSION, request=prepared.request, facts=facts or {})
    plan, made = decide(session, prepared, HOST, found)
    return plan.interleave, {fact.key: fact.text for fact in made}


def test_a_workload_that_fails_only_if_it_is_frozen_is_not_interleaved() -> None:
    seconds, facts = decided(Request("kernel:short"), lambda: (Pilot("bare", 10.0, NOTHING, fails_frozen=True),))
    assert seconds is None and facts["run order"] == "sequential"
    assert "fails if it is frozen" in facts["why run order"]


def unwanted() -> Sequence[Pilot]:
    raise AssertionError("no pilot run is needed")


class TestAuto:
    """Which way it took, and why, is recorded."""

    def test_slices_by_the_length_of_a_run(self) -> None:
        for seconds, length in ((1, 0.1), (5, 0.1), (10, 0.2), (20, 0.4), (80, 0.5)):
            found, facts = decided(Request("kernel:short", arms=("bare", "layer:overlay2")), pilot(seconds))
            assert found == length and facts["run order"] == "interleaved" and facts["slice"] == f"{length:g} s"

    def test_slices_are_longer_where_the_workload_waits(self) -> None:
        found, facts = decided(Request("kernel:short", arms=("bare", "layer:overlay2")), pilot(10, Waiting(0.1, 0.02)))
        assert found == 0.4
        assert facts["why run order"] == (
            "a run takes 10 s and waits 10.0% of its time for a clock, a network or other processes, of which slices "
            "hide 0.50% of a run at most"
        )

    @pytest.mark.parametrize(
        ("found", "why"),
        [
            (pilot(0.3), "too short"),
            (pilot(10, Waiting(0.2, 1.0)), "slices would hide 40.0% at most, 0.5% are allowed"),
            (pilot(error="build failed"), "the pilot run of bare failed"),
            (tuple, "no arm could make a pilot run"),
        ],
    )
    def test_sequential_by_the_pilot_run(self, found: Pilots, why: str) -> None:
        length, facts = decided(Request("kernel:short", arms=("bare", "layer:overlay2")), found)
        assert length is None and facts["run order"] == "sequential" and why in facts["why run order"]
        assert "slice" not in facts

    def test_several_commands_have_the_slice_that_suits_each(self) -> None:
        request = Request("kernel:short", arms=("bare", "layer:overlay2"))
        ten, twenty = pilot()(), pilot(20)()
        assert decided(request, lambda: (*twenty, *ten))[0] == 0.2
        needs_longer = Pilot("bare+command=b", 10, Waiting(0.1, 0.02))
        length, facts = decided(request, lambda: (*ten, needs_longer))
        assert length == 0.4 and "slices hide 0.50% of a run" in facts["why run order"]
        waiting = Pilot("bare+command=b", 10, Waiting(0.2, 1.0))
        length, facts = decided(request, lambda: (*ten, waiting, *twenty))
        assert length is None and "slices would hide" in facts["why run order"]

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ({"arms": ("bare@nfs", "bind:overlay2@nfs")}, "each other's data"),
            ({"precision": 0.01}, "less than 1.19%"),
            ({"arms": ("bare",), "control": False}, "one arm alone"),
            ({"rounds": 1}, "one round has no interval"),
        ],
    )
    def test_sequential_without_a_pilot_run(self, given: dict[str, Any], reason: str) -> None:
        length, facts = decided(replace(Request("kernel:short", arms=("bare", "layer:overlay2")), **given), unwanted)
        assert length is None and reason in facts["why run order"]

    def test_as_asked(self) -> None:
        request = Request("kernel:short", arms=("bare", "layer:overlay2"))
        assert decided(replace(request, interleave="off"), unwanted) == (None, {"run order": "sequential"})
        length, facts = decided(replace(request, interleave="0.5s"), unwanted)
        assert length == 0.5 and facts["why run order"] == "as asked"

    def test_a_resumed_session_goes_on_as_it_began(self) -> None:
        request = Request("kernel:short", arms=("bare", "layer:overlay2"))
        assert decided(request, unwanted, {"run order": "sequential"}) == (None, {})
        assert decided(request, unwanted, {"run order": "interleaved", "slice": "0.5 s"}) == (0.5, {})
