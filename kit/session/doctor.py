"""Tests which features work on this machine, by mounting, starting and running them, and lists the fixes for the
rest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kit.arms.engines import Sandbox
from kit.arms.engines.installed import CONFIGURATION, installed_docker
from kit.arms.engines.oci_runtime import oci_runtime
from kit.arms.engines.root import root_name, versions
from kit.arms.filesystem import bundled
from kit.arms.image import ImageCache
from kit.arms.probe import probe_binary
from kit.core.errors import BusyError, KitError, MachineError
from kit.core.paths import Paths
from kit.extensions import EXTRAS
from kit.host.assumptions import ASSUMPTIONS, Unmet
from kit.host.cgroup.cgroup import machine_cpu
from kit.host.cgroup.counters import machine_energy, pressure, read_counters
from kit.host.command import require
from kit.host.machine import Host, read_host
from kit.host.setting import SETTINGS, read_settings
from kit.model.arm import CONTAINED, PLAIN, Arm, parse_arm
from kit.model.default import DEFAULT_ENGINE
from kit.model.drivers import DRIVERS, IMAGE_STORE, UNION, Docker, default_placement, drivers
from kit.model.event import EventSink
from kit.session.execute.session_loop import held_machine
from kit.session.setup.caches import DROP_CACHES
from kit.session.setup.provision import Provision
from kit.session.trial import Diagnosis, ran_on, refused, run_probe, trial_provision, try_arm, unbuilt

_TOOLS = ("dockerd", "containerd", "mmdebstrap", "tar", "zstd", "xz", "setpriv", "unshare")


def examine(paths: Paths, observer: EventSink, wait: bool = False) -> Iterator[Diagnosis]:
    """Test everything, one diagnosis at a time. What fails is a diagnosis, too: the page always has its end. Raises
    BusyError while a session holds the machine."""
    host = read_host()
    yield from guarded("tool", _tools())
    yield from guarded("tool", _probe(paths.cache))
    yield from guarded("machine", settings())
    for kind in dict.fromkeys(assumption.kind for assumption in ASSUMPTIONS):
        yield from guarded(kind, assumptions(paths, kind))
    yield from guarded("session", _in_session(paths, host, observer, wait))
    yield from guarded("measuring", _machine_figures())
    for extra in EXTRAS:
        for kind, check in extra.checks:
            yield from guarded(kind, extra.load(check)(paths, host))


def guarded(kind: str, diagnoses: Iterator[Diagnosis]) -> Iterator[Diagnosis]:
    """Return the diagnoses of one section, and why it ends early if it does. Raises BusyError."""
    try:
        yield from diagnoses
    except BusyError:
        raise
    except Exception as error:  # also what nobody has foreseen: half a page helps nobody
        yield refused(kind, "the rest", error)


def _in_session(paths: Paths, host: Host, observer: EventSink, wait: bool) -> Iterator[Diagnosis]:
    """Return what is tried while the machine is held."""
    with held_machine("doctor", paths, wait, observer) as lease, trial_provision(lease, host) as provision:
        docker = installed_docker()
        yield from guarded("filesystem", _filesystems(provision))
        yield from guarded("driver", _drivers(provision, docker))
        yield from guarded("engine root", _in_roots(provision, paths))
        yield from guarded("placement", _placements(provision, docker, host))
        yield from guarded("engine", _engines(provision, docker))
        for extra in EXTRAS:
            for kind, check in extra.held_checks:
                yield from guarded(kind, extra.load(check)(lease))
        yield from guarded("measuring", _arm_figures(provision, docker))


def _filesystems(provision: Provision) -> Iterator[Diagnosis]:
    for name in bundled():
        arm = parse_arm(f"host@{name}")
        yield try_arm(provision, arm, "filesystem", name, lambda sandbox: _describe_backing(sandbox))


def _drivers(provision: Provision, docker: Docker) -> Iterator[Diagnosis]:
    for kind, name, arm in driver_arms(docker):
        yield try_arm(provision, arm, kind, name, _container_ran_on if arm.engine == "docker" else ran_on)


def _placements(provision: Provision, docker: Docker, host: Host) -> Iterator[Diagnosis]:
    for placement in (*PLAIN, *CONTAINED):
        text = placement if placement in PLAIN else f"{placement}:{docker.driver}"
        arm = _here(text, host)
        yield try_arm(provision, arm, "placement", placement, lambda sandbox: "a command ran in it")


def _engines(provision: Provision, docker: Docker) -> Iterator[Diagnosis]:
    if docker.version:
        yield Diagnosis("engine", "docker", True, default_words(docker))
    yield _system(provision)


def _here(text: str, host: Host) -> Arm:
    """Without root no filesystem can be made: host then uses a directory."""
    arm = parse_arm(text)
    return arm if host.root or arm.placement != "host" else arm.on("dir")


def _tools() -> Iterator[Diagnosis]:
    for tool in (*_TOOLS, oci_runtime()):
        try:
            yield Diagnosis("tool", tool, True, require(tool))
        except MachineError as error:
            yield refused("tool", tool, error)


def _probe(cache: Path) -> Iterator[Diagnosis]:
    """Only a kit that brought no probe along needs a compiler."""
    try:
        yield Diagnosis("tool", "probe", True, str(probe_binary(cache)))
    except KitError as error:
        yield refused("tool", "probe", error)


def settings(root: Path = Path("/")) -> Iterator[Diagnosis]:
    """Return each setting of this machine that figures depend on: one line, also where it is in several places."""
    readings = list(read_settings(root))
    for setting in SETTINGS:
        same_setting = [reading for reading in readings if reading.setting == setting]
        noisy = [reading for reading in same_setting if reading.noisy]
        values = ", ".join(sorted({reading.label for reading in noisy or same_setting}))
        if noisy:
            fix = setting.fix([reading.place for reading in noisy])
            yield Diagnosis("machine", setting.name, False, f"{values}: {setting.why}", fix)
        elif same_setting:
            yield Diagnosis("machine", setting.name, True, values)


def assumptions(paths: Paths, kind: str) -> Iterator[Diagnosis]:
    """Return whether each assumption of this kind holds here. In a machine's own namespaces none of a container's is
    listed."""
    for assumption in ASSUMPTIONS:
        if assumption.kind == kind:
            try:
                answer = assumption.probe(paths)
            except (KitError, OSError) as error:
                yield refused(kind, assumption.name, error)
                continue
            if isinstance(answer, Unmet):
                yield Diagnosis(kind, assumption.name, False, answer.reason, answer.fix)
            elif kind != "container":
                yield Diagnosis(kind, assumption.name, True, answer)


def _describe_backing(sandbox: Sandbox) -> str:
    return f"made, mounted and synced: {sandbox.backing.kind}"


def driver_arms(docker: Docker) -> Iterator[tuple[str, str, Arm]]:
    """Return the tests of every driver on this machine's own engines, and of unions without an engine: kind, name and
    arm."""
    for engine in DRIVERS:
        for name in docker.drivers if engine == DEFAULT_ENGINE else [driver.name for driver in drivers(engine)]:
            if engine == UNION:
                yield "union", name, parse_arm(f"{UNION}:{name}")
                continue
            arm = parse_arm(f"{default_placement(engine)}:{engine}/{name}")
            rootless = engine == "podman" and os.geteuid() != 0
            yield "driver", f"{engine}/{name}", arm.on("dir") if rootless else arm


def default_words(docker: Docker) -> str:
    """Return in words what a Docker uses by default."""
    if docker.keeps:
        return f"version {docker.version}; it keeps its graph driver {docker.kept}, which has data in its data-root"
    store = f"{docker.driver}, in containerd's image store" if docker.driver == IMAGE_STORE else docker.driver
    why = "" if docker.configured is None else f" (set in {CONFIGURATION})"
    return f"version {docker.version}; its default driver is {store}{why}"


def _in_roots(provision: Provision, paths: Paths) -> Iterator[Diagnosis]:
    """Return the tests of other engine versions whose roots are built."""
    built = {image.name for image in ImageCache(paths.cache).list()}
    for engine, engine_drivers in DRIVERS.items():
        tried = [driver.name for driver in engine_drivers if driver.tried_in_roots]
        for version in versions(engine) if tried else ():
            recipe = root_name(engine, version)
            if recipe not in built:
                yield unbuilt("engine root", f"{engine}@{version}", recipe)
                continue
            for driver in tried:
                name = f"{engine}@{version}/{driver}"
                yield try_arm(provision, parse_arm(f"layer:{name}"), "engine root", name, ran_on)


def _container_ran_on(sandbox: Sandbox) -> str:
    return f"a container ran on {sandbox.backing.type}"


def _system(provision: Provision) -> Diagnosis:
    from kit.arms.engines.system import running_driver

    try:
        driver = running_driver()
    except KitError as error:
        return refused("engine", "system", error)
    arm = parse_arm(f"bind:system/{driver}")
    return try_arm(provision, arm, "engine", "system", lambda sandbox: f"it uses {driver}")


def _arm_figures(provision: Provision, docker: Docker) -> Iterator[Diagnosis]:
    """Return, for the figures of an arm, whether this kernel provides them."""
    layer = parse_arm(f"layer:{docker.driver}")
    arm = layer if provision.ready(layer) is None else parse_arm("host@dir")
    if provision.ready(arm) is None:
        with provision.sandbox(arm) as sandbox:
            run_probe(sandbox)
            counters = read_counters(sandbox.cgroup, sandbox.backing.device)
            group = "counted for the arm's cgroup"
            yield _figure(
                "cgroup CPU", counters.cgroup_user is not None, group, "not counted", "run as root; mount cgroup2"
            )
            yield _figure(
                "device I/O", counters.read_bytes is not None, f"block device {sandbox.backing.device}",
                "the backing filesystem has no block device", "use a loop image or --device",
            )  # fmt: skip


def _machine_figures() -> Iterator[Diagnosis]:
    """Return the same for figures of the whole machine."""
    source = machine_cpu()[1]
    exact = "exact" if source != "/proc/stat" else "counted in ticks of 10 ms"
    yield Diagnosis("measuring", "outside CPU", True, f"machine CPU from {source}, {exact}")
    energy = machine_energy()
    if energy.source:
        yield _figure(
            "energy", not energy.reason, f"counted for {energy.source}", energy.reason, "run as root: sudo kit …"
        )
    missing = "no /proc/pressure"
    yield _figure("pressure", pressure("cpu") is not None, "/proc/pressure", missing, "boot with psi=1")
    yield _figure(
        "cold caches", os.access(DROP_CACHES, os.W_OK), "caches can be dropped", "not permitted", "run as root"
    )


def _figure(name: str, works: bool, good: str, bad: str, fix: str) -> Diagnosis:
    return Diagnosis("measuring", name, works, good if works else bad, "" if works else fix)
