"""A request as it is stored, and the plan that comes of it again: neither the directory in which the kit is started nor
what a later kit takes for default changes what a resumed session runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kit.image import recipes
from kit.model.arm import parse_arm
from kit.model.plan import Plan, least_rounds, slice_of
from kit.model.scenario import Scenario
from kit.model.session import Request, Session
from kit.model.sweep import join_values, points, split_values

_Pairs = tuple[tuple[str, str], ...]
#: Fields of a request that are paths wherever they are given.
_PATHS = ("rootfs", "directory", "device", "thin_device", "docker", "kernel", "modules")


def absolute_paths(request: Request) -> Request:
    """The request with what it names of this machine's files by absolute paths; but parameters, whose scenario says
    which of them are paths."""
    paths: dict[str, Any] = {name: _absolute(getattr(request, name)) for name in _PATHS}
    files = {name: _absolute(text) for name in ("scenario", "load") if ".toml" in (text := getattr(request, name))}
    paths |= files
    image = request.image if request.image in recipes() else _where_it_is(request.image)
    return replace(request, **paths, image=image, source=_where_it_is(request.source))


def all_params(request: Request, scenarios: Collection[Scenario], load: Scenario | None) -> Request:
    """The request with all parameters, those that it left to defaults too. ``scenarios``: as bound, one for each point
    of a sweep; ``load``: that of the background."""
    given = tuple((name, join_values(_paths(split_values(text), scenarios))) for name, text in request.params)
    names = {name for name, _ in given}
    values = {name: value for item in scenarios for name, value in item.values if name not in names}
    rest = tuple((name, join_values(_paths((value,), scenarios))) for name, value in values.items())
    beside: _Pairs = tuple((name, _paths((value,), [load])[0]) for name, value in load.values) if load else ()
    return replace(request, params=(*given, *rest), load_params=beside)


def as_planned(request: Request, plan: Plan) -> Request:
    """The request with the arms of its plan, and the least rounds where their number is not open."""
    rounds = request.rounds if plan.until_decided else plan.rounds
    return replace(request, arms=tuple(map(str, plan.arms)), rounds=rounds)


def kept_plan(session: Session) -> Plan:
    """The plan that a session began with."""
    request = session.request
    return Plan(
        arms=tuple(map(parse_arm, session.arms)),
        baselines=session.baselines,
        rounds=least_rounds(request.rounds),
        seed=session.seed,
        cache=request.cache,
        fresh=request.fresh,
        points=tuple(points(request.params)),
        precision=request.precision,
        budget=request.budget,
        timeout=request.timeout,
        interleave=slice_of(request.interleave),
        repeats=request.repeats,
        until_decided=request.until_decided,
        margin=request.margin,
    )


def _paths(values: Sequence[str], scenarios: Collection[Scenario]) -> tuple[str, ...]:
    """Those that are the source of an input are files, unless they say that they are something else."""
    sources = {item.source for scenario in scenarios for item in scenario.inputs}
    return tuple(_where_it_is(value) if value in sources else value for value in values)


def _where_it_is(name: str) -> str:
    """A file's absolute path; what names no file (deb:PACKAGE, git:URL, a registry's image) as it is."""
    file = bool(name) and not name.startswith(("deb:", "git:")) and (name[0] == "." or Path(name).exists())
    return _absolute(name) if file else name


def _absolute(name: str) -> str:
    return str(Path(name).absolute()) if name else ""
