"""The index of a folder in a real browser: quiet, accessible, sorted and filtered."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from opened import browsed
from shelves import fill

from leakbound.reporting.index import write_index
from report_runs import unfinish

pytestmark = pytest.mark.browser
HOSTILE = "<img src='https:∕∕example.invalid' onerror=alert(1)> \u202e\u2028"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a browser's findings in the index of complete, broken and unfinished runs."""
    folder = fill(tmp_path_factory.mktemp("seen") / "runs", full=0.6, npo__run=0.1)
    unfinish(Path(shutil.copytree(folder / "full", folder / "half")))
    torn = Path(shutil.copytree(folder / "full", folder / HOSTILE))
    (torn / "estimates.parquet").write_bytes(b"PAR1")
    (folder / "empty").mkdir()
    (folder / "empty" / "run.json").write_text('{"</script>": "\\u0000"}')
    write_index(folder)
    return browsed("index_browser.js", folder)


def test_the_console_stays_empty_and_nothing_is_fetched(seen: dict[str, Any]) -> None:
    assert seen["errors"] == []
    assert all(url.startswith("file://") and url.endswith(".html") for url in seen["requests"])


def test_axe_finds_nothing_and_nothing_is_too_wide(seen: dict[str, Any]) -> None:
    assert len(seen["looks"]) == 6
    assert [look for look in seen["looks"] if look["violations"] or look["over"] > 0] == []


def test_rows_are_sorted_and_filtered(seen: dict[str, Any]) -> None:
    use = seen["use"]
    up, down = use["sorted"]
    assert len(up) == 2
    assert up == sorted(up) == down[::-1]
    assert (use["searched"], use["count"]) == (["npo/run"], "1 of 5 shown")
    assert len(use["damaged"]) == 2
    assert "empty" in use["damaged"]
    assert sorted(use["uncontrolled"]) == ["full", "npo/run"]
    assert "leaks" in use["page"]
    assert set(use["after"]) >= {"full", "npo/run"}


def test_all_rows_show_without_script(seen: dict[str, Any]) -> None:
    assert seen["plain"] == {"rows": 5, "form": False}
