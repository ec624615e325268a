"""Where arms may run by turns."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.analysis.speed import Unsteadiness
from kit.core.errors import UsageError
from kit.host.machine import read_host
from kit.model.fact import SLICES_WHY
from kit.model.plan import DEFAULT_SLICES, slices_of
from kit.model.session import Request, Session
from kit.session.context import Bench
from kit.session.planning import plan_session, profiles
from kit.session.sliceable import decide

HOST = replace(read_host(), root=True)
SESSION = Session("x", 0.0, "0", "s", "running", Request(), ("bare",), (), 1)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"load": "kernel:loop"}, "a background load"),
        ({"fresh": True}, "--fresh"),
        ({"guest": "uml"}, "in a guest"),
        ({"explain_calls": True}, "explain whole runs"),
        ({"profile": True}, "explain whole runs"),
        ({"precision": 0.01}, r"--precision 1.00% is less than 1.19%"),
        ({"device": "/dev/x"}, "each other's data"),
        ({"arms": ("bare@nfs",)}, "each other's data"),
        ({"arms": ("bare@tmpfs-sync",)}, "by the clock"),
        ({"arms": ("host",)}, "no control group"),
        ({"arms": ("bare", "layer:fuse-overlayfs")}, "layer:fuse-overlayfs has a daemon"),
        ({"arms": ("bare", "layer:overlay2+cpus=1")}, r"layer:overlay2\+cpus=1: .* anew in each turn"),
        ({"arms": ("bare", "layer:overlay2+memory=1g")}, r"layer:overlay2\+memory=1g: .* while it stands still"),
        ({"scenario": "lifecycle"}, "clock of its own"),
        ({"scenario": "fio"}, "clock of its own"),
    ],
)
def test_refused_by_name(given: dict[str, Any], reason: str) -> None:
    request = replace(Request("kernel:short", arms=("bare",), slices="0.5s"), **given)
    with pytest.raises(UsageError, match=f"--slices 0.5s: .*{reason}"):
        plan_session(request, HOST)
    plan_session(replace(request, slices="auto"), HOST)


def test_a_precision_that_turns_can_reach() -> None:
    plan_session(Request("kernel:short", arms=("bare",), slices="0.5s", precision=0.012), HOST)


def test_without_root_nothing_is_frozen() -> None:
    with pytest.raises(UsageError, match="by root alone"):
        plan_session(Request("kernel:short", arms=("bare",), slices="0.5s"), replace(HOST, root=False))


@pytest.mark.parametrize("text", ["0s", "0.05s", "11s", "fast", "0.5", "1m", ""])
def test_lengths_of_turns_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="neither auto nor off"):
        slices_of(text)


def test_lengths_of_turns() -> None:
    assert slices_of("auto") is None and slices_of("off") is None
    assert slices_of("0.5s") == 0.5 and slices_of("10s") == 10


class TestAuto:
    """Which way it took, and why, is told and recorded."""

    @pytest.fixture(autouse=True)
    def noisy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kit.session.sliceable.watch_speed", lambda *given: Unsteadiness(0.05, 0.01))

    def decided(self, request: Request, facts: Mapping[str, str] | None = None) -> tuple[float | None, dict[str, str]]:
        request, scenarios, plan = plan_session(request, HOST)
        session = replace(SESSION, request=request, facts=facts or {})
        said: list[str] = []
        bench = cast(Bench, SimpleNamespace(setting=SimpleNamespace(tell=said.append, probe=Path("/none"))))
        plan, found = decide(session, plan, scenarios[""], profiles(request), HOST, bench)
        assert said[-1:] == [fact.text for fact in found if fact.kind == SLICES_WHY]
        return plan.slices, {fact.key: fact.text for fact in found}

    def test_by_turns_on_a_noisy_machine(self) -> None:
        slices, facts = self.decided(Request("kernel:short", arms=("bare", "layer:overlay2"), slices="auto"))
        assert slices == DEFAULT_SLICES and facts["slices"] == f"{DEFAULT_SLICES:g} s"
        assert facts["why slices"] == (
            f"arms run by turns of {DEFAULT_SLICES:g} s: two runs of 10 s one after the other differ by 5.0% here, "
            f"by turns of {DEFAULT_SLICES:g} s by 1.0%"
        )

    def test_whole_on_a_steady_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kit.session.sliceable.watch_speed", lambda *given: Unsteadiness(0.01, 0.01))
        slices, facts = self.decided(Request("kernel:short", arms=("bare",), slices="auto"))
        assert slices is None and facts["slices"] == "off"
        assert facts["why slices"].startswith("arms run one after the other: two runs of 10 s")

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ({"scenario": "kernel"}, "tried with kernel:short alone"),
            ({"arms": ("bare@nfs",)}, "each other's data"),
            ({"profile": True}, "explain whole runs"),
            ({"precision": 0.01}, "less than 1.19%"),
        ],
    )
    def test_whole_where_nothing_is_proved(self, given: dict[str, Any], reason: str) -> None:
        slices, facts = self.decided(replace(Request("kernel:short", arms=("bare",), slices="auto"), **given))
        assert slices is None and reason in facts["why slices"]

    def test_one_who_asks_for_turns_is_told_what_is_not_proved(self) -> None:
        given = Request("kernel", arms=("bare",), slices="0.5s")
        request, scenarios, plan = plan_session(given, HOST)
        session = replace(SESSION, request=request)
        _, found = decide(session, plan, scenarios[""], profiles(request), HOST, cast(Bench, None))
        assert {fact.key for fact in found} == {"slices", "why slices"} and "was tried" in found[1].text

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({}, "arms run one after the other; with --slices auto by turns"),
            ({"scenario": "smoke"}, ""),
            ({"arms": ("bare", "layer:fuse-overlayfs")}, ""),
        ],
    )
    def test_one_who_asks_for_nothing_is_told_which_way_it_took(self, given: dict[str, Any], said: str) -> None:
        request, scenarios, plan = plan_session(replace(Request("kernel:short", arms=("bare",)), **given), HOST)
        session = replace(SESSION, request=request)
        _, found = decide(session, plan, scenarios[""], profiles(request), HOST, cast(Bench, None))
        facts = {fact.key: fact.text for fact in found}
        assert facts["slices"] == "off" and facts.get("why slices", "").startswith(said)
        assert bool(said) == ("why slices" in facts)

    def test_a_resumed_session_goes_on_as_it_began(self) -> None:
        request = Request("kernel:short", arms=("bare",), slices="auto")
        assert self.decided(request, {"slices": "off"}) == (None, {})
        assert self.decided(request, {"slices": "0.5 s"}) == (0.5, {})
