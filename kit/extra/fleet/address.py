"""The address of a scheduler, and the proof of identity: TLS with certificates on both sides, or the machine itself."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kit.core.errors import UsageError

if TYPE_CHECKING:
    from distributed.security import Security

#: Dask's default.
DEFAULT_PORT = 8786
CA = "ca"
#: The options as the user types them: kit compare has options for other paths too.
TLS_OPTION = "--tls DIR (beside --fleet: --fleet-tls DIR)"
SIDES = ("scheduler", "worker", "client")


@dataclass(frozen=True)
class Address:
    """``host`` '' means every address of this machine."""

    host: str
    port: int
    tls: Path | None = None  # the directory of certificates

    @property
    def loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'tcp'}://{host}:{self.port}"


def parse_address(text: str, tls: str) -> Address:
    """Return the address from ``HOST:PORT``, with an optional ``tcp://`` or ``tls://``. Raises UsageError, also if
    other machines could connect without proof of identity."""
    scheme, separator, host_port = text.rpartition("://")
    host, _, port = (
        host_port.rpartition(":") if ":" in host_port.rpartition("]")[2] else (host_port, "", str(DEFAULT_PORT))
    )
    if (separator and scheme not in ("tcp", "tls")) or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise UsageError(f"'{text}' is not an address of a scheduler", "use for example tls://fleet.example.org:8786")
    address = Address(host.strip("[]"), int(port), Path(tls).absolute() if tls else None)
    if scheme == "tls" and not tls:
        raise UsageError(f"{text} needs certificates", f"give {TLS_OPTION}, as kit fleet certificates makes it")
    if not tls and not address.loopback:
        raise UsageError(
            f"no fleet without TLS on {host or 'every address'}: whoever connects to a worker is root there",
            f"run kit fleet certificates DIR, then give {TLS_OPTION}; or use 127.0.0.1: kit fleet --help",
        )
    return address


def security(address: Address, side: str) -> Security | None:
    """Return the security settings of one side. Raises UsageError if files are missing."""
    from distributed.security import Security

    if address.tls is None:
        return None
    files = {"ca_file": certificate(address.tls, CA), f"{side}_cert": certificate(address.tls, side),
             f"{side}_key": key(address.tls, side)}  # fmt: skip
    for path in files.values():
        if not path.is_file():
            raise UsageError(f"{path} is missing", f"run kit fleet certificates {address.tls}")
    arguments = {f"tls_{name}": str(path) for name, path in files.items()}
    return Security(require_encryption=True, **arguments)


def certificate(directory: Path, side: str) -> Path:
    return directory / f"{side}.pem"


def key(directory: Path, side: str) -> Path:
    return directory / f"{side}-key.pem"
