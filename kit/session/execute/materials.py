"""The materials of a workload: its image and its inputs, found, built or fetched, and shown to the arms."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kit.arms.engines import EngineConfig, Sandbox
from kit.arms.engines.root import given_programs
from kit.arms.filesystem import BackingOptions
from kit.arms.image import Image, ImageCache, recipes
from kit.arms.image.image_file import check_image_name, find_image_file, from_image_file, has_layers
from kit.core.deadline import run_deadline
from kit.core.errors import KitError, UnavailableError, UsageError
from kit.host.command import environment, run
from kit.host.machine import Host
from kit.model.arm import Arm
from kit.model.event import EventSink
from kit.model.scenario import Input, Scenario
from kit.session.inputs.input_cache import InputCache, PreparedInput
from kit.session.inputs.sources import prepare_input
from kit.session.measure.context import MachineLease
from kit.session.measure.phase_log import cut_middle
from kit.session.measure.workload import Workload
from kit.session.prepared import Prepared, SessionContext
from kit.session.setup.provision import Provision, ProvisionSpec

#: Network settings of this machine's tools: names, certificates, mirrors. They are copied to the same paths in the
#: sandbox, those of the user's home to the home of the image's root.
_CONFIGURATION = (
    "/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs", "/etc/pip.conf", "/etc/gitconfig", "/etc/maven/settings.xml",
    "~/.config/pip/pip.conf", "~/.npmrc", "~/.m2/settings.xml", "~/.gitconfig",
)  # fmt: skip
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS")


@dataclass(frozen=True)
class Fetcher:
    """The part of a session that fetching needs."""

    scenario: Scenario
    image: Image | None
    host: Host
    setting: EngineConfig
    cache: Path
    log: Path
    tell: Callable[[str], None]
    timeout: float | None = None  # seconds, for the commands of one input

    def fetch(self, item: Input, earlier: Sequence[PreparedInput]) -> PreparedInput:
        """Fetch the input. Raises UnavailableError if that is impossible here."""
        if self.image is None:
            raise UnavailableError(f"{item.name} is fetched in an image", "leave out the arm host, or give --image")
        digests = tuple((prepared.name, prepared.digest) for prepared in earlier)
        origin = (item.name, item.fetch, self.image.digest, digests, self.scenario.env, self.scenario.user)

        def make(scratch: Path) -> Path:
            self.tell(f"fetching {item.name} of {self.scenario.label} (once; most need the network)")
            try:
                return self._run(item, earlier, scratch)
            except KitError as error:
                raise UnavailableError(
                    f"{item.name} of {self.scenario.label} can't be fetched: {error.message}",
                    f"connect to a network, or give another source: see kit scenarios {self.scenario.name}; "
                    f"full log: {self.log}",
                ) from None

        return InputCache(self.cache, self.tell, shared=True).get(item, origin, make)

    def _run(self, item: Input, earlier: Sequence[PreparedInput], scratch: Path) -> Path:
        inputs = scratch / "inputs"
        _network_files(inputs / "network")
        show_inputs(earlier, inputs)
        with self._sandbox(scratch, inputs) as (sandbox, tree):
            workload = Workload(replace(self.scenario, prepare=item.fetch), self.image, tuple(earlier))
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as output:
                sandbox.run(["cp", "-a", "--no-preserve=ownership", f"{sandbox.inputs}/network/.", "/"], ".", output)
            deadline = run_deadline(time.monotonic(), self.timeout, None, 0.0)
            filled = workload.fill(replace(sandbox, env={**sandbox.env, **_variables()}, deadline=deadline))
            error = workload.prepare(filled, self.log)
            cut_middle(self.log)
            if error:
                raise UnavailableError(error)
            return take_fetched(tree() / item.name, scratch / "fetched")

    @contextmanager
    def _sandbox(self, scratch: Path, inputs: Path) -> Iterator[tuple[Sandbox, Callable[[], Path]]]:
        """Yield a bare sandbox on the cache's own disk, and the path of its tree."""
        run, cgroup = self.setting.run / "fetch", f"{self.setting.cgroup}/fetch"
        setting = replace(self.setting, run=run, cgroup=cgroup, network=None)
        setting.run.mkdir(exist_ok=True)
        options = BackingOptions(directory=scratch)
        arm = Arm("bare", filesystem="dir")
        with Provision(ProvisionSpec(setting, self.host, options, self.image, inputs)) as provision:
            blocked = provision.ready(arm)
            if blocked:
                raise UnavailableError(blocked.reason, blocked.fix)
            with provision.sandbox(arm) as sandbox:
                # By its name in the scratch directory: a rename from one mount to another fails.
                yield sandbox, lambda: sandbox.backing.outside(next(sandbox.backing.path.glob("tree-*")))


