"""Arms: the ways to run a scenario. Parses and prints the grammar; does not know what is installed.

bare[@FS][+OPTION…]    host[@FS]    runtime[@FS]
PLACEMENT:[ENGINE/]DRIVER[@FS][+OPTION…]
PLACEMENT:ENGINE/DRIVER/ENGINE/DRIVER[@FS][+OPTION…]
build:[BUILDER/]DRIVER[@FS][+OPTION…]
union:UNION[@FS][+FEATURE…]"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kit.core.errors import UsageError
from kit.core.quantity import NAME
from kit.model.default import DEFAULT_ENGINE
from kit.model.default_driver import GRAPH_DRIVER, Docker, default_driver
from kit.model.driver import Driver
from kit.model.drivers import BUILD_ONLY, BUILDERS, ENGINES, SYSTEM, UNION, VERSIONED, arm_words, drivers, find_driver

#: Placements that need no container, in the order of the ladder; the first two are baselines of those that do.
PLAIN, UNCONTAINED = ("bare", "host"), ("bare", "host", "union")
#: The placement in which each phase is a step of an image build.
BUILD = "build"
#: Placements in a container, in the order of the ladder.
CONTAINED = ("runtime", "bind", "volume", "layer", "tmpfs", BUILD)
PLACEMENTS = UNCONTAINED + CONTAINED

DEFAULT_FILESYSTEM = "ext4"
#: The option that names the OCI runtime, and those that it names; a nested engine's containers have the engine's own.
RUNTIME, OCI_RUNTIMES = "runtime", ("runc", "crun", "runsc")
#: Options for what an arm runs where a session compares several: commands, and revisions of the sources.
COMMAND, REVISION = "command", "rev"
VARIANTS = dict.fromkeys((COMMAND, REVISION), re.compile(NAME))
#: Options of a containerised arm and the form of their values.
OPTIONS = {
    **VARIANTS,
    "seccomp": re.compile(r"default|unconfined"),
    "cpus": re.compile(r"[1-9][0-9]{0,3}(\.[0-9]{1,2})?|0\.(0[1-9]|[1-9][0-9]?)"),
    "memory": re.compile(r"[1-9][0-9]{0,11}[kmg]?"),
    "cgroup": re.compile(r"none"),
    "nosync": re.compile(r""),
    RUNTIME: re.compile("|".join(OCI_RUNTIMES)),
    "control": re.compile(r""),
}
#: Options of a build arm: what the build cache holds before a run, and a cache mount for the build tree.
BUILD_OPTIONS = {
    **VARIANTS,
    "cache": re.compile(r"warm|changed"),
    "mount": re.compile(r"cache"),
    "control": re.compile(r""),
}
#: The option of Docker's build arms that asks for the daemon's BuildKit instead of its classic builder.
BUILDKIT = "buildkit"
BUILDKIT_OPTION = {BUILDKIT: re.compile(r"")}
#: Placements in a nested engine, and engines that nest. Its option: where the inner engine's data lie in the outer
#: container, if not in its writable layer.
NESTED_PLACEMENTS = ("bind", "volume", "layer", "tmpfs")
NESTING = ("docker", "podman", "containerd")
DATA_ROOT = "data-root"
NESTED_OPTIONS = {DATA_ROOT: re.compile(r"volume")}
#: Most arms of one session; each runs in every round.
MOST_ARMS = 100
#: The option for a second, identical copy of the arm, which shows the noise; and the one for programs that do not wait
#: for the disk. No other options need a container.
CONTROL, NOSYNC = "control", "nosync"
#: The option for a user namespace, and its values of each engine, in the words of their documentation: Docker's
#: userns-remap, Podman's --userns=auto, and the engine run by an ordinary user.
USERNS, ROOTLESS = "userns", "rootless"
_USERNS = {"docker": re.compile(f"remap|{ROOTLESS}"), "podman": re.compile(f"auto|{ROOTLESS}")}

#: The engine whose containers all have the runtime of their daemon: Podman ignores what Docker's API requests.
_ONE_RUNTIME = "podman"

_GRAMMAR = re.compile(
    r"(?P<placement>[a-z]+)"
    r"(?::(?:(?:(?P<outer>[\w.@-]+/[\w-]+)/)?(?P<engine>[\w.@-]+)/)?(?P<driver>[\w-]+))?"
    r"(?:@(?P<filesystem>[\w-]+))?"
    r"(?P<options>(?:\+[\w-]+(?:=[^+,]*)?)*)",
    re.ASCII,
)


@dataclass(frozen=True, order=True)
class Arm:
    """One way to run a scenario. ``str(arm)`` prints it in the grammar, defaults left out. ``outer``: of a nested
    engine, ENGINE/DRIVER of the container that it runs in."""

    placement: str
    engine: str = ""
    driver: str = ""
    filesystem: str = DEFAULT_FILESYSTEM
    options: tuple[tuple[str, str], ...] = ()
    outer: str = ""

    @property
    def contained(self) -> bool:
        return self.placement in CONTAINED

    @property
    def plain_root(self) -> bool:
        """Return whether the root filesystem is a plain directory: no driver is used."""
        return self.placement in ("bare", "runtime")

    @property
    def own_filesystem(self) -> bool:
        """Return whether the container's root is a filesystem of its own above the backing one."""
        return driver_of(self).own_filesystem and not self.plain_root

    @property
    def outside(self) -> Arm:
        """Return the arm of the outer container: in its build tree lie the inner engine's data."""
        engine, _, driver = self.outer.rpartition("/")
        return Arm(self.option(DATA_ROOT, "layer"), engine, driver, self.filesystem)

    @property
    def inside(self) -> Arm:
        """Return the arm as the inner engine runs it."""
        return replace(self.without(DATA_ROOT), outer="")

    @property
    def parts(self) -> tuple[Arm, ...]:
        """Return the arms whose engines it uses: the outer container's first; without one itself alone."""
        return (self.outside, self.inside) if self.outer else (self,)

    def option(self, name: str, default: str = "") -> str:
        return dict(self.options).get(name, default)

    def on(self, filesystem: str) -> Arm:
        return replace(self, filesystem=filesystem)

    @property
    def control(self) -> bool:
        """Return whether this is a copy identical to another arm, so that every difference between the two is noise."""
        return (CONTROL, "") in self.options

    @property
    def nosync(self) -> bool:
        """Return whether its programs do not wait until data are on the disk."""
        return (NOSYNC, "") in self.options

    def copy(self) -> Arm:
        """Return the control of this arm."""
        return replace(self, options=tuple(sorted({*self.options, (CONTROL, "")})))

    @property
    def rebuild(self) -> bool:
        """Return whether it builds an image again, with the cache of an earlier build."""
        return self.placement == BUILD and bool(self.option("cache"))

    @property
    def buildkit(self) -> bool:
        """Return whether Docker's BuildKit builds, not its classic builder."""
        return (BUILDKIT, "") in self.options

    @property
    def rootless(self) -> bool:
        """Return whether an unprivileged user runs its engine, though root runs the kit."""
        return self.option(USERNS) == ROOTLESS

    @property
    def features(self) -> tuple[tuple[str, str], ...]:
        """Return the features that it requests of its driver."""
        return tuple(option for option in self.options if option[0] in driver_of(self).features.known)

    @property
    def feature_words(self) -> tuple[str, ...]:
        """Return the same as mount options."""
        return tuple(f"{key}={value}" if value else key for key, value in self.features)

    @property
    def daemon(self) -> tuple[str, ...]:
        """Return what arms must share to use one daemon: the driver, and its settings."""
        return (
            self.driver,
            *self.feature_words,
            *(key for key, _ in self.options if key in driver_of(self).options.known),
            *(f"{USERNS}={self.option(USERNS)}" for key, _ in self.options if key == USERNS),
            *(self._runtime if self.engine.partition("@")[0] == _ONE_RUNTIME else ()),
            *((str(self),) if self.placement == BUILD else ()),  # its build cache is its own
            *((self.engine, self.outer, self.option(DATA_ROOT)) if self.outer else ()),
        )

    @property
    def _runtime(self) -> tuple[str, ...]:
        """Return the words for the program that starts its container; none for the engine's own."""
        runtime = f"{RUNTIME}={self.option(RUNTIME)}" if self.option(RUNTIME) else ""
        return tuple(filter(None, (runtime, "plain" if self.plain_root else "")))

    def without(self, *options: str) -> Arm:
        """Return the same arm without these options."""
        return replace(self, options=tuple(option for option in self.options if option[0] not in options))

    def __str__(self) -> str:
        text = self.placement
        if self.driver:
            engine = "" if self.engine in ("", DEFAULT_ENGINE) and not self.outer else f"{self.engine}/"
            text += f":{self.outer}{'/' if self.outer else ''}{engine}{self.driver}"
        if self.filesystem != default_filesystem(self.engine, self.driver, self.outer):
            text += f"@{self.filesystem}"
        return text + "".join(f"+{key}={value}" if value else f"+{key}" for key, value in self.options)


