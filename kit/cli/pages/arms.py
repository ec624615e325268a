"""What an arm can be: its parts, with each driver, option and filesystem."""

from __future__ import annotations

import textwrap

from kit.arms.filesystem import bundled
from kit.model.arm import OCI_RUNTIMES
from kit.model.drivers import (
    BUILDERS,
    DRIVERS,
    IMAGE_STORE,
    IMAGE_STORE_DEFAULT_SINCE,
    IMAGE_STORE_SINCE,
    UNION,
    Options,
    arm_words,
    drivers,
    graph_drivers,
)

_WIDTH = 100

_ARMS = """\
An arm is one way to run the build: a placement, a driver, a backing filesystem, and options.

  bare[@FS]            chroot into the image, unpacked in a plain directory: the baseline
  runtime[@FS]         that directory entered as a container, without a storage driver
  bind:DRIVER[@FS]     root filesystem from the driver, build tree on a bind mount
  volume:DRIVER[@FS]   … build tree on a volume
  layer:DRIVER[@FS]    … build tree in the container's writable layer
  tmpfs:DRIVER[@FS]    … build tree on a tmpfs
  build:DRIVER[@FS]    each phase is a RUN step of an image build; also {builders}
  union:UNION[@FS]     a union of plain directories, no engine: {unions}
  host[@FS]            the host's own toolchain, no chroot
  options: +seccomp=unconfined +cgroup=none +cpus=N +memory=SIZE +nosync (not of build); +control: a copy
    +command=NAME, +rev=NAME: one of several --command, --source-rev; without it each of them
  options of engines: +runtime={runtimes} (the OCI runtime of Docker, Podman, containerd)
    +userns=remap|rootless (Docker) +userns=auto|rootless (Podman): users of the container are others outside
  options of build: +cache=warm +cache=changed (rebuilds) +mount=cache (a cache mount)
    +buildkit (Docker's BuildKit, not its classic builder)
  an engine in a container of another one: layer:docker/overlay2/podman/vfs;
    +data-root=volume (its data on a volume of the outer container)

{drivers}
{filesystems}

kit doctor tries which of them work on this machine."""


def arms() -> str:
    """Return what an arm can be, with each driver, option and filesystem."""
    return _ARMS.format(
        unions=unions(),
        runtimes="|".join(OCI_RUNTIMES),
        builders=", ".join(f"{name}/DRIVER" for name in BUILDERS[1:]),
        drivers=described(),
        filesystems=filesystems(),
    )


def filesystems() -> str:
    return _wrapped(f"filesystems (FS): {' '.join(bundled())}, and those of --fs-file", "  ")


def unions() -> str:
    return ", ".join(driver.name for driver in drivers(UNION))


def described() -> str:
    """Return the lines that name every engine's drivers, and the options of some."""
    listed = " ".join(driver.name for driver in graph_drivers() if driver.listed)
    engines = (
        f"docker@29/{IMAGE_STORE} (that version, in a root of its own), {_named('podman')}, "
        f"system/DRIVER (the Docker that is running), {_named('containerd')} (containerd by itself)"
    )
    store = (
        f"{IMAGE_STORE} (containerd's image store, Docker {IMAGE_STORE_SINCE} or later; "
        f"its default since {IMAGE_STORE_DEFAULT_SINCE})"
    )
    lines = [_wrapped(f"drivers: {listed}; {store}; with an engine before them:", "  "), _wrapped(engines, "    ")]
    return "\n".join([*lines, _wrapped("; ".join(_options()), "  ")])


def _named(engine: str) -> str:
    """Return an engine's drivers; a driver that some versions lack is listed with a version that has it."""
    listed = [driver for driver in drivers(engine) if driver.listed]
    everywhere = " ".join(f"{engine}/{driver.name}" for driver in listed if not driver.root)
    return ", ".join([everywhere, *(f"{engine}@{driver.root}/{driver.name}" for driver in listed if driver.root)])


def _options() -> list[str]:
    """Return the options and their drivers."""
    arms: dict[str, list[str]] = {}
    listed: dict[str, Options] = {}
    for engine in (UNION, *(engine for engine in DRIVERS if engine != UNION)):
        for driver in drivers(engine):
            for options in (driver.features, driver.options):
                if options.shown:
                    listed[options.shown] = options
                    words = f"{UNION}:{driver.name}" if engine == UNION else arm_words(engine, driver.name)
                    arms.setdefault(options.shown, []).append(words)
    return [
        f"of {options.of}{', on ' if options.of else ''}{', '.join(arms[text])}: {text}"
        for text, options in listed.items()
    ]


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=indent, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
    )
