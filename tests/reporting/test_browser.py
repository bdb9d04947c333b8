"""The page in a real browser: quiet, accessible, narrow enough, and usable by keyboard."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leakbound.reporting import write_report
from leakbound.store import Run

pytestmark = pytest.mark.browser
SCRIPT = Path(__file__).with_name("browser.js")


def missing() -> str | None:
    """What this machine lacks for the test, with the remedy."""
    if shutil.which("chromium") is None:
        return "chromium (Debian package chromium)"
    if shutil.which("node") is None:
        return "node (Debian package nodejs)"
    for package in ("playwright-core", "axe-core"):
        found = subprocess.run(
            ["node", "-e", f"require.resolve('{package}')"], capture_output=True, check=False
        )
        if found.returncode:
            return f"{package} (npm install {package}; set NODE_PATH to its node_modules)"
    return None


@pytest.fixture(scope="module", params=["runs", "proved", "decodings", "explored", "asked"])
def seen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What a reader of the report on these runs trips over."""
    if lacking := missing():
        pytest.skip(f"needs {lacking}")
    runs: dict[str, Run] = request.getfixturevalue(request.param)
    page = write_report(runs, tmp_path_factory.mktemp("page") / "report.html")
    command = ["node", str(SCRIPT), str(shutil.which("chromium")), str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result | {"questions": len(next(iter(runs.values())).prompts)}


def test_the_console_stays_empty_and_nothing_is_fetched(seen: dict[str, Any]) -> None:
    assert seen["errors"] == []
    assert all(url.startswith("file://") for url in seen["requests"])
    assert len({url.partition("#")[0] for url in seen["requests"]}) == 1


def test_axe_finds_nothing_in_light_and_dark(seen: dict[str, Any]) -> None:
    assert [look["violations"] for look in seen["looks"]] == [[], [], []]


def test_no_sideways_scrolling_at_1280_and_390_pixels(seen: dict[str, Any]) -> None:
    assert all(look["over"] <= 0 for look in seen["looks"])


def test_no_table_of_the_summary_is_clipped_at_1440_and_1280_pixels(seen: dict[str, Any]) -> None:
    assert [look["clipped"] for look in seen["looks"][:2]] == [[], []]


def test_a_question_can_be_linked_chosen_and_reached_from_a_chart(seen: dict[str, Any]) -> None:
    assert seen["use"]["opened"] is True
    assert seen["use"]["chosen"] == 1


def test_tables_sort_up_and_down_as_numbers(seen: dict[str, Any]) -> None:
    up, down = seen["use"]["sorted"]
    assert len(set(up)) > 1
    assert up == sorted(up)
    assert down == up[::-1]


def test_everything_shows_without_script(seen: dict[str, Any]) -> None:
    assert seen["plain"] == {"shown": seen["questions"], "form": False}