def take_fetched(made: Path, target: Path) -> Path:
    """Rename the directory that an input's commands left; a symlink does not count. Raises UnavailableError."""
    with suppress(FileNotFoundError):
        made.rename(target)  # on one filesystem; running commands can't change it after the check
    if target.is_symlink() or not target.is_dir():
        raise UnavailableError(f"its commands left no directory {made.name}", "fix the scenario's fetch")
    return target


def _network_files(target: Path) -> None:
    home = os.environ.get("HOME", "/root")
    for name in _CONFIGURATION:
        source = Path(name.replace("~", home))
        if source.exists():
            copy = target / name.replace("~", "root").lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            run(["cp", "-RL", source, copy])


def _variables() -> dict[str, str]:
    proxies = {key: value for key, value in environment().items() if key.lower().endswith("_proxy")}
    if Path(_CERTIFICATES).exists():
        proxies |= dict.fromkeys(_CERTIFICATE_VARIABLES, _CERTIFICATES)
    return proxies


def show_inputs(items: Sequence[PreparedInput], directory: Path) -> None:
    """Put the inputs that a scenario unpacks or reads itself into its directory: hard links into the cache."""
    directory.mkdir(parents=True, exist_ok=True)
    for prepared in items:
        if prepared.into == "inputs":
            os.link(prepared.path, directory / f"{prepared.name}.tar.zst")
        elif prepared.into == "directory":
            run(["cp", "-al", prepared.path, directory / prepared.name], what=f"showing {prepared.name}")


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
    folders = {
        str(number): _inputs(scenario, image, context, lease, prepared) for number, scenario in enumerate(scenarios, 1)
    }
    return {"": folders["1"]} if len(set(folders.values())) == 1 else folders


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
    available: list[PreparedInput] = []
    for needed_input in scenario.inputs:
        if needed_input.source:
            if needed_input not in prepared:
                prepared[needed_input] = prepare_input(needed_input, cache, tell, timeout)
            available.append(prepared[needed_input])
        elif needed_input.fetch:
            available.append(fetcher.fetch(needed_input, available))
    return tuple(available)


@contextmanager
def shown(folders: Folders, lease: MachineLease, name: str) -> Iterator[Path | None]:
    """Yield a directory with the inputs that a scenario unpacks or reads itself; None if it has no such inputs."""
    if all(prepared.into == "tree" for inputs in folders.values() for prepared in inputs):
        yield None
        return
    directory = lease.paths.cache / "inputs" / f"{name}-{lease.setting.session}"
    with lease.setting.journal.directory(directory, 0o755):  # users of scenarios read them
        for folder, inputs in folders.items():
            show_inputs(inputs, directory / folder)
        yield directory


def bind_workloads(
    scenarios: Mapping[str, Scenario], image: Image | None, folders: Folders, directory: Path | None
) -> dict[str, Workload]:
    """Return the workload of each point of a sweep. ``directory``: the result of ``shown``."""
    workloads = {}
    for number, (point, scenario) in enumerate(scenarios.items(), 1):
        folder = "" if "" in folders else str(number)
        workloads[point] = Workload(scenario, image, folders[folder], folder, directory)
    return workloads


def named_image(name: str, cache: ImageCache, observer: EventSink, force: bool = False) -> Image:
    """Return a bundled recipe, a file on disk (the tarball of a root filesystem, or an image with layers), or a
    registry reference."""
    from kit.arms.engines.pull import from_registry

    check_image_name(name)
    if name in recipes():
        return cache.from_recipe(name, force, observer.tell)
    image_file = find_image_file(name)
    if image_file:
        path, inside = image_file
        if has_layers(path):
            return from_image_file(path, inside, cache)
        if inside:
            raise UsageError(f"{path} is a root filesystem without the image '{inside}'", f"use --image {path}")
        return cache.from_tarball(path)
    return from_registry(name, cache, observer.tell)
