"""The kit itself in an image: a virtual environment in /opt/kit, made by the image's own Python and pip."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kit.core.errors import MachineError
from kit.core.paths import resource
from kit.host.command import PROXIES

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_NAME = "storage-driver-test-kit"
#: What a checkout's wheel is built from.
_SOURCES = (
    "pyproject.toml", "hatch_bill.py", "hatch_build.py", "README.md", "LICENSE", "docs", "kit", "scenarios", "images",
)  # fmt: skip
#: Files that pip writes into the directory of an installed package.
_OF_PIP = ("INSTALLER", "REQUESTED", "direct_url.json")
#: A directory of the image while it is made.
_STAGED = "/kit-sources"
_INSTALL = f"""\
. {_STAGED}/settings
python3 -m venv /opt/kit
/opt/kit/bin/pip install --quiet --no-cache-dir --disable-pip-version-check "{_STAGED}/$1"
ln -s /opt/kit/bin/kit /usr/local/bin/kit"""
#: Variables that say where pip finds packages (pip documentation, "Configuration"), and the user's authorities.
_INDEX = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_PROXY", "PIP_TIMEOUT", "PIP_DEFAULT_TIMEOUT")
_AUTHORITIES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


@dataclass(frozen=True)
class KitEnvironment:
    """``extras``: those of the kit's package that it has. ``date``: in seconds since 1970, for files that Python
    compiles."""

    extras: Sequence[str]
    date: str

    def hook(self, directory: Path) -> str:
        """Write what pip installs into a new directory. Return a shell command that installs it into the root
        filesystem ``$1``. Raises MachineError if this kit can't be installed again."""
        directory.mkdir()
        package = f"{_source(directory)}[{','.join(self.extras)}]"
        variables = {"LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": self.date, **_settings(directory)}
        _write_private(directory / "settings", variables)
        words = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-ec", _INSTALL, "sh", package]
        staged = f'"$1"{_STAGED}'
        return f'cp -R {shlex.quote(str(directory))} {staged} && chroot "$1" {shlex.join(words)} && rm -r {staged}'


def own_digest() -> str:
    """Return a digest of this kit: an image that contains the kit is another one for each. Raises MachineError."""
    hashed = hashlib.sha256()
    if top := _checkout():
        for path in _files(top):
            hashed.update(f"{path.relative_to(top)}\0".encode())
            hashed.update(path.read_bytes())
    else:
        record = (_installed().read_text("RECORD") or "").splitlines()
        hashed.update("\n".join(line for line in record if line.startswith("kit/") and ".pyc," not in line).encode())
    return hashed.hexdigest()


def _checkout() -> Path | None:
    top = resource("images").parent
    return top if (top / "pyproject.toml").is_file() else None


def _files(top: Path) -> list[Path]:
    named = [top / name for name in _SOURCES]
    below = [path for directory in named if directory.is_dir() for path in directory.rglob("*")]
    return sorted(path for path in (*named, *below) if path.is_file() and "__pycache__" not in path.parts)


def _installed() -> Distribution:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(_NAME)
    except PackageNotFoundError:
        raise MachineError(
            "this kit is neither a checkout nor an installed package, so no image can contain it",
            f"run pip install {_NAME}",
        ) from None


def _source(directory: Path) -> str:
    """Copy this kit's sources, or pack its wheel again; return the name in the directory."""
    top = _checkout()
    if top is None:
        return _repack(_installed(), directory)
    for path in _files(top):
        target = directory / "source" / path.relative_to(top)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return "source"


def _repack(found: Distribution, directory: Path) -> str:
    """Write the wheel that this kit was installed from, without what pip puts into other directories. Return its
    name."""
    import zipfile

    # A wheel's name has the platforms of all its tags (packaging specifications, "Binary distribution format").
    tags = re.findall(r"^Tag: (\S+)-(\S+)$", found.read_text("WHEEL") or "", re.MULTILINE) or [("py3-none", "any")]
    tag = f"{tags[0][0]}-{'.'.join(platform for _, platform in tags)}"
    name = f"{_NAME.replace('-', '_')}-{found.version}-{tag}.whl"
    with zipfile.ZipFile(directory / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in found.files or ():
            if ".." not in file.parts and file.suffix != ".pyc" and file.name not in _OF_PIP:
                wheel.write(str(file.locate()), str(file))
    return name


def _settings(directory: Path) -> dict[str, str]:
    """Return the user's settings of pip that say where packages are, and put the user's authority into the
    directory."""
    found = {**_configured(), **os.environ}
    variables = {name: found[name] for name in (*_INDEX, *PROXIES) if found.get(name)}
    authority = next((Path(found[name]) for name in _AUTHORITIES if found.get(name)), None)
    if authority and authority.is_file():
        shutil.copyfile(authority, directory / "authority.pem")
        variables["PIP_CERT"] = f"{_STAGED}/authority.pem"
    return variables


def _write_private(file: Path, variables: Mapping[str, str]) -> None:
    """Write a file for a shell. An index may need a password, which words of a command would show to everybody."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def _configured() -> Mapping[str, str]:
    """Return what pip's configuration files set, by the names of variables."""
    import configparser

    config = configparser.ConfigParser(interpolation=None, strict=False)
    home = Path(os.environ.get("HOME", "/root"))
    users = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", users / "pip/pip.conf"]
    config.read([*files, *filter(None, [os.environ.get("PIP_CONFIG_FILE")])])
    sections = [config[name] for name in ("global", "install") if name in config]
    return {f"PIP_{key.upper().replace('-', '_')}": value for section in sections for key, value in section.items()}
