"""The configuration of a kernel (Documentation/kbuild/kconfig-language.rst): which options a fragment requests, and
whether the resulting .config has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_SET = re.compile(r"(CONFIG_\w+)=(\S.*)")
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")
_NO = "n"


def options(text: str) -> dict[str, str]:
    """Return each option with its value, ``n`` if it is not set. Raises ValueError for a line that is not an option,
    comment or blank."""
    found = {}
    for line in text.splitlines():
        if match := _SET.fullmatch(line):
            found[match[1]] = match[2]
        elif match := _UNSET.fullmatch(line):
            found[match[1]] = _NO
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"'{line[:60]}' is not an option of a kernel")
    return found


def refused(wanted: Mapping[str, str], config: str) -> Iterator[str]:
    """Return the requested options that differ in a .config, as "CONFIG_X=y (is n)": a dependency is missing, or this
    Linux does not have the option."""
    given = options(config)
    for name, value in wanted.items():
        found = given.get(name, _NO)
        if found != value:
            yield f"{name}={value} (is {found})"
