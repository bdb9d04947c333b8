"""The local page in a real browser, over a folder in which one run grows meanwhile."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from shelves import engine

from canned import CannedEngine
from leakbound.evaluation import evaluate
from leakbound.types import Decoding, Draws, Failure, Query, Sample
from leakbound.viewing import pages, serving
from leaky import benchmark
from report_runs import browser_lacks, unfinish

pytestmark = pytest.mark.browser
SCRIPT = Path(__file__).with_name("view_browser.js")
HOSTILE = "<img src='https://example.invalid' onerror=alert(1)> \u202e\u2028"


class Slow:
    """An engine that draws each part when the browser has seen what was there before it."""

    def __init__(self, engine: CannedEngine) -> None:
        self.engine, self.usage, self.fingerprint = engine, engine.usage, engine.fingerprint
        self.check = engine.check
        self.turns = threading.Semaphore(0)

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        if not decoding.greedy:
            self.turns.acquire()
        return self.engine.generate(queries, decoding, draws)


@pytest.fixture(scope="module")
def seen(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a browser finds in a folder of complete runs, wrecks, and one that grows."""
    if lacking := browser_lacks():
        pytest.skip(f"needs {lacking}")
    folder = Path(shutil.copytree(kept, tmp_path_factory.mktemp("seen") / "runs"))
    shutil.copytree(folder / "full", folder / f"{HOSTILE}".replace("/", "∕"))
    torn = Path(shutil.copytree(folder / "full", folder / "torn"))
    (torn / "estimates.parquet").write_bytes(b"PAR1")
    unfinish(Path(shutil.copytree(folder / "full", folder / "half")), parts=1)
    (folder / "empty").mkdir()
    (folder / "empty" / "run.json").write_text('{"</script>": "\\u0000"}')
    slow = Slow(engine(0.3, "</script><script>alert(1)</script>"))
    respond = pages.Pages.respond

    def asked(self: pages.Pages, parts: tuple[str, ...], query: Any) -> Any:
        if parts == ("next-part",):
            slow.turns.release()
        return respond(self, parts, query)

    drawing = threading.Thread(
        target=lambda: evaluate(slow, benchmark(), out=folder / "growing", n=2048)
    )
    drawing.start()
    while not (folder / "growing" / "run.json").exists():
        time.sleep(0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages.Pages, "respond", asked)
        with serving(folder) as address:
            command = ["node", str(SCRIPT), str(shutil.which("chromium")), address]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        slow.turns.release(1000)
        drawing.join()
        assert done.returncode == 0, done.stderr
        return {**json.loads(done.stdout), "address": address}


def test_nothing_runs_that_is_not_ours_and_nothing_is_asked_elsewhere(seen: dict[str, Any]) -> None:
    assert seen["errors"] == []
    assert all(url.startswith(seen["address"]) for url in seen["requests"])


def test_axe_finds_nothing_and_nothing_is_too_wide(seen: dict[str, Any]) -> None:
    assert len(seen["looks"]) >= 9
    assert [one for one in seen["looks"] if one["violations"] or one["over"] > 0] == []


def test_the_list_sorts_and_finds(seen: dict[str, Any]) -> None:
    up, down = seen["list"]["sorted"]
    assert len(up) == 3
    assert up == sorted(up) == down[::-1]
    assert seen["list"]["found"] == ["npo/run"]
    assert sorted(seen["list"]["damaged"]) == ["empty", "torn"]
    by_kind = seen["list"]["verdicts"]
    complete, none, whole = by_kind["uncontrolled"], by_kind["leaks"], by_kind[""]
    assert {"full", "npo/run"} < set(complete["names"])
    assert (len(complete["names"]), complete["none"]) == (3, False)
    assert (none["names"], none["none"]) == ([], True)
    assert len(whole["names"]) == 7
    assert seen["list"]["disabled"] is True
    assert seen["ended"] is False
    assert (seen["plain"], seen["links"]) == ({"rows": 7, "form": False}, 5)


def test_a_run_is_followed_while_it_grows_and_the_list_keeps_its_place(
    seen: dict[str, Any],
) -> None:
    found = seen["follow"]
    assert found["kept"] == {"find": "n", "ticked": 2, "sort": "descending", "focused": "find"}
    assert found["again"] == {"find": "n", "ticked": 2}
    said = found["sentences"]
    assert len(said) > 1
    assert any("of 3 questions are begun" in one for one in said)
    assert not any("Clopper" in one for one in said)
    assert found["report"].startswith("What Slow still leaks")


def test_ticked_runs_are_compared_and_saved(seen: dict[str, Any]) -> None:
    found = seen["compared"]
    assert "keyword: leaderboard, by upper ends" in found["titles"]
    assert found["sortable"] > 0
    (sentence,) = found["said"]
    assert sentence.startswith("run leaks LESS than full: by at least")
    picture = found["picture"]
    assert len(picture["ends"]) == 3
    assert picture["bottom"] < 900  # above the fold
    for left, right, height in picture["ends"]:
        assert picture["left"] < left <= right < picture["right"]
        assert height > 2
    assert found["csv"].splitlines()[0].startswith("scorer,model,baseline,scope")
