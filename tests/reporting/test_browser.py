"""The page in a real browser: quiet, accessible, narrow enough, and usable by keyboard."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import pytest
from opened import browsed

from leakbound.reporting.page import write_report
from leakbound.store import Run

pytestmark = pytest.mark.browser
RUNS = ["runs", "proved", "decodings", "explored", "rewritten", "hostile"]


@pytest.fixture(scope="module", params=RUNS)
def seen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Return the browser's findings in the report on these runs."""
    runs: dict[str, Run] = request.getfixturevalue(request.param)
    page = write_report(runs, tmp_path_factory.mktemp("page") / "report.html")
    first = next(iter(runs.values()))
    return browsed("browser.js", page) | {"questions": len(first.prompts), "of": request.param}


def test_the_console_stays_empty_and_nothing_is_fetched(seen: dict[str, Any]) -> None:
    assert seen["errors"] == []
    wanted = [url for url in seen["requests"] if not url.startswith("data:")]
    assert all(url.startswith("file://") for url in wanted)
    assert len({url.partition("#")[0] for url in wanted}) == 1


def test_it_is_accessible_and_nothing_is_clipped_or_scrolls_sideways(seen: dict[str, Any]) -> None:
    """In light and dark, at 1,440, 1,280 and 390 pixels, and with an open question."""
    looks = seen["looks"]
    assert [look["violations"] for look in looks] == [[], [], []]
    assert all(look["over"] <= 0 and look["wide"] <= 0 for look in looks)
    assert [look["clipped"] for look in looks[:2]] == [[], []]
    assert seen["phone"] == []  # labels of the first chart do not overlap


def test_the_first_screen_has_the_cards_and_where_the_picture_begins(seen: dict[str, Any]) -> None:
    wide, narrow = seen["wide"], seen["narrow"]
    assert wide["words"]
    assert max(wide["cards"]) <= 800
    assert narrow["cards"][0] < narrow["picture"]["top"]
    if seen["of"] != "hostile":  # hostile names are endless
        assert wide["picture"]["bottom"] <= 800
        assert narrow["picture"]["top"] < 844 - 20


def test_it_prints_without_controls_and_without_a_cut(seen: dict[str, Any]) -> None:
    paper = seen["paper"]
    assert paper["cut"] == 0
    assert (paper["controls"], paper["folded"]) == ([], 0)
    assert paper["pages"] <= 3 or seen["of"] not in ("runs", "proved")


def test_a_question_opens_by_link_and_by_key(seen: dict[str, Any]) -> None:
    use = seen["use"]
    assert [use["opened"], use["closed"]] == ["true", "false"]
    assert use["said"]["statements"] > 1
    assert use["said"]["texts"] > 1
    assert use["said"]["marked"] > 0 or seen["of"] == "explored"  # explored texts contain no answer


def test_tables_sort_up_and_down_as_numbers(seen: dict[str, Any]) -> None:
    up, down = seen["use"]["sorted"]
    assert len(set(up)) > 1
    assert up == sorted(up)
    assert down == up[::-1]


def test_a_search_counts_its_hits(seen: dict[str, Any]) -> None:
    some, none, every = (int(shown.split()[0]) for shown in seen["use"]["found"])
    assert none == 0
    assert every == seen["questions"]
    assert 0 < some <= every


def test_the_data_of_charts_are_saved(seen: dict[str, Any]) -> None:
    header, *lines = csv.reader(StringIO(seen["use"]["saved"]))
    assert "question" in header[:2]
    assert lines
    assert {len(line) for line in lines} == {len(header)}


def test_everything_but_details_shows_without_script(seen: dict[str, Any]) -> None:
    plain = seen["plain"]
    assert plain["shown"] == seen["questions"]  # charts of other scorers are folded
    assert (plain["form"], plain["picture"]) == (False, True)