def default_filesystem(engine: str, driver: str, outer: str = "") -> str:
    """Return the backing filesystem that a driver needs; without one, that of the ``outer`` ENGINE/DRIVER."""
    if engine == SYSTEM:
        return "dir"
    around, _, other = outer.rpartition("/")
    candidates = (find_driver(engine, driver), find_driver(around, other))
    return next((record.filesystem for record in candidates if record and record.filesystem), DEFAULT_FILESYSTEM)


_NONE = Driver("")


def driver_of(arm: Arm) -> Driver:
    """Return its driver's record; for an arm without a driver a record without a name."""
    return find_driver(UNION if arm.placement == UNION else arm.engine, arm.driver) or _NONE


def engines_of(arms: Sequence[Arm]) -> tuple[str, ...]:
    """Return the engines that arms use, outer ones too; '' for arms without one."""
    return tuple(part.engine for arm in arms for part in arm.parts)


def fix_of(arm: Arm, on: str = "") -> str:
    """Return the fix if the engine does not start with its driver; '' without one. ``on``: the type of the intended
    filesystem."""
    return driver_of(arm).mend(arm_words(arm.engine, arm.driver), on)


def _choose(kind: str, value: str, choices: tuple[str, ...], text: str) -> str:
    if value not in choices:
        raise UsageError(f"arm '{text}': unknown {kind} '{value}'", f"use one of: {', '.join(choices)}")
    return value


