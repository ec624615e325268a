"""Fetches the inputs that a scenario downloads itself: once for each machine, in its image, with this machine's
network."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.deadline import run_deadline
from kit.core.errors import KitError, UnavailableError
from kit.engines import EngineConfig, Sandbox
from kit.filesystem import BackingOptions
from kit.host.command import environment, run
from kit.host.machine import Host
from kit.image import Image
from kit.model.arm import Arm
from kit.model.scenario import Input, Scenario
from kit.session.inputs.input_cache import InputCache, PreparedInput
from kit.session.measure.phase_log import cut_middle
from kit.session.measure.workload import Workload
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
