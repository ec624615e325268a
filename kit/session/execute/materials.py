"""The materials of a workload: its image and its inputs, found, built or fetched, and shown to the arms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import UsageError
from kit.engines import EngineConfig
from kit.host.machine import Host
from kit.image import Image, ImageCache, recipes
from kit.model.event import EventSink
from kit.model.scenario import Input, Scenario
from kit.session.execute.fetch import Fetcher, show_inputs
from kit.session.inputs.input_cache import PreparedInput
from kit.session.inputs.sources import prepare_input
from kit.session.measure.context import MachineLease
from kit.session.measure.workload import Workload
from kit.session.prepared import Prepared

#: The image in which ``kit compare -- COMMAND`` runs without --image and --rootfs.
DEFAULT_IMAGE = "kernel"
#: By number of the sweep's point; under '' if a sweep does not affect the inputs.
Folders = Mapping[str, tuple[PreparedInput, ...]]


@dataclass(frozen=True)
class Gatherer:
    lease: MachineLease
    host: Host
    observer: EventSink
    timeout: float | None = None  # seconds, for fetching each input

    def image(self, prepared: Prepared) -> Image | None:
        """Return the requested image, else the scenario's own; None if every arm is the host itself."""
        request = prepared.request
        cache = ImageCache(self.lease.paths.cache)
        if request.rootfs:
            return cache.from_directory(Path(request.rootfs))
        if request.image:
            return named_image(request.image, cache, self.lease.setting, self.observer)
        if all(arm.placement == "host" for arm in prepared.plan.arms):
            return None
        return cache.from_recipe(prepared.scenario.image or DEFAULT_IMAGE, tell=self.observer.tell)

    def _inputs(
        self, scenario: Scenario, image: Image | None, prepared: dict[Input, PreparedInput]
    ) -> tuple[PreparedInput, ...]:
        """Return all inputs of a scenario from the cache, in their order. Raises UnavailableError if one can't be
        obtained here, and the errors of prepare_input. ``prepared``: available inputs with a source; a branch is looked
        up once."""
        lease, tell = self.lease, self.observer.tell
        log = lease.paths.logs(lease.setting.session) / f"fetch-{scenario.name}.log"
        fetcher = Fetcher(scenario, image, self.host, lease.setting, lease.paths.cache, log, tell, self.timeout)
        found: list[PreparedInput] = []
        for item in scenario.inputs:
            if item.source:
                if item not in prepared:
                    prepared[item] = prepare_input(item, lease.paths.cache, tell, self.timeout)
                found.append(prepared[item])
            elif item.fetch:
                found.append(fetcher.fetch(item, found))
        return tuple(found)

    def folders(self, scenarios: Sequence[Scenario], image: Image | None) -> Folders:
        """Return the inputs of each point of a sweep."""
        prepared: dict[Input, PreparedInput] = {}
        found = {str(number): self._inputs(scenario, image, prepared) for number, scenario in enumerate(scenarios, 1)}
        return {"": found["1"]} if len(set(found.values())) == 1 else found


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


def workloads(
    scenarios: Mapping[str, Scenario], image: Image | None, folders: Folders, directory: Path | None
) -> dict[str, Workload]:
    """Return the workload of each point of a sweep. ``directory``: the result of ``shown``."""
    found = {}
    for number, (point, scenario) in enumerate(scenarios.items(), 1):
        folder = "" if "" in folders else str(number)
        found[point] = Workload(scenario, image, folders[folder], folder, directory)
    return found


def named_image(name: str, cache: ImageCache, setting: EngineConfig, observer: EventSink, force: bool = False) -> Image:
    """Return a bundled recipe, a tarball on disk (of a root filesystem, or of ``docker save``), or a registry
    reference."""
    from kit.engines.pull import from_archive, from_registry, is_archive

    if name in recipes():
        return cache.from_recipe(name, force, observer.tell)
    path = Path(name)
    if path.is_file():
        return from_archive(path, cache) if is_archive(path) else cache.from_tarball(path)
    if name.startswith((".", "/")) or name.endswith((".tar", ".xz", ".gz", ".zst")):
        raise UsageError(f"no image file {name}", f"use a file that exists, or a recipe: {', '.join(recipes())}")
    return from_registry(name, cache, setting, observer.tell)
