"""The stored form of a request. A resumed session runs the same whatever the current directory and a later kit's
defaults."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from kit.image import recipes
from kit.image.image_file import find_image_file
from kit.model.plan import Plan
from kit.model.scenario import Scenario
from kit.model.session import Request, Session
from kit.model.sweep import join_values, map_values

_Pairs = tuple[tuple[str, str], ...]
#: Fields of a request that are always paths.
_PATHS = ("rootfs", "directory", "device", "thin_device", "docker", "kernel", "modules")


def absolute_paths(request: Request, scenario: Scenario, load: Scenario | None = None) -> Request:
    """Return the request with absolute paths of this machine's files. ``scenario`` and ``load`` say which of their
    parameters are paths."""
    paths: dict[str, Any] = {name: _absolute(getattr(request, name)) for name in _PATHS}
    files = {name: _absolute(text) for name in ("scenario", "load") if ".toml" in (text := getattr(request, name))}
    paths |= files
    image = request.image if request.image in recipes() else _image(request.image)
    params = _absolute_sources(request.params, scenario)
    beside = _absolute_sources(request.load_params, load) if load else ()
    return replace(
        request, **paths, image=image, source=_where_it_is(request.source), params=params, load_params=beside
    )


def as_planned(request: Request, plan: Plan, scenarios: Collection[Scenario], load: Scenario | None) -> Request:
    """Return the request with its defaults: all arms, all parameters, and the minimum number of rounds unless it is
    open. ``scenarios``: as bound, one for each point of a sweep; ``load``: that of the background."""
    names = {name for name, _ in request.params}
    rest = {name: join_values((text,)) for item in scenarios for name, text in item.values if name not in names}
    return replace(
        request,
        arms=tuple(map(str, plan.arms)),
        params=(*request.params, *rest.items()),
        load_params=load.values if load else (),
        rounds=request.rounds if plan.until_decided else plan.rounds,
    )


def _absolute_sources(params: _Pairs, scenario: Scenario) -> _Pairs:
    """Return the parameters with absolute paths of input sources, except sources with a declared type."""
    defaults = {item.name: item.default for item in scenario.params}
    sources = {name: defaults[name] for name in scenario.source_params}
    left = {name: text for name, text in sources.items() if name not in dict(params) and _where_it_is(text) != text}
    return tuple(
        (name, map_values(text, _where_it_is) if name in sources else text) for name, text in (*params, *left.items())
    )


def _where_it_is(name: str) -> str:
    """Return a file's absolute path; return other names (deb:PACKAGE, git:URL, a registry's image) unchanged."""
    file = bool(name) and not name.startswith(("deb:", "git:")) and (name[0] == "." or Path(name).exists())
    return _absolute(name) if file else name


def _image(name: str) -> str:
    """Return the same for an image: a file or an OCI layout may be followed by a colon and a name in it."""
    return _absolute(name) if name.startswith(".") or find_image_file(name) else name


def _absolute(name: str) -> str:
    return str(Path(name).absolute()) if name else ""


def whole_rounds(session: Session, plan: Plan) -> set[int]:
    """Return the rounds of which the session has every run."""
    able = {str(arm) for arm in plan.arms} - {item.arm for item in session.not_run}
    wanted = {(arm, point) for arm in able for point in plan.points}
    found: dict[int, set[tuple[str, str]]] = {}
    for sample in session.samples:
        if sample.kind == "measured":
            found.setdefault(sample.round, set()).add((sample.arm, sample.point))
    return {number for number, had in found.items() if had >= wanted}
