"""Whether the step of an earlier start was measured under the conditions that hold now. The labels of its session name
an image, sources and programs; these may have changed since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kit.core.paths import Paths
from kit.engines import programs
from kit.engines.root import EngineRoot
from kit.host.command import which
from kit.host.machine import Host
from kit.image import Image, ImageCache, recipes
from kit.image.image_file import find_image_file, from_image_file, has_layers
from kit.model.default import DEFAULT_IMAGE
from kit.model.fact import KERNEL, PROGRAM
from kit.model.sample import input_digest
from kit.model.scenario import Scenario
from kit.model.session import Request, Session
from kit.session.inputs.sources import prepare_input
from kit.session.plan.planning import prepare_begun


def what_changed(session: Session, host: Host, paths: Paths, tell: Callable[[str], None]) -> str:
    """Return what differs now from a step's session, '' if nothing does: kernel, programs of PATH, scenario, image, and
    sources on this machine. A revision's sources never change, nor those of an engine root. Raises KitError."""
    if KERNEL.text(session.facts, host.kernel) != host.kernel:
        return f"kernel {host.kernel}, then {KERNEL.text(session.facts)}"
    if program := _changed_program(session):
        return program
    then = {name: text for sample in session.samples for name, text in sample.digests}
    if not then:
        return ""
    (scenario,) = prepare_begun(session, host).scenarios.values()
    if then.get("scenario", scenario.digest) != scenario.digest:
        return "another scenario"
    for item in scenario.inputs:
        name = input_digest(item.name)
        local = name in then and not item.revision and Path(item.source).exists()
        if local and prepare_input(item, paths.cache, tell).digest != then[name]:
            return f"other content of {item.source}"
    image = _image(session.request, scenario, paths, tell) if "image" in then else None
    return "another image" if image and image.digest != then["image"] else ""


def _changed_program(session: Session) -> str:
    known = programs()  # facts are the store's: no other program is run
    for fact in PROGRAM.find(session.facts):
        tool, _, engine = fact.of.partition(" of ")
        if tool not in known or session.request.docker or "@" in engine or not which(tool):
            continue
        if (now := EngineRoot().version(tool)) != fact.text:
            return f"{now}, then {fact.text}"
    return ""


def _image(request: Request, scenario: Scenario, paths: Paths, tell: Callable[[str], None]) -> Image | None:
    """Return the image of this machine; None if it is a registry's, which a session alone pulls."""
    cache = ImageCache(paths.cache)
    if request.rootfs:
        return cache.from_directory(Path(request.rootfs))
    name = request.image or scenario.image or DEFAULT_IMAGE
    if name in recipes():
        return cache.from_recipe(name, tell=tell)
    if not (found := find_image_file(name)):
        return None
    path, inside = found
    return from_image_file(path, inside, cache) if has_layers(path) else cache.from_tarball(path)
