"""The one process of a fleet that knows all machines, and which share is whose."""

from __future__ import annotations

from collections.abc import Callable

from kit.core.errors import MachineError, causes_of
from kit.fleet.address import Address, security
from kit.fleet.files import allow_many_files
from kit.fleet.serving import serve
from kit.fleet.settings import prepare

#: Its pages show who runs what: to this machine alone.
PAGES = "127.0.0.1:0"


def run_scheduler(address: Address, tell: Callable[[str], None]) -> None:
    """Until it is interrupted. Raises MachineError where it can't listen there."""
    prepare()
    allow_many_files()
    from distributed import Scheduler

    shown = security(address, "scheduler")

    async def make() -> Scheduler:
        scheduler = Scheduler(
            host=address.host or None,
            port=address.port,
            protocol="tls" if address.tls else "tcp",
            security=shown,
            dashboard_address=PAGES,
            dashboard=False,
            allowed_failures=0,  # who gave the share gives what is left of it to another
        )
        try:
            await scheduler
        except RuntimeError as error:
            raise _can_not_listen(address, error) from None
        return scheduler

    serve(make, lambda scheduler: tell(f"scheduler at {scheduler.address}"))  # type: ignore[attr-defined]


def _can_not_listen(address: Address, error: BaseException) -> MachineError:
    first = causes_of(error)[-1]
    return MachineError(f"no scheduler at {address.url}: {first}", "is one running there already? --listen HOST:PORT")
