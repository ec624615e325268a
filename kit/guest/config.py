"""The configuration of a kernel (Documentation/kbuild/kconfig-language.rst): what a fragment asks for, and whether it
is in the .config that came of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_SET = re.compile(r"(CONFIG_\w+)=(\S.*)")
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")
_NO = "n"


def options(text: str) -> dict[str, str]:
    """Each option with its value, ``n`` where it is said not to be set. Raises ValueError for a line that is no option,
    comment or blank."""
    found = {}
    for line in text.splitlines():
        if match := _SET.fullmatch(line):
            found[match[1]] = match[2]
        elif match := _UNSET.fullmatch(line):
            found[match[1]] = _NO
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"'{line[:60]}' is no option of a kernel")
    return found


def refused(wanted: Mapping[str, str], config: str) -> Iterator[str]:
    """What was asked for and is otherwise in a .config, as "CONFIG_X=y (is n)": an option that it depends on is
    missing, or this Linux does not know it."""
    given = options(config)
    for name, value in wanted.items():
        found = given.get(name, _NO)
        if found != value:
            yield f"{name}={value} (is {found})"