def _parse_options(text: str, whole: str, patterns: Mapping[str, re.Pattern[str]]) -> tuple[tuple[str, str], ...]:
    options: dict[str, str] = {}
    for option in text.split("+")[1:]:
        key, _, value = option.partition("=")
        _choose("option", key, tuple(patterns), whole)
        if not patterns[key].fullmatch(value):
            raise UsageError(
                f"arm '{whole}': option {key}={value!r} is not valid",
                f"use a value that matches {patterns[key].pattern}" if patterns[key].pattern else "leave out the value",
            )
        if key in options:
            raise UsageError(f"arm '{whole}': option {key} given twice", "give it once")
        options[key] = value
    return tuple(sorted(options.items()))


def parse_arm(text: str, engine: str = DEFAULT_ENGINE) -> Arm:
    """Return one arm; ``engine`` is the default if the text names none. Raises UsageError."""
    match = _GRAMMAR.fullmatch(text.strip())
    if not match:
        raise UsageError(
            f"arm '{text}' is not understood",
            "write bare[@FS] or PLACEMENT:[ENGINE/]DRIVER[@FS][+OPTION=VALUE], for example layer:overlay2@xfs; "
            "see kit help arms",
        )
    placement = _choose("placement", match["placement"], PLACEMENTS, text)
    if placement == "union":
        return _parse_union(match, text)
    if placement in UNCONTAINED:
        options = _parse_options(match["options"], text, OPTIONS)
        if match["driver"]:
            raise UsageError(
                f"arm '{text}': {placement} runs in no container and takes no driver", f"write {placement}"
            )
        allowed = {(CONTROL, "")} | ({(NOSYNC, "")} if placement == "bare" else set())
        if {option for option in options if option[0] not in VARIANTS} - allowed:
            listed = " and ".join(f"+{key}" for key, _ in sorted(allowed, reverse=True))
            raise UsageError(
                f"arm '{text}': {placement} runs in no container and takes {listed} alone", "drop the other options"
            )
        filesystem = match["filesystem"] or default_filesystem(engine, "")
        return Arm(placement, "", "", filesystem, options)
    if not match["driver"] and placement != "runtime":
        raise UsageError(f"arm '{text}' names no driver", f"use for example {placement}:{GRAPH_DRIVER}")
    engine = match["engine"] or engine
    name, at, _ = engine.partition("@")
    known_engines = BUILDERS if placement == BUILD else ENGINES
    _choose("engine", name, known_engines if not at else VERSIONED, text)
    driver = match["driver"] or _runtime_driver(engine, match["filesystem"])
    driver_names = [record.name for record in drivers(engine)]
    _choose("driver", driver, tuple(driver_names), text)
    outer = _check_outer(match["outer"] or "", placement, name, text)
    filesystem = match["filesystem"] or default_filesystem(engine, driver, outer)
    if name in BUILD_ONLY and placement != BUILD:
        raise UsageError(f"arm '{text}': {name} only builds images", f"use {BUILD}:{engine}/{driver}")
    if placement == BUILD:
        return _build_arm(Arm(placement, engine, driver, filesystem), name, match["options"], text)
    return _container_arm(Arm(placement, engine, driver, filesystem, outer=outer), name, match["options"], text)


def _check_outer(outer: str, placement: str, inner: str, text: str) -> str:
    """Return ENGINE/DRIVER of the outer container, '' without one. Raises UsageError."""
    if outer:
        engine, _, driver = outer.rpartition("/")
        name = engine.partition("@")[0]
        _choose("outer engine", name, NESTING, text)
        _choose("inner engine", inner, NESTING, text)
        _choose("outer driver", driver, tuple(record.name for record in drivers(engine)), text)
        _choose("placement in a nested engine", placement, NESTED_PLACEMENTS, text)
    return outer


