"""What a workload is given: its image and its inputs, found, built or fetched, and shown to the arms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import UsageError
from kit.engines import Setting
from kit.host.machine import Host
from kit.image import Image, ImageCache, recipes
from kit.model.arm import Arm
from kit.model.scenario import Input, Scenario
from kit.model.session import Request
from kit.session.context import Bench, Observer
from kit.session.fetch import Fetcher, show_inputs
from kit.session.input_cache import PreparedInput
from kit.session.inputs import prepare_input
from kit.session.workload import Workload

#: What ``kit compare -- COMMAND`` runs in where neither --image nor --rootfs is given.
DEFAULT_IMAGE = "kernel"
#: By number of the point of a sweep; under '' where a sweep does not touch the inputs.
Folders = Mapping[str, tuple[PreparedInput, ...]]


@dataclass(frozen=True)
class Gatherer:
    bench: Bench
    host: Host
    observer: Observer
    timeout: float | None = None  # seconds, for fetching each input

    def image(self, request: Request, scenario: Scenario, arms: Sequence[Arm]) -> Image | None:
        """The image that was asked for, else the scenario's own; None where every arm is the host itself."""
        cache = ImageCache(self.bench.paths.cache)
        if request.rootfs:
            return cache.from_directory(Path(request.rootfs))
        if request.image:
            return named_image(request.image, cache, self.bench.setting, self.observer)
        if all(arm.placement == "host" for arm in arms):
            return None
        return cache.from_recipe(scenario.image or DEFAULT_IMAGE, tell=self.observer.tell)

    def _inputs(
        self, scenario: Scenario, image: Image | None, prepared: dict[Input, PreparedInput]
    ) -> tuple[PreparedInput, ...]:
        """All of a scenario's inputs in the cache, in their order. Raises UnavailableError where one can't be had here,
        and what prepare_input does. ``prepared``: those with a source that are at hand; a branch is looked up once."""
        bench, tell = self.bench, self.observer.tell
        log = bench.paths.logs(bench.setting.session) / f"fetch-{scenario.name}.log"
        fetcher = Fetcher(scenario, image, self.host, bench.setting, bench.paths.cache, log, tell, self.timeout)
        found: list[PreparedInput] = []
        for item in scenario.inputs:
            if item.source:
                if item not in prepared:
                    prepared[item] = prepare_input(item, bench.paths.cache, tell, self.timeout)
                found.append(prepared[item])
            elif item.fetch:
                found.append(fetcher.fetch(item, found))
        return tuple(found)

    def folders(self, scenarios: Sequence[Scenario], image: Image | None) -> Folders:
        """The inputs of each point of a sweep."""
        prepared: dict[Input, PreparedInput] = {}
        found = {str(number): self._inputs(scenario, image, prepared) for number, scenario in enumerate(scenarios, 1)}
        return {"": found["1"]} if len(set(found.values())) == 1 else found


@contextmanager
def shown(folders: Folders, bench: Bench, name: str) -> Iterator[Path | None]:
    """A directory with the inputs that a scenario unpacks or reads itself, as it sees them; None where there are
    none."""
    if all(item.into == "tree" for items in folders.values() for item in items):
        yield None
        return
    directory = bench.paths.cache / "inputs" / f"{name}-{bench.setting.session}"
    with bench.setting.journal.directory(directory, 0o755):  # users of scenarios read them
        for folder, items in folders.items():
            show_inputs(items, directory / folder)
        yield directory


def workloads(scenarios: Mapping[str, Scenario], image: Image | None, folders: Folders) -> dict[str, Workload]:
    """One for each point of a sweep."""
    found = {}
    for number, (point, scenario) in enumerate(scenarios.items(), 1):
        folder = "" if "" in folders else str(number)
        found[point] = Workload(scenario, image, folders[folder], folder)
    return found


def named_image(name: str, cache: ImageCache, setting: Setting, observer: Observer, force: bool = False) -> Image:
    """A bundled recipe, a tarball on disk (of a root filesystem, or of ``docker save``), or a registry reference."""
    from kit.engines.pull import from_archive, from_registry, is_archive

    if name in recipes():
        return cache.from_recipe(name, force, observer.tell)
    path = Path(name)
    if path.is_file():
        return from_archive(path, cache) if is_archive(path) else cache.from_tarball(path)
    if name.startswith((".", "/")) or name.endswith((".tar", ".xz", ".gz", ".zst")):
        raise UsageError(f"there is no image file {name}", f"or name a recipe: {', '.join(recipes())}")
    return from_registry(name, cache, setting, observer.tell)
