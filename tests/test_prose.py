"""The pages keep the style: short lines and sentences, the words of the glossary, and output that this kit prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.cli import cli
from kit.cli.pages.parts import MARK, parts
from tests.generated import generate
from tests.glossary import avoided_words

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks").rglob("RESULTS.md"))
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"), *RESULTS])
LONGEST_LINE, LONGEST_SENTENCE, MEAN_SENTENCE = 120, 25, 18
GENERATED = re.compile(r"^<!-- output: .*?^<!-- end -->", re.M | re.S)
pages = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the kit is tested without its documents")


def prose(text: str) -> str:
    """Return the text without code, addresses and markup; lines stay where they are."""
    for pattern in (r"^ *```.*?^ *```", r"^    \S.*?$(?=\n\n|\Z)", r"<!--.*?-->"):
        text = re.sub(pattern, lambda match: "\n" * match[0].count("\n"), text, flags=re.M | re.S)
    text = re.sub(r"``?[^`]+``?", lambda match: "code" + "\n" * match[0].count("\n"), text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"https?://\S+|[*_]{1,2}(?=\w)|(?<=\w)[*_]{1,2}", "", text)


def sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each sentence, and whether it is of a paragraph or a list (a cell of a table has no mean)."""
    paragraph: list[str] = []
    for line in [*prose(text).splitlines(), ""]:
        item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if not line.strip() or item or line.lstrip().startswith(("|", "#")):
            yield from ((found, True) for found in _split(" ".join(paragraph)))
            paragraph = []
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield from ((found, False) for clause in re.split("[;:] ", cell) for found in _split(clause))
        elif line.strip() and not line.startswith("#"):
            paragraph.append(line.strip()[len(item[0].strip()) :] if item else line.strip())


def _split(text: str) -> list[str]:
    """A sentence ends with a full stop before a blank; that of an initial or an abbreviation is none."""
    parts = re.split(r"(?<!\bal)(?<!\bch)(?<!\bvs)(?<!\b[A-Z])[.!?](?=[)*\"']*(?:\s|$))", text)
    return [part.strip() for part in parts if len(part.split()) > 1]


def count_words(sentence: str) -> int:
    """Intervals in brackets are figures, no words."""
    plain = re.sub(r"\[[-+−\d][^\]]*\]", "", sentence)
    return len([word for word in plain.split() if re.search(r"[^\W\d_]", word)])


@pages
def test_lines_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    long = [number for number, line in enumerate(lines, 1) if len(line) > LONGEST_LINE and not line.startswith("|")]
    code = {number for number in long if _in_code(lines, number)}
    assert not [number for number in long if number not in code]


def _in_code(lines: list[str], number: int) -> bool:
    """A command in a block of its own may be as long as it is."""
    return sum(line.lstrip().startswith("```") for line in lines[:number]) % 2 == 1


@pages
def test_sentences_are_short(path: Path) -> None:
    found = list(sentences(path.read_text(encoding="utf-8")))
    long = [text for text, _ in found if count_words(text) > LONGEST_SENTENCE]
    assert not long
    lengths = [count_words(text) for text, paragraph in found if paragraph]
    assert sum(lengths) <= MEAN_SENTENCE * max(1, len(lengths))


@pages
def test_words_are_those_of_the_glossary(path: Path) -> None:
    assert not [str(item) for item in avoided_words(prose(path.read_text(encoding="utf-8")))]


@pages
def test_no_line_is_a_word_in_capitals(path: Path) -> None:
    """Such a line is a place where somebody meant to write."""
    assert not re.findall(r"^[A-Z]{4,}$", prose(path.read_text(encoding="utf-8")), re.MULTILINE)


def test_scripts_that_pages_name_exist() -> None:
    scripts = {path.name for path in (ROOT / "benchmarks").rglob("*.py")}
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES if path.name != "CHANGELOG.md")
    results = "".join(path.read_text(encoding="utf-8") for path in RESULTS)
    paths, names = (
        set(re.findall(r"`(benchmarks/[a-z_/]+\.[a-z]+)", text)),
        set(re.findall(r"`(?:benchmarks/[a-z]+/)?([a-z_]+\.py)\b", results)),
    )
    assert len(paths) > 10 and len(names) > 15
    assert not {path for path in paths if not (ROOT / path).is_file()} and names <= scripts


def test_pages_link_to_the_glossary() -> None:
    without = {"glossary.md", "architecture.md", "sources.md"}
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name not in without]
    assert not [path for path in pages if "glossary.md" not in path.read_text(encoding="utf-8")]


def test_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_explanations_are_pages_not_books() -> None:
    """Counted in words by hand: the method has the length of a paper, all others that of a page."""
    texts = {path.name: GENERATED.sub("", path.read_text()) for path in (ROOT / "docs/explanation").glob("*.md")}
    lengths = {name: len(text.split()) for name, text in texts.items()}
    assert not {name: words for name, words in lengths.items() if words > (4500 if name == "method.md" else 2000)}
    assert sum(lengths.values()) <= 15_000


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("One two three. Four five.", [3, 2]),
        ("- one two\n- three four five", [2, 3]),
        ("| one two | three four |", [2, 2]),
        ("A figure of +5.6 % [+3.1, +8.2] is one; T. Kalibera two.", [8]),
        ("```\nfar too many words here\n```\nOne `kit compare --all` two.", [3]),
    ],
)
def test_sentences_are_found(text: str, lengths: list[int]) -> None:
    assert [count_words(found) for found, _ in sentences(text)] == lengths


def test_words_of_the_left_column_are_found() -> None:
    found = avoided_words("What the kit told\nus; all at\nonce. Untoldable.")
    assert [(item.line, item.word) for item in found] == [(1, "told"), (2, "all at once")]


@pytest.mark.parametrize("page", generate().SHOWN)
def test_a_page_shows_what_the_kit_prints(page: str) -> None:
    assert generate().shown(page) == (ROOT / page).read_text(encoding="utf-8"), "run: python docs/generate.py"


@pytest.mark.parametrize("page", generate().MACHINES)
def test_a_page_names_the_machines_of_the_table(page: str) -> None:
    assert generate().MACHINES[page].search((ROOT / page).read_text(encoding="utf-8"))
    assert generate().with_machines(page) == (ROOT / page).read_text(encoding="utf-8"), "run: python docs/generate.py"


def test_every_generated_part_is_named_and_has_a_page() -> None:
    made = parts(cli)
    named = [name for path in PAGES for name in MARK.findall(path.read_text(encoding="utf-8"))]
    assert sorted(named) == sorted(made)
    assert all(len(made[name]()) > 100 for name in named)


def test_the_site_has_whole_pages() -> None:
    page = generate().on_page_markdown("see [it](../../images/kernel/image.toml)\n<!-- generate: exit-codes -->\n")
    assert page.startswith("see `images/kernel/image.toml`\n| code |")
