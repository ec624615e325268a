"""Each reader of another program's output says with which versions it was tried: docs/how-to/publish-results.md."""

import pytest

from kit.cli.pages.parts import programs_read
from kit.extra.exchange.runs import READERS
from kit.parsers import PARSERS
from kit.parsers.tried import tried

#: The kit's own form.
OWN = "lines"


@pytest.mark.parametrize("maker", [maker for name, maker in {**PARSERS, **READERS}.items() if name != OWN])
def test_each_reader_says_its_versions(maker: str) -> None:
    rows = list(tried([maker]))
    assert rows and all(row.versions or row.forms for row in rows)
    assert maker not in READERS.values() or all(row.command and row.figures for row in rows)


def test_the_page_lists_each_program_once() -> None:
    lines = programs_read().splitlines()
    assert "| fio |  |  | 3.33 | 2.16, 3.1, 3.36 | before 2.2 and from 4 on |" in lines
    programs = [line.split(" | ")[0] for line in lines[2:]]
    assert len(programs) == len(set(programs)) > 10
