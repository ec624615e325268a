"""The class of a machine: machines of a class are equal, and a fleet's penalty is shown by class. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from kit.model.fact import CLASS, CPU, GUEST, KERNEL, MEMORY

_UNKNOWN = "unknown"
#: Words of a CPU's name that distinguish no models.
_IDLE_WORDS = re.compile(r"\((?:R|TM|tm|r)\)|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@.*$")


def class_of(facts: Mapping[str, str]) -> str:
    """Return the user's name of the machine's class, else its main conditions: ``Xeon Gold 6338 ×64, 256 GiB, Linux
    6.1.0``. A guest's class also says that it is one."""
    name = CLASS.text(facts)
    if name:
        return name
    conditions = f"{_cpu(CPU.text(facts))}, {_memory(MEMORY.text(facts))}, {_kernel(KERNEL.text(facts))}"
    guest = GUEST.text(facts, "none")
    return conditions if guest == "none" else f"{conditions}, guest {guest}"


def _cpu(text: str) -> str:
    name, _, details = text.partition(", ")
    cores = re.match(r"\d+", details)
    short = " ".join(_IDLE_WORDS.sub(" ", name).split()) or _UNKNOWN
    return f"{short} ×{cores[0]}" if cores else short


def _memory(text: str) -> str:
    """Return the memory's nominal size: of 64 GiB a kernel shows 62.8, or 62.6."""
    match = re.match(r"([\d.]+) GiB", text)
    size = float(match[1]) if match else 0.0
    if size < 0.5:
        return f"memory {_UNKNOWN}" if not match else text
    step = 2.0 ** math.floor(math.log2(size)) / 8
    return f"{math.ceil(size / step) * step:g} GiB"


def _kernel(text: str) -> str:
    release = re.match(r"\d+(\.\d+)*", text)
    return f"Linux {release[0]}" if release else _UNKNOWN
