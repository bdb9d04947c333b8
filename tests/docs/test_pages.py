"""Every block of every page is run, or says why not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pages import DOCS, ROOT, blocks, run_page, shown
from reader import lay_out

PAGES = sorted(DOCS.rglob("*.md"))
LEARN = [DOCS / name for name in ("tutorial.md", "reading.md", "proving.md")]
"""What a newcomer reads in this order, in one folder, with the demo's models."""
OTHERS = [
    page
    for page in PAGES
    if page not in LEARN
    and any(block.language in ("sh", "python") and not block.why_not for block in blocks(page))
]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "examples" / "README.md"], ids=name)
def test_no_block_escapes_being_run_or_marked(page: Path) -> None:
    """A language that is not run holds no command, and a reason is one."""
    text = page.read_text(encoding="utf-8")
    found = list(blocks(page))
    assert len(found) * 2 == len(re.findall(r"^ *```", text, re.M)), "a fence is not read"
    marks = re.findall(r"^<!-- (?:not run|file)(?:: .+ -->\n```|, this page: .+ -->$)", text, re.M)
    assert len(re.findall("<!-- (?:not run|file)", text)) == len(marks), "a mark is adrift"
    for block in found:
        assert block.language in ("sh", "python", "text", "yaml", "toml", "csv", ""), block.place
        if block.language in ("", "text"):
            assert not re.search(r"^(\$ |leakbound |pip |python )", block.text, re.M), block.place


def test_an_output_is_known_by_its_words_and_not_by_its_figures() -> None:
    printed = "┃ model ┃ leaks ┃\n│ NPO   │ 0.011 │\nverified: nothing differs.\n"
    assert shown("│ model │ leaks │\n│ NPO │ 0.2 │\n", printed)
    assert shown("model leaks\n[…]\nverified: nothing", printed)
    assert not shown("│ NPO │ none │", printed)
    assert not shown("verified: 3 differ", printed)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and data that every page's folder is a copy of."""
    shelf = tmp_path_factory.mktemp("shelf") / "all"
    shelf.mkdir()
    lay_out(shelf)
    return shelf


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a page is followed in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKBOUND_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHERS, ids=name)
def test_every_block_of_a_page_runs_in_order(page: Path, shelf: Path, place: Path) -> None:
    for each in shelf.iterdir():
        (place / each.name).symlink_to(each)
    assert run_page(page, {}) == []


@pytest.mark.slow
def test_a_newcomer_can_follow_the_pages_from_the_first(place: Path) -> None:
    names: dict[str, Any] = {}
    assert [wrong for page in LEARN for wrong in run_page(page, names)] == []
