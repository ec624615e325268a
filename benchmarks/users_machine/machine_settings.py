"""Files that give a guest the package sources of this machine: mirrors, certificates, proxies. Read at run time."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from kit.host.command import PROXIES

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)
_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_DEBIANS_CERTIFICATES = Path("/usr/share/ca-certificates")
_PIP_VARIABLES = ("PIP_DEFAULT_TIMEOUT", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_TRUSTED_HOST")
_APT_OPTION = re.compile(r"^Acquire::(?:https?::|Check-|Retries)\S* .*;$", re.MULTILINE)


def write_settings(directory: Path, release: str) -> None:
    """Write the files below ``directory``, as they lie in the guest's root. ``release``: Debian's code name."""
    files = {
        "etc/apt/sources.list": "".join(f"{line}\n" for line in apt_sources(release, _host_sources())),
        "etc/apt/apt.conf.d/90mirror": "".join(
            f"{line}\n" for line in _APT_OPTION.findall(_output("apt-config", "dump"))
        ),
        "etc/environment": _variables(),
        **{
            f"usr/local/share/ca-certificates/host-{number}.crt": text
            for number, text in enumerate(_own_certificates(), 1)
        },
    }
    pip = Path("/etc/pip.conf")
    if pip.is_file():
        files["etc/pip.conf"] = pip.read_text(encoding="utf-8")
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def apt_sources(release: str, host_sources: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of sources.list. ``host_sources``: address and suite of each of this machine's sources."""
    mirrors = {suite.rpartition("-")[2]: address for address, suite in host_sources if "-" in suite}
    archive = mirrors["updates"]  # only Debian's own archive has such a suite
    if release == "unstable":
        return [f"deb {archive} {release} main"]
    suites = ((archive, release), (archive, f"{release}-updates"), (mirrors["security"], f"{release}-security"))
    return [f"deb {address} {suite} main" for address, suite in suites]


def _host_sources() -> list[tuple[str, str]]:
    words = ("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages")
    lines = _output(*words).splitlines()
    return [(address, suite) for address, _, suite in (line.partition(" ") for line in lines)]


def _own_certificates() -> list[str]:
    """Return the certificates that this machine trusts and a stock Debian does not, as that of a proxy."""
    if not _BUNDLE.is_file():
        return []
    stock = {path.read_text().strip() for path in _DEBIANS_CERTIFICATES.rglob("*.crt")}
    return [text for text in _CERTIFICATE.findall(_BUNDLE.read_text()) if text.strip() not in stock]


def _variables() -> str:
    kept = [*PROXIES, *_PIP_VARIABLES]
    return "".join(f'{name}="{os.environ[name]}"\n' for name in kept if name in os.environ)


def _output(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
