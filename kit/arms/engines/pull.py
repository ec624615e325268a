"""Images of a registry: copied by skopeo, which needs neither root nor a daemon. The user's own Docker stays untouched,
with its images and names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path

from kit.arms.engines.installed import CONFIGURATION, read_configuration
from kit.arms.image import Image, ImageCache
from kit.arms.image.image_file import read_image_file
from kit.arms.image.peer_image import taken_or_built
from kit.core.errors import RunError
from kit.host import safe_fs
from kit.host.command import CommandError, require, run
from kit.host.interrupt import interruptible

#: Keys of the configuration of the machine's own Docker.
_KEYS = ("registry-mirrors", "insecure-registries")
_HUB = "docker.io"
_LOCAL = ("127.0.0.0/8", "::1/128")
#: Variables that name skopeo's own files: logins and registries.
_SKOPEO_FILES = ("REGISTRY_AUTH_FILE", "CONTAINERS_REGISTRIES_CONF")
#: Where skopeo looks for logins first if there is no XDG_RUNTIME_DIR. Root's Podman makes it, closed to all others.
_LOGINS = Path("/run/containers")
_MESSAGE = re.compile(r'msg="((?:[^"\\]|\\.)*)"')
_CHECK = "check the reference and the connection to the registry"


def from_registry(reference: str, cache: ImageCache, tell: Callable[[str], None]) -> Image:
    """Pull ``reference``; keep its layers and its flattened root filesystem. Raises RunError, MachineError."""
    if ":" not in reference.rpartition("/")[2] and "@" not in reference:
        reference += ":latest"

    def build(rootfs: Path, archive: Path) -> dict[str, str]:
        require("skopeo")
        with safe_fs.scratch(rootfs.parent) as scratch:
            tell(f"pulling {reference} with skopeo")
            return read_image_file(_copied(reference, scratch / "layout"), rootfs, archive)

    key = hashlib.sha256(reference.encode()).hexdigest()[:12]
    make = taken_or_built(f"pulled-{key}", reference, build, tell)
    return cache.make(f"pulled-{key}", reference, f"registry, {reference}", make)


def _copied(reference: str, layout: Path) -> Path:
    """Copy an image as OCI layout; return its directory. Raises RunError."""
    variables = {**skopeo_variables(layout.parent), "TMPDIR": str(layout.parent)}  # else /var/tmp, for layers
    errors = []
    for source, insecure in sources(reference, registries(CONFIGURATION)):
        words = ["skopeo", *_policy(), "copy", "--quiet", *(["--src-tls-verify=false"] if insecure else [])]
        try:
            with interruptible():
                run([*words, f"docker://{source}", f"oci:{layout}"], env=variables, what=f"skopeo copy {source}")
            return layout
        except CommandError as error:
            errors.append(_said(error.said))
            safe_fs.remove(layout)
    raise RunError(f"image {reference}: {errors[-1]}", _CHECK)


def skopeo_variables(scratch: Path) -> dict[str, str]:
    """Return the variables that skopeo needs beside the kit's. Where it may not look for logins it would end; with an
    empty directory to look into it goes on to those in the user's home."""
    variables = {name: os.environ[name] for name in _SKOPEO_FILES if name in os.environ}
    if "XDG_RUNTIME_DIR" not in os.environ and _LOGINS.is_dir() and not os.access(_LOGINS, os.X_OK):
        variables["XDG_RUNTIME_DIR"] = str(scratch)
    return variables


def _said(text: str) -> str:
    """Return the reason in skopeo's output: its last message, without time and level."""
    messages = _MESSAGE.findall(text)
    return messages[-1].replace('\\"', '"') if messages else text.strip()


def _policy() -> list[str]:
    """Return skopeo's option for a machine that says nothing on signatures: skopeo would refuse each image."""
    homes = (Path("/etc"), Path("/usr/share"), Path.home() / ".config")
    return [] if any((home / "containers/policy.json").is_file() for home in homes) else ["--insecure-policy"]


def sources(reference: str, configuration: Mapping[str, tuple[str, ...]]) -> list[tuple[str, bool]]:
    """Return from where to copy an image as Docker would pull it, Docker Hub's mirrors first. Each has True if its
    registry may be used without TLS: on this machine, and where the configuration says so."""
    host, slash, repository = reference.partition("/")
    if not slash or not (host == "localhost" or "." in host or ":" in host):
        host, repository = _HUB, reference if slash else f"library/{reference}"
    if "@" in repository:  # skopeo accepts no tag beside a digest
        name, _, digest = repository.partition("@")
        repository = f"{name.partition(':')[0]}@{digest}"
    mirrors = configuration["registry-mirrors"] if host == _HUB else ()
    mirror_names = [(f"{url.partition('://')[2].rstrip('/')}/{repository}", url.startswith("http:")) for url in mirrors]
    return [*mirror_names, (f"{host}/{repository}", _insecure(host, (*_LOCAL, *configuration["insecure-registries"])))]


def _insecure(host: str, registries: Sequence[str]) -> bool:
    """Return whether a registry is among these: names with a port, or networks."""
    with suppress(ValueError):
        address = ip_address(host.strip("[]") if host.endswith("]") else host.rpartition(":")[0].strip("[]") or host)
        for entry in registries:
            with suppress(ValueError):
                if address in ip_network(entry, strict=False):
                    return True
    return host in registries or host.partition(":")[0] == "localhost"


def registries(configuration: Path) -> dict[str, tuple[str, ...]]:
    """Return the registries that the machine's own Docker names."""
    settings = read_configuration(configuration)
    listed = {key: value if isinstance(value := settings.get(key), list) else [] for key in _KEYS}
    return {key: tuple(text for text in value if isinstance(text, str)) for key, value in listed.items()}
