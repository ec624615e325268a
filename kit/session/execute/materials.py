"""The materials of a workload: its image and its inputs, found, built or fetched, and shown to the arms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.errors import UsageError
from kit.engines.root import given_programs
from kit.image import Image, ImageCache, recipes
from kit.image.image_file import check_image_name, find_image_file, from_image_file, has_layers
from kit.model.event import EventSink
from kit.model.scenario import Input, Scenario
from kit.session.execute.fetch import Fetcher, show_inputs
from kit.session.inputs.input_cache import PreparedInput
from kit.session.inputs.sources import prepare_input
from kit.session.measure.context import MachineLease
from kit.session.measure.workload import Workload
from kit.session.prepared import Prepared, SessionContext

#: By number of the sweep's point; under '' if a sweep does not affect the inputs.
Folders = Mapping[str, tuple[PreparedInput, ...]]


@dataclass(frozen=True)
class Materials:
    """The materials of a session's workload. ``load``: those of the background load, if any."""

    image: Image | None
    folders: Folders
    load: LoadMaterials | None = None


@dataclass(frozen=True)
class LoadMaterials:
    scenario: Scenario
    image: Image
    folders: Folders


def gather(context: SessionContext, lease: MachineLease) -> Materials:
    """Find, build or fetch image and inputs, also those of the background load. Raises UnavailableError if an input
    can't be obtained here, and the errors of prepare_input."""
    prepared = context.prepared
    image = _image(prepared, lease, context.events)
    folders = _folders(list(prepared.scenarios.values()), image, context, lease)
    if not prepared.load:
        return Materials(image, folders)
    theirs = named_image(prepared.load.image, ImageCache(lease.paths.cache), context.events)
    return Materials(
        image, folders, LoadMaterials(prepared.load, theirs, _folders([prepared.load], theirs, context, lease))
    )


def equipped(lease: MachineLease, docker: str, thin_device: str) -> MachineLease:
    """Return the lease with the user's Docker and device, if any. Raises UsageError."""
    programs = given_programs(Path(docker).absolute(), lease.paths.cache) if docker else None
    device = Path(thin_device) if thin_device else None
    return replace(lease, setting=replace(lease.setting, docker=programs, thin_device=device))


def _image(prepared: Prepared, lease: MachineLease, events: EventSink) -> Image | None:
    """Return the requested image, else the scenario's own; None if every arm is the host itself."""
    cache = ImageCache(lease.paths.cache)
    if prepared.request.rootfs:
        return cache.from_directory(Path(prepared.request.rootfs))
    return named_image(prepared.image, cache, events) if prepared.image else None


def _folders(
    scenarios: Sequence[Scenario], image: Image | None, context: SessionContext, lease: MachineLease
) -> Folders:
    """Return the inputs of each point of a sweep."""
    prepared: dict[Input, PreparedInput] = {}  # a branch is looked up once
    found = {
        str(number): _inputs(scenario, image, context, lease, prepared) for number, scenario in enumerate(scenarios, 1)
    }
    return {"": found["1"]} if len(set(found.values())) == 1 else found


def _inputs(
    scenario: Scenario,
    image: Image | None,
    context: SessionContext,
    lease: MachineLease,
    prepared: dict[Input, PreparedInput],
) -> tuple[PreparedInput, ...]:
    """Return all inputs of a scenario from the cache, in their order. ``prepared``: available inputs with a source."""
    cache, tell, timeout = lease.paths.cache, context.events.tell, context.prepared.plan.timeout
    log = lease.paths.logs(lease.setting.session) / f"fetch-{scenario.name}.log"
    fetcher = Fetcher(scenario, image, context.host, lease.setting, cache, log, tell, timeout)
    found: list[PreparedInput] = []
    for item in scenario.inputs:
        if item.source:
            if item not in prepared:
                prepared[item] = prepare_input(item, cache, tell, timeout)
            found.append(prepared[item])
        elif item.fetch:
            found.append(fetcher.fetch(item, found))
    return tuple(found)


@contextmanager
def shown(folders: Folders, lease: MachineLease, name: str) -> Iterator[Path | None]:
    """Yield a directory with the inputs that a scenario unpacks or reads itself; None if it has no such inputs."""
    if all(item.into == "tree" for items in folders.values() for item in items):
        yield None
        return
    directory = lease.paths.cache / "inputs" / f"{name}-{lease.setting.session}"
    with lease.setting.journal.directory(directory, 0o755):  # users of scenarios read them
        for folder, items in folders.items():
            show_inputs(items, directory / folder)
        yield directory


def bind_workloads(
    scenarios: Mapping[str, Scenario], image: Image | None, folders: Folders, directory: Path | None
) -> dict[str, Workload]:
    """Return the workload of each point of a sweep. ``directory``: the result of ``shown``."""
    found = {}
    for number, (point, scenario) in enumerate(scenarios.items(), 1):
        folder = "" if "" in folders else str(number)
        found[point] = Workload(scenario, image, folders[folder], folder, directory)
    return found


def named_image(name: str, cache: ImageCache, observer: EventSink, force: bool = False) -> Image:
    """Return a bundled recipe, a file on disk (the tarball of a root filesystem, or an image with layers), or a
    registry reference."""
    from kit.engines.pull import from_registry

    check_image_name(name)
    if name in recipes():
        return cache.from_recipe(name, force, observer.tell)
    found = find_image_file(name)
    if found:
        path, inside = found
        if has_layers(path):
            return from_image_file(path, inside, cache)
        if inside:
            raise UsageError(f"{path} is a root filesystem without the image '{inside}'", f"use --image {path}")
        return cache.from_tarball(path)
    return from_registry(name, cache, observer.tell)
