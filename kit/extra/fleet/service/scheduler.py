"""The scheduler: the one process of a fleet that knows all machines and the owner of each share."""

from __future__ import annotations

from collections.abc import Callable

from kit.core.errors import MachineError, causes_of
from kit.extra.fleet.address import Address, security
from kit.extra.fleet.service.event_loop import serve
from kit.extra.fleet.service.unpickling import restrict, restrict_scheduler
from kit.extra.fleet.settings import PAGES, allow_many_files, prepare


def run_scheduler(address: Address, tell: Callable[[str], None]) -> None:
    """Serve until interrupted. Raises MachineError if it can't listen there."""
    prepare()
    restrict()
    allow_many_files()
    from distributed import Scheduler

    tls_settings = security(address, "scheduler")

    async def make() -> Scheduler:
        scheduler = Scheduler(
            host=address.host or None,
            port=address.port,
            protocol="tls" if address.tls else "tcp",
            security=tls_settings,
            dashboard_address=PAGES,
            dashboard=False,
            allowed_failures=0,  # the client gives the rest of a lost share to another machine
        )
        restrict_scheduler(scheduler)
        try:
            await scheduler
        except RuntimeError as error:
            raise _can_not_listen(address, error) from None
        return scheduler

    serve(make, lambda scheduler: tell(f"scheduler at {scheduler.address}"))  # type: ignore[attr-defined]


def _can_not_listen(address: Address, error: BaseException) -> MachineError:
    first = causes_of(error)[-1]
    return MachineError(
        f"no scheduler at {address.url}: {first}", "stop the one that runs there, or use --listen HOST:PORT"
    )
