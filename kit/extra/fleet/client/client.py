"""The client of a fleet: lists its machines, and gives shares to them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kit.core.codec import UnreadableError, decode, encode_json
from kit.core.errors import RunError
from kit.core.listing import counted
from kit.extra.fleet.address import Address
from kit.extra.fleet.handshake import ANSWERS, AbsentError, greet
from kit.extra.fleet.service.unpickling import restrict
from kit.extra.fleet.service.worker import DESCRIPTION, PROGRESS, run_share
from kit.extra.fleet.settings import SILENCE, prepare
from kit.extra.fleet.share import Share
from kit.model.event import Event
from kit.model.machine import Member, MemberStatus, Progress, ShareStatus
from kit.session.wire.messages import Failed, Last, decode_line

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass(frozen=True)
class Said:
    """A message from the machine that has the share, while it runs."""

    key: str
    event: Event


@dataclass(frozen=True)
class Ended:
    """A share is over: its last message, or None if its machine was lost."""

    key: str
    last: Last | None


class SchedulerLostError(RunError):
    """The scheduler has stopped, or can't be reached; another may replace it."""


class SilentError(RunError):
    """The scheduler does not answer; the connection may recover."""


class Fleet:
    """A connection to a scheduler."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # The scheduler forgets messages under a client's name an hour after the client has left.
        self._topic = str(client.id)
        self._wanted: set[str] = set()
        self._futures: dict[str, Future[str]] = {}
        self._heard: queue.SimpleQueue[Said | Ended] = queue.SimpleQueue()
        self._seen: dict[str, tuple[float, float]] = {}
        client.subscribe_topic(self._topic, self._hear)

    def members(self) -> Mapping[str, Member]:
        """Return all machines, by the address of their worker. Raises SchedulerLostError, SilentError."""
        return _members(self._workers())

    def _workers(self) -> Mapping[str, Any]:
        # A poll without workers overwrites Client.scheduler_info, and some releases list only five workers.
        workers: Mapping[str, Any] = self._asked(self._identity)["workers"]
        self._note(workers)
        return workers

    def _identity(self) -> Any:
        return self._client.sync(self._scheduler.identity, n_workers=-1, callback_timeout=ANSWERS)

    @property
    def _scheduler(self) -> Any:
        if self._client.scheduler is None:
            raise RuntimeError("the connection is closed")
        return self._client.scheduler

    def _events(self, topic: str) -> Any:
        return self._client.sync(self._scheduler.events, topic=topic, callback_timeout=ANSWERS)

    def _note(self, workers: Mapping[str, Any]) -> None:
        """Record when each machine was seen, by the scheduler's clock, and when this client first knew that, by its
        own clock."""
        now = time.monotonic()
        for address, worker in workers.items():
            last_seen = float(worker["last_seen"])
            if self._seen.get(address, (None,))[0] != last_seen:
                self._seen[address] = last_seen, now

    def silence(self, address: str) -> float:
        """Return the seconds since the scheduler last heard of a worker, as far as ``members`` has found."""
        return time.monotonic() - self._seen[address][1] if address in self._seen else 0.0

    def why_lost(self, address: str) -> str:
        """Return what the scheduler knows of a worker that has left. Raises SchedulerLostError, SilentError."""
        # Any machine can log an event under any name.
        events = [event for _, event in self._asked(lambda: self._events(address)) if isinstance(event, dict)]
        closed = [str(event.get("reason")) for event in events if event.get("action") == "closing-worker"]
        removed = [str(event.get("stimulus_id")) for event in events if event.get("action") == "remove-worker"]
        if not removed:
            return "this connection to the scheduler broke"
        if any(reason.startswith("check-worker-ttl") for reason in removed):
            return f"its worker was silent for {SILENCE} s"
        if closed and closed[-1] != "worker-handle-scheduler-connection-broken":
            return "its worker was ended there"
        return "the connection to its worker broke: it was killed or died, or the machine or the network is down"

    def busy(self) -> Mapping[str, tuple[str, ...]]:
        """Return the keys of running shares, by address."""
        keys_by_address = self._asked(lambda: self._client.sync(self._scheduler.processing, callback_timeout=ANSWERS))
        return {str(address): tuple(map(str, keys)) for address, keys in keys_by_address.items()}

    def status(self) -> tuple[MemberStatus, ...]:
        """Return all machines with their running shares. Raises SchedulerLostError."""
        workers, busy = self._workers(), self.busy()
        statuses = []
        for address, member in _members(workers).items():
            runs = [ShareStatus(key, _progress(workers[address], key)) for key in busy.get(address, ())]
            statuses.append(MemberStatus(member, tuple(runs)))
        return tuple(statuses)

    def _asked(self, question: Callable[[], Any]) -> Any:
        if self._client.status != "running":
            raise SchedulerLostError("the scheduler is gone")
        try:
            return question()
        except RuntimeError as error:  # of a client that is closing
            raise SchedulerLostError(f"the scheduler does not answer: {error}") from None
        except Exception:  # an OSError, a TimeoutError, or Dask's error for an unreadable answer
            if self._client.status != "running":
                raise SchedulerLostError("the scheduler is gone") from None
            raise SilentError("the scheduler does not answer") from None

    def give(self, key: str, share: Share, address: str) -> None:
        """Give a share to the machine at that address alone. Raises SchedulerLostError."""
        self._wanted.add(key)  # its messages may come before it is known here
        self._futures[key] = future = self._asked(lambda: self._client.submit(
            run_share, encode_json(share), self._topic, key=key, workers=[address], resources={"machine": 1},
            pure=False, retries=0,
        ))  # fmt: skip
        future.add_done_callback(self._over)

    def take_back(self, key: str) -> None:
        """Cancel a share: its machine ends it, if it still answers."""
        self._wanted.discard(key)
        future = self._futures.pop(key, None)
        if future:
            future.cancel()

    def close(self) -> None:
        for key in list(self._futures):
            with suppress(Exception):  # Dask's own of a client that is closed already is one
                self.take_back(key)
        with suppress(Exception):  # else the scheduler would fail to report its end to the client, and log that
            self._client.unsubscribe_topic(self._topic)
        with suppress(OSError, TimeoutError):
            self._client.close(timeout=5)

    def next(self, timeout: float) -> Said | Ended | None:
        """Return the next event; None if none comes within this number of seconds. Raises SchedulerLostError."""
        try:
            return self._heard.get(timeout=timeout)
        except queue.Empty:
            if self._client.status != "running":
                raise SchedulerLostError("the scheduler is gone") from None
            return None

    def _hear(self, event: tuple[float, Any]) -> None:
        match event[1]:
            case {"key": str(key), "line": str(line)} if key in self._wanted:  # else a message of Dask or another share
                with suppress(UnreadableError, UnicodeError):
                    message = decode_line(line.encode())
                    if isinstance(message, Event):
                        self._heard.put(Said(key, message))

    def _over(self, future: Future[str]) -> None:
        key = str(future.key)
        if key not in self._wanted:
            return
        self._wanted.discard(key)
        if future.status == "finished":
            self._heard.put(Ended(key, self._result(future)))
        elif future.status != "error":
            self._heard.put(Ended(key, None))  # lost with the connection, which may recover
        else:
            self._heard.put(Ended(key, _failure(future)))

    def _result(self, future: Future[str]) -> Last | None:
        """Return the last message; None if it was lost with its worker."""
        try:
            text = future.result(timeout=ANSWERS)
        except (OSError, TimeoutError, CancelledError):
            return None
        except Exception as error:  # any error of Dask for what a machine sends
            return _failed(f"sent a result that can't be read ({type(error).__name__})")
        try:
            message = decode_line(text.encode()) if isinstance(text, str) else None
        except (UnreadableError, UnicodeError):
            message = None
        return message if isinstance(message, Last) else _failed("sent a result that is not as the kit writes it")


def _failure(future: Future[str]) -> Failed | None:
    """Return why a share ended with an error; None if its machine was lost. The error itself comes as a pickle, which
    names its class and is not read."""
    try:
        raised = future.exception(timeout=ANSWERS)
    except Exception as error:  # any error of Dask for what a machine sends
        raised = error
    pickled = next((argument for argument in getattr(raised, "args", ()) if isinstance(argument, bytes)), b"")
    return None if b"KilledWorker" in pickled else _failed("failed")


def _failed(what: str) -> Failed:
    return Failed.by(RunError(f"the worker {what}", "see its log, and check that it has the same version of the kit"))


def _members(workers: Mapping[str, Any]) -> Mapping[str, Member]:
    members = {}
    for address, worker in workers.items():
        if DESCRIPTION in worker:
            with suppress(UnreadableError):  # another kit's
                members[str(address)] = decode(Member, worker[DESCRIPTION])
    return dict(sorted(members.items(), key=lambda item: counted(item[1].name)))


def _progress(worker: Mapping[str, Any], key: str) -> Progress | None:
    """Return the progress from its last heartbeat; None if that is unreadable."""
    match worker["metrics"].get(PROGRESS):
        case {**told} if told.get(key):
            with suppress(UnreadableError):
                return decode(Progress, told[key])
    return None


@contextmanager
def fleet_at(address: Address, patience: float = ANSWERS) -> Iterator[Fleet]:
    """Yield a connection, closed at the end; shares still given are cancelled. Raises MachineError if nobody answers
    within ``patience`` seconds."""
    prepare()
    from distributed import Client

    restrict()
    tls_settings = greet(address, "client", patience)
    try:
        client = Client(address.url, security=tls_settings, timeout=ANSWERS, set_as_default=False, name="kit")
    except (OSError, TimeoutError) as error:
        raise AbsentError(f"no scheduler at {address.url}: {error}", "start one with kit fleet scheduler") from None
    fleet = Fleet(client)
    try:
        yield fleet
    finally:
        fleet.close()
