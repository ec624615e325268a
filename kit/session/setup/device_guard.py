"""Guards devices: a session may overwrite empty ones, and those that the user gives up in this start. An earlier
permission does not count: the name may by now belong to another device with other data."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kit.core.errors import UsageError
from kit.filesystem.device import check_device, identity
from kit.model.fact import DEVICE, Fact
from kit.model.session import Request, Session


def device_facts(request: Request) -> list[Fact]:
    """Return the identities of the devices that a session is about to use, so that it never continues on others. Raises
    UsageError."""
    return [DEVICE.fact(identity(device), what) for what, device in _devices(request).items()]


def check_devices(session: Session, wipe: Collection[Path]) -> None:
    """Check before a session begins or continues that its devices are unchanged and may be overwritten. Changes
    nothing. Raises UsageError."""
    devices = _devices(session.request)
    for device in wipe:
        if device not in devices.values():
            raise UsageError(f"--wipe {device}: this session uses no such device", "name it as --device does")
    for what, device in devices.items():
        then, now = DEVICE.text(session.facts, "unknown", what), identity(device)
        if then != now:
            raise UsageError(
                f"{device} is not the {what} that session {session.id} began with: it is {now}, and was {then}",
                "attach that one under this name, or start a new session",
            )
        check_device(device, wipe)


def _devices(request: Request) -> dict[str, Path]:
    named = {"device": request.device, "thin device": request.thin_device}
    return {what: Path(text) for what, text in named.items() if text}
