"""The arms of the engine suite, and which of its tests is run on which of them.

The first test is run on every arm. Each other is run on few, which together have every engine, driver, placement,
filesystem and option: pairs of a test and what arms are made of, instead of every test on every arm.
"""

from collections.abc import Sequence
from typing import Any

from kit.model.arm import parse_arm
from tests.engine_suite import EngineSuite

ARMS = (
    "bare", "bare@xfs", "bare@btrfs", "bare@tmpfs", "bare@ext2", "bare@ext3", "bare@dir", "host", "runtime",
    "bind:overlay2", "volume:overlay2", "layer:overlay2", "tmpfs:overlay2", "layer:overlay2@xfs", "layer:btrfs",
    "layer:vfs", "layer:fuse-overlayfs", "layer:overlay2+seccomp=unconfined+cpus=2+memory=1g", "runtime@btrfs",
    "bare+control", "runtime+cgroup=none+seccomp=unconfined", "layer:overlay2+cgroup=none",
    "union:overlay", "union:overlay@xfs+metacopy=on+redirect_dir=on+volatile", "union:unionfs-fuse",
    "layer:podman/overlay", "bind:podman/vfs", "layer:podman/btrfs", "layer:podman/fuse-overlayfs",
    "layer:docker@26.1/overlay2", "runtime:docker@26.1/overlay2", "layer:docker@26.1/overlayfs",
    "bind:docker@26.1/native",
    "layer:containerd/overlayfs", "bind:containerd/native", "runtime:containerd/overlayfs+cgroup=none",
    "layer:containerd/btrfs", "layer:containerd@1.7/blockfile", "tmpfs:containerd/overlayfs+cpus=2+memory=1g",
    "build:overlay2", "build:overlay2+buildkit+mount=cache", "build:buildah/overlay+cache=changed", "build:podman/vfs",
    "layer:docker/overlay2/podman/vfs", "layer:docker/overlay2/podman/fuse-overlayfs",
    "layer:docker/overlay2/docker/overlay2+data-root=volume", "layer:docker/overlay2/docker/vfs",
    "layer:overlay2+runtime=runsc", "bind:podman/overlay+runtime=crun", "runtime:containerd/overlayfs+runtime=runsc",
    "layer:overlay2+userns=remap", "layer:overlay2+userns=rootless", "layer:podman/overlay+userns=auto",
    "bind:podman/overlay+userns=rootless",
)  # fmt: skip
TESTS = tuple(name for name in vars(EngineSuite) if name.startswith("test_"))


def traits(text: str) -> tuple[str, ...]:
    """What an arm is made of."""
    arm = parse_arm(text)
    kinds = {"engine": arm.engine, "driver": arm.driver, "placement": arm.placement, "filesystem": arm.filesystem}
    return (*(f"{kind} {name}" for kind, name in kinds.items()), *(f"+{name}" for name, _ in arm.options))


def arms_of(test: str) -> Sequence[str]:
    """Those that one of TESTS is run on. Each begins with another trait, and so meets others where several would do; it
    takes of the arms that have a trait one with most of what is lacking."""
    number = TESTS.index(test)
    if number == 0:
        return ARMS
    every = list(dict.fromkeys(trait for arm in ARMS for trait in traits(arm)))
    start = number * len(every) // len(TESTS)
    lacking = dict.fromkeys([*every[start:], *every[:start]])
    chosen = []
    while lacking:
        able = [arm for arm in ARMS if next(iter(lacking)) in traits(arm)]
        chosen.append(max(able, key=lambda arm: len(lacking.keys() & set(traits(arm)))))
        for trait in traits(chosen[-1]):
            lacking.pop(trait, None)
    return [arm for arm in ARMS if arm in chosen]


def reporting(document: dict[str, Any], figure: str) -> set[str]:
    """Return the arms that report a figure, of a session as JSON."""
    return {item["arm"] for item in document["samples"] for each in item["reported"] if each["name"] == figure}
