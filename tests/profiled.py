"""A session with traced rounds, made up: what its arm costs more is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kit.model.profile import ENGINE, LOOP, WORKLOAD, Stack, make_profile
from kit.model.sample import Phase, Sample
from kit.model.session import Session
from tests.nights import night

QUANTUM = 0.002
ARM = "layer:overlay2"
_OPEN = (WORKLOAD, "cc1", "entry_SYSCALL_64_after_hwframe", "do_syscall_64", "path_openat")
_FORK, _FORKED = (WORKLOAD, "sh"), ("kernel_clone", "dup_mm")
#: Seconds of CPU on the baseline.
BASE: Mapping[Stack, float] = {
    (WORKLOAD, "cc1", "[cc1]"): 8.0,
    (WORKLOAD, "cc1", "malloc (libc.so.6)"): 1.5,
    (*_OPEN, "link_path_walk"): 0.8,
    (*_OPEN, "do_open", "ext4_file_open"): 0.4,
    (WORKLOAD, "as", "[as]"): 0.7,
    (*_FORK, "clone3 (libc.so.6)", *_FORKED): 0.5,
    (LOOP, "kworker", "loop_process_work", "lo_rw_aio"): 0.3,
    (ENGINE, "dockerd", "runtime.<b>&amp;mcall (dockerd)"): 0.05,
}
#: What the arm spends besides, and what it does not.
MORE: Mapping[Stack, float] = {
    (*_OPEN, "do_open", "ovl_open", "backing_file_open"): 0.6,
    (*_OPEN, "link_path_walk", "ovl_lookup", "ovl_path_next"): 0.4,
    (*_OPEN, "do_open", "ext4_file_open"): -0.3,
}


#: The same work by another caller, as where a container's seccomp refuses clone3.
CALLERS: Mapping[Stack, float] = {
    (*_FORK, "clone3 (libc.so.6)", *_FORKED): -0.5,
    (*_FORK, "__clone (libc.so.6)", *_FORKED): 0.5,
}


def profiled_session(seed: int = 5, rounds: int = 3, more: Mapping[Stack, float] = MORE) -> Session:
    """The rounds of ``night``, and traced ones after them. ``more``: what the arm spends besides."""
    session, dice = night(1, 0.1), np.random.default_rng(seed)
    arm = {stack: BASE.get(stack, 0.0) + more.get(stack, 0.0) for stack in {**BASE, **more}}
    traced = [
        _sample(name, round_, truth, dice)
        for round_ in range(1, rounds + 1)
        for name, truth in (("bare", BASE), (ARM, arm))
    ]
    return replace(session, id="20260101-000000-flam", samples=(*session.samples, *traced))


def _sample(arm: str, round_: int, truth: Mapping[Stack, float], dice: np.random.Generator) -> Sample:
    counts = {stack: int(dice.poisson(max(seconds, 0.0) / QUANTUM)) for stack, seconds in truth.items()}
    stacks = {stack: count * QUANTUM for stack, count in counts.items() if count}
    profile = make_profile("cpu-clock", stacks, sum(counts.values()), 7)
    phase = Phase("build", "ok", real=10.0, profiles=(profile,))
    return Sample(arm, round_, "traced", "ok", 0.0, (phase, Phase("clean", "ok", real=1.0)))
