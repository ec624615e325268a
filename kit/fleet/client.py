"""The user's side of a fleet: which machines there are, and shares given to them."""

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
from kit.fleet.address import Address
from kit.fleet.greeting import ANSWERS, AbsentError, greet
from kit.fleet.settings import SILENCE, prepare
from kit.fleet.share import Share
from kit.fleet.worker import DESCRIPTION, PROGRESS, run_share
from kit.model.member import Member, MemberStatus, Progress, ShareStatus
from kit.session.guest_protocol import Failed, Last, Message, decode_line

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass(frozen=True)
class Said:
    """By the machine that has the share, while it runs."""

    key: str
    message: Message


@dataclass(frozen=True)
class Ended:
    """A share is over: its last word, or None where its machine was lost."""

    key: str
    last: Last | None


class SchedulerLostError(RunError):
    """It is gone, or can't be reached; another may come in its place."""


class SilentError(RunError):
    """The scheduler does not answer; the connection to it may come to life again."""


class Fleet:
    """A connection to a scheduler."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # The scheduler forgets what was said under a client's name an hour after the client has gone.
        self._topic = str(client.id)
        self._wanted: set[str] = set()
        self._futures: dict[str, Future[str]] = {}
        self._heard: queue.SimpleQueue[Said | Ended] = queue.SimpleQueue()
        self._seen: dict[str, tuple[float, float]] = {}
        client.subscribe_topic(self._topic, self._hear)

    def members(self) -> Mapping[str, Member]:
        """All machines, by the address of their worker. Raises SchedulerLostError, SilentError."""
        return _members(self._workers())

    def _workers(self) -> Mapping[str, Any]:
        # Client.scheduler_info gives what a poll overwrites without workers, and in some releases five of them only.
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
        """When each was seen, by the scheduler's clock, and when that was first known here, by this one's."""
        now = time.monotonic()
        for address, worker in workers.items():
            seen = float(worker["last_seen"])
            if self._seen.get(address, (None,))[0] != seen:
                self._seen[address] = seen, now

    def silence(self, address: str) -> float:
        """Seconds for which the scheduler has not heard of a worker, as far as ``members`` has found."""
        return time.monotonic() - self._seen[address][1] if address in self._seen else 0.0

    def why_lost(self, address: str) -> str:
        """What the scheduler knows of a worker that is gone. Raises SchedulerLostError, SilentError."""
        told = [event for _, event in self._asked(lambda: self._events(address))]
        closed = [event["reason"] for event in told if event.get("action") == "closing-worker"]
        removed = [event["stimulus_id"] for event in told if event.get("action") == "remove-worker"]
        if not removed:
            return "this connection to the scheduler broke"
        if any(reason.startswith("check-worker-ttl") for reason in removed):
            return f"its worker was silent for {SILENCE} s"
        if closed and closed[-1] != "worker-handle-scheduler-connection-broken":
            return "its worker was ended there"
        return "the connection to its worker broke: it was killed or died, or the machine or the network is down"

    def busy(self) -> Mapping[str, tuple[str, ...]]:
        """What runs where, by address: keys of shares."""
        found = self._asked(lambda: self._client.sync(self._scheduler.processing, callback_timeout=ANSWERS))
        return {str(address): tuple(map(str, keys)) for address, keys in found.items()}

    def status(self) -> tuple[MemberStatus, ...]:
        """All machines with what runs there. Raises SchedulerLostError."""
        workers, busy = self._workers(), self.busy()
        found = []
        for address, member in _members(workers).items():
            runs = [ShareStatus(key, _progress(workers[address], key)) for key in busy.get(address, ())]
            found.append(MemberStatus(member, tuple(runs)))
        return tuple(found)

    def _asked(self, question: Callable[[], Any]) -> Any:
        if self._client.status != "running":
            raise SchedulerLostError("the scheduler is gone")
        try:
            return question()
        except RuntimeError as error:  # of a client that is being closed
            raise SchedulerLostError(f"the scheduler does not answer: {error}") from None
        except (OSError, TimeoutError):
            if self._client.status != "running":
                raise SchedulerLostError("the scheduler is gone") from None
            raise SilentError("the scheduler does not answer") from None

    def give(self, key: str, share: Share, address: str) -> None:
        """To the machine at that address alone. Raises SchedulerLostError."""
        self._wanted.add(key)  # it may be spoken of before it is known here
        self._futures[key] = future = self._asked(lambda: self._client.submit(
            run_share, encode_json(share), self._topic, key=key, workers=[address], resources={"machine": 1},
            pure=False, retries=0,
        ))  # fmt: skip
        future.add_done_callback(self._over)

    def take_back(self, key: str) -> None:
        """What is no longer wanted: its machine ends it, if it can still be told so."""
        self._wanted.discard(key)
        future = self._futures.pop(key, None)
        if future:
            future.cancel()

    def close(self) -> None:
        for key in list(self._futures):
            with suppress(Exception):  # Dask's own of a client that is closed already is one
                self.take_back(key)
        with suppress(Exception):  # else the scheduler would tell the client that it has gone, and log that it can't
            self._client.unsubscribe_topic(self._topic)
        with suppress(OSError, TimeoutError):
            self._client.close(timeout=5)

    def next(self, timeout: float) -> Said | Ended | None:
        """What has happened; None where nothing has for so many seconds. Raises SchedulerLostError."""
        try:
            return self._heard.get(timeout=timeout)
        except queue.Empty:
            if self._client.status != "running":
                raise SchedulerLostError("the scheduler is gone") from None
            return None

    def _hear(self, event: tuple[float, Any]) -> None:
        said = event[1]
        if said.get("key") in self._wanted:  # else it is another share's, or Dask's word about this client
            with suppress(UnreadableError):
                message = decode_line(said["line"].encode())
                if message is not None:
                    self._heard.put(Said(said["key"], message))

    def _over(self, future: Future[str]) -> None:
        key = str(future.key)
        if key not in self._wanted:
            return
        self._wanted.discard(key)
        if future.status == "finished":
            self._heard.put(Ended(key, self._result(future)))
        elif future.status != "error":
            self._heard.put(Ended(key, None))  # with the connection, which may be there again
        else:
            error = future.exception()
            lost = type(error).__name__ == "KilledWorker"
            self._heard.put(Ended(key, None if lost else Failed.by(RunError(f"the worker failed: {error}"))))

    def _result(self, future: Future[str]) -> Last | None:
        """None where it went with its worker, or is none of this kit's."""
        try:
            message = decode_line(future.result(timeout=ANSWERS).encode())
        except (OSError, TimeoutError, UnreadableError, CancelledError):
            return None
        return message if isinstance(message, Last) else None


def _members(workers: Mapping[str, Any]) -> Mapping[str, Member]:
    found = {}
    for address, worker in workers.items():
        if DESCRIPTION in worker:
            with suppress(UnreadableError):  # another kit's
                found[str(address)] = decode(Member, worker[DESCRIPTION])
    return dict(sorted(found.items(), key=lambda item: counted(item[1].name)))


def _progress(worker: Mapping[str, Any], key: str) -> Progress | None:
    """As its last heartbeat told it."""
    told = worker["metrics"].get(PROGRESS, {}).get(key)
    return decode(Progress, told) if told else None


@contextmanager
def fleet_at(address: Address, patience: float = ANSWERS) -> Iterator[Fleet]:
    """A connection, closed at the end; what is still given is taken back. Raises MachineError where nobody answers
    within ``patience`` seconds."""
    prepare()
    from distributed import Client

    shown = greet(address, "client", patience)
    try:
        client = Client(address.url, security=shown, timeout=ANSWERS, set_as_default=False, name="kit")
    except (OSError, TimeoutError) as error:
        raise AbsentError(f"no scheduler at {address.url}: {error}", "kit fleet scheduler") from None
    fleet = Fleet(client)
    try:
        yield fleet
    finally:
        fleet.close()
