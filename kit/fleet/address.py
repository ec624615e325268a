"""Where a scheduler is, and what proves who speaks: TLS with certificates on both sides, or the machine itself."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kit.core.errors import UsageError

if TYPE_CHECKING:
    from distributed.security import Security

#: Dask's own.
DEFAULT_PORT = 8786
CA = "ca"
#: As its user has to give it: kit compare has options of other places too.
TLS_OPTION = "--tls DIR (beside --fleet: --fleet-tls DIR)"
SIDES = ("scheduler", "worker", "client")


@dataclass(frozen=True)
class Address:
    """``host`` '' is every address of this machine."""

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
    """``HOST:PORT``, with ``tcp://`` or ``tls://`` before it or nothing. Raises UsageError, also where others than this
    machine could speak to it unproved."""
    scheme, found, rest = text.rpartition("://")
    host, _, port = rest.rpartition(":") if ":" in rest.rpartition("]")[2] else (rest, "", str(DEFAULT_PORT))
    if (found and scheme not in ("tcp", "tls")) or not port.isdecimal() or not 0 <= int(port) < 65536:
        raise UsageError(f"'{text}' is no address of a scheduler", "for example tls://farm.example.org:8786")
    address = Address(host.strip("[]"), int(port), Path(tls).absolute() if tls else None)
    if scheme == "tls" and not tls:
        raise UsageError(f"{text} needs certificates", f"{TLS_OPTION}, as kit fleet certificates makes it")
    if not tls and not address.loopback:
        raise UsageError(
            f"no fleet without TLS on {host or 'every address'}: whoever can speak to a worker is root there",
            f"kit fleet certificates DIR, then {TLS_OPTION}; or 127.0.0.1",
        )
    return address


def security(address: Address, side: str) -> Security | None:
    """What one of the sides shows and wants to see. Raises UsageError where files are missing."""
    from distributed.security import Security

    if address.tls is None:
        return None
    files = {"ca_file": certificate(address.tls, CA), f"{side}_cert": certificate(address.tls, side),
             f"{side}_key": key(address.tls, side)}  # fmt: skip
    for path in files.values():
        if not path.is_file():
            raise UsageError(f"{path} is missing", f"kit fleet certificates {address.tls}")
    named = {f"tls_{name}": str(path) for name, path in files.items()}
    return Security(require_encryption=True, **named)


def certificate(directory: Path, side: str) -> Path:
    return directory / f"{side}.pem"


def key(directory: Path, side: str) -> Path:
    return directory / f"{side}-key.pem"