def _container_arm(arm: Arm, engine: str, options: str, text: str) -> Arm:
    allowed = {**OPTIONS, USERNS: _USERNS[engine]} if engine in _USERNS else OPTIONS
    if engine != SYSTEM:  # the kit does not set up the engine that is already running
        chosen = driver_of(arm)
        allowed = {**allowed, **chosen.features.known, **chosen.options.known}
    parsed = _parse_options(options, text, {**allowed, **(NESTED_OPTIONS if arm.outer else {})})
    for option in (RUNTIME, USERNS):
        if arm.outer and option in dict(parsed):
            raise UsageError(f"arm '{text}': a nested engine takes no +{option}", f"leave out +{option}")
    if arm.plain_root and USERNS in dict(parsed):
        raise UsageError(
            f"arm '{text}': runtime enters a directory of root's, which other users can't write to",
            f"use for example bind:{arm.driver}",
        )
    return replace(arm, options=parsed)


def _build_arm(arm: Arm, engine: str, options: str, text: str) -> Arm:
    patterns = {
        **BUILD_OPTIONS,
        **(BUILDKIT_OPTION if engine == DEFAULT_ENGINE else {}),
        **driver_of(arm).options.known,
    }
    parsed = _parse_options(options, text, patterns)
    if ("mount", "cache") in parsed and engine == DEFAULT_ENGINE and (BUILDKIT, "") not in parsed:
        raise UsageError(f"arm '{text}': Docker's classic builder has no cache mounts", f"add +{BUILDKIT}")
    return replace(arm, options=parsed)


def _parse_union(match: re.Match[str], text: str) -> Arm:
    unions = {union.name: union for union in drivers(UNION)}
    patterns = {key: value for union in unions.values() for key, value in union.features.known.items()}
    options = _parse_options(match["options"], text, {**OPTIONS, **patterns})
    driver = _choose("union", match["driver"] or "", tuple(unions), text)
    more = {key for key, _ in options} - {CONTROL, NOSYNC, *VARIANTS}
    if match["engine"] or more - set(unions[driver].features.known):
        raise UsageError(
            f"arm '{text}': a union has no engine, and features only with overlay",
            "use for example union:overlay+metacopy=on, or union:mergerfs",
        )
    return Arm("union", "", driver, match["filesystem"] or DEFAULT_FILESYSTEM, options)


def _across(text: str, filesystems: tuple[str, ...]) -> list[str]:
    if "@" in text or not filesystems:
        return [text]
    name, plus, options = text.partition("+")
    return [f"{name}@{filesystem}{plus}{options}" for filesystem in filesystems]


def _runtime_driver(engine: str, filesystem: str | None) -> str:
    """Return the driver of the daemon behind ``runtime``: its own on filesystems made for one, else the default. Of an
    unknown version, the one that all have."""
    own_driver = find_driver(engine, filesystem or "")
    return (
        own_driver.name
        if own_driver and not own_driver.image_store
        else default_driver(engine, Docker()) or GRAPH_DRIVER
    )


def known_arm(text: str, engine: str = DEFAULT_ENGINE) -> Arm | None:
    """Return the arm; None if the kit does not know it: imported arms may have any name."""
    try:
        return parse_arm(text, engine)
    except UsageError:
        return None


def spelled(text: str, engine: str = DEFAULT_ENGINE) -> str:
    """Return an arm's name as sessions have it, for a name as a user writes it: an imported arm's is as it is."""
    parsed = known_arm(text, engine)
    return str(parsed) if parsed else text.strip()


def arm_names(text: str, filesystems: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the arms of a comma-separated list, not parsed yet. Arms without a filesystem are put on each of
    ``filesystems``. Raises UsageError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) * max(len(filesystems), 1) > MOST_ARMS:
        raise UsageError(f"more than {MOST_ARMS} arms are named", "run several sessions with fewer")
    if not names:
        raise UsageError("no arm is named", "use for example --arms bare,layer:overlay2")
    return tuple(arm for name in names for arm in _across(name, filesystems))


def parse_arms(text: str, engine: str = DEFAULT_ENGINE, filesystems: tuple[str, ...] = ()) -> tuple[Arm, ...]:
    """Return the arms of a comma-separated list. Raises UsageError."""
    return arms_of(arm_names(text, filesystems), engine)


def arms_of(names: Sequence[str], engine: str = DEFAULT_ENGINE) -> tuple[Arm, ...]:
    """Return these arms parsed; a duplicate is an error, not two arms. Raises UsageError."""
    arms = [parse_arm(name, engine) for name in names]
    for arm in arms:
        if arms.count(arm) > 1:
            raise UsageError(f"arm '{arm}' is named twice", "name it once; use --rounds for more runs")
    return tuple(arms)
