"""Names of a file's benchmarks: two benchmarks are two arms, also if they time the same command. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def distinct(names: Sequence[tuple[str, str]]) -> list[str]:
    """Return one name for each benchmark. ``names``: its short and its long one. The short one is taken if no other
    benchmark has it, else the long one, with a number if others have that as well."""
    short, long = (Counter(pair[place] for pair in names) for place in (0, 1))
    uses: Counter[str] = Counter()
    chosen = []
    for pair in names:
        name = pair[0] if short[pair[0]] == 1 else pair[1]
        if name == pair[1] and long[name] > 1:
            uses[name] += 1
            name = f"{name} ({uses[name]})"
        chosen.append(name)
    return chosen


def with_parameters(name: str, parameters: Mapping[str, str]) -> str:
    """Return the name with its parameters, as hyperfine shows them."""
    details = ", ".join(f"{key} = {value}" for key, value in parameters.items())
    return f"{name} ({details})" if details else name
