"""Merges what several machines report on one session. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kit.core.errors import UsageError
from kit.model.fact import (
    CLASS,
    MACHINE,
    MACHINE_OF,
    ROUNDS_OF,
    SEVERAL,
    TOGETHER,
    WORKER,
    Fact,
    machines_by_worker,
)
from kit.model.machine import Member
from kit.model.sample import RUN_ORDER, Sample


def merged_facts(facts_by_machine: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Merge the facts of machines: if they differ, each text with its machines."""
    keys = dict.fromkeys(key for facts in facts_by_machine.values() for key in facts)
    return {key: _merged({name: facts.get(key, "none") for name, facts in facts_by_machine.items()}) for key in keys}


def _merged(texts: Mapping[str, str]) -> str:
    by_text: dict[str, list[str]] = {}
    for name, text in texts.items():
        by_text.setdefault(text, []).append(name)
    if len(by_text) == 1:
        return next(iter(by_text))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in by_text.items())


def member_facts(members: Sequence[Member]) -> Iterator[Fact]:
    """Return the facts of the machines that a session runs on."""
    classes = sorted({member.kind for member in members if member.named})
    if classes:
        yield CLASS.fact("; ".join(classes))
    yield WORKER.fact(SEVERAL.join(member.name for member in members))
    yield MACHINE.fact(SEVERAL.join(sorted({member.machine for member in members})))
    together = [member.name for member in members if member.together]
    if together:
        yield TOGETHER.fact(f"{', '.join(together)} may share a machine with other workers: they disturb each other")


def machine_facts(members: Sequence[Member], earlier: Mapping[str, str]) -> Iterator[Fact]:
    """Yield facts on which worker is on which machine, and on all machines. ``earlier``: facts of the session so far,
    which may have run elsewhere before."""
    machines = {**machines_by_worker(earlier), **{member.name: member.machine for member in members}}
    for name, machine in machines.items():
        yield MACHINE_OF.fact(machine, name)
    yield MACHINE.fact(SEVERAL.join(sorted(set(machines.values()))))


def rounds_facts(rounds_by_machine: Mapping[str, Iterable[int]]) -> Iterator[Fact]:
    """Yield facts on which machine made which rounds."""
    for name, rounds in rounds_by_machine.items():
        yield ROUNDS_OF.fact(", ".join(map(str, sorted(rounds))), name)


_BRING_SAME = "use the same on all machines: kit fleet worker --cache-from PLACE, or --image a digest"
_ORDER_SAME = "start a new session with --interleave off, or with a slice length for all"


def check_digests(first: Sample, of_first: str, sample: Sample, of_sample: str) -> None:
    """Check that two runs of one arm on two machines have the same image, inputs, scenario and probe. Raises
    UsageError."""
    ours, theirs = dict(first.digests), dict(sample.digests)
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            first_digest, sample_digest = (digests.get(name, "none")[:12] for digests in (ours, theirs))
            raise UsageError(
                f"{sample.arm}: another {name} on {of_sample} ({sample_digest}) than on {of_first} ({first_digest}); "
                "they are not mixed",
                _BRING_SAME if name != RUN_ORDER else _ORDER_SAME,
            )
