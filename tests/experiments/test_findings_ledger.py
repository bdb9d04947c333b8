"""The ledger: written from stored runs and kept figures, and equal to the page in the docs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import Any

import ledger
import pytest
from claims import EVERY
from ledger import Kept, cell
from made_up import ask, lab_of
from quantities import Figure
from sizes import BLOCKS, CONTROL

from pages import DOCS
from unlearning import _cell

KEPT, PAGE = DOCS / "reproduce" / "kept.json", DOCS / "reproduce" / "findings.md"
FIGURES = (Figure(0.1, 0.0, 0.2, 0.99), Figure(0.3, 0.2, 0.4, 0.99))
CLAIM = EVERY["3a-hidden"]


def written(page: Path, *arguments: Path | str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["ledger.py", *map(str, arguments), "--out", str(page)])
        ledger.main()
    return page.read_text("utf-8")


def test_the_page_in_the_docs_is_what_the_kept_figures_make(tmp_path: Path) -> None:
    copies = [Path(copy(file, tmp_path)) for file in (PAGE, KEPT)]
    assert written(copies[0], "--kept", copies[1]) == PAGE.read_text("utf-8")


def test_a_cell_has_the_verdict_its_reasons_and_the_figures() -> None:
    claim = EVERY["k-gd"]
    assert cell(claim, "small", None) == "–"
    assert cell(claim, "small", ()) == "not run"
    text = cell(claim, "small", FIGURES)
    assert text.startswith("undecided: 0.1")
    assert text.count("[") == 2
    assert cell(claim, "small", FIGURES[1:] * 2).startswith("**agrees**: ")
    untested = replace(claim, untested={"small": "A B"})
    assert cell(untested, "small", FIGURES).startswith("not tested (A B): ")


@pytest.mark.slow
def test_runs_come_before_kept_figures_and_are_kept(tmp_path: Path) -> None:
    lab, file, out = lab_of(tmp_path / "runs" / "small"), tmp_path / "k.json", tmp_path / "p.md"
    for seed, leaks in ((0, 0.1), (1, 0.15)):
        ask(lab, "NPO", seed, leaks)
        ask(lab, CONTROL, seed, 0.0)
    first = written(out, tmp_path / "runs", "--kept", file)
    (row,) = (line for line in first.splitlines() if line.startswith("|3a-hidden|"))
    assert "**agrees**" in row
    assert row.endswith("|not run|")
    assert written(out, "--kept", file) == first  # without the runs


@pytest.mark.parametrize("text", ["{", "[1]", '{"small": 1}'])
def test_nothing_to_write_and_bad_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "kept.json"
    file.write_text(text)
    with pytest.raises(SystemExit, match=r"ledger\.py did not write"):
        Kept.open(file)
    monkeypatch.setattr("sys.argv", ["ledger.py", str(tmp_path), "--out", str(tmp_path / "p.md")])
    with pytest.raises(SystemExit):
        ledger.main()
    assert "neither runs nor kept figures" in capsys.readouterr().err


def test_a_figure_of_other_settings_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings include those of the method that another method continues from."""
    kept = Kept()
    kept.put(CLAIM, "small", FIGURES)
    assert kept.get(CLAIM, "small") == FIGURES
    changes: list[dict[str, Any]] = [{"later": 1}, {"name": "x"}, {"runs": {"plain": ["NPO"]}}]
    for change in [*changes, {"quantity": CLAIM.quantity | {"control": False}}]:
        assert kept.get(replace(CLAIM, **change), "small") == ()
    after = replace(CLAIM, name="after", runs={"plain": ["NPO then entropy"]})
    kept.put(after, "small", FIGURES)
    block = BLOCKS["builtin"]
    for change, taken in (
        ({"dtype": "bfloat16"}, False),
        ({"methods": {**block["methods"], "NPO": "npo:beta=9"}}, False),
        ({"methods": {**block["methods"], "GA": "gd"}}, True),
    ):
        monkeypatch.setattr(ledger, "BLOCKS", {**BLOCKS, "builtin": block | change})
        assert bool(kept.get(after, "small")) is taken


def test_upper_bounds_of_several_models_are_shown_by_the_largest() -> None:
    assert _cell("S_mean", [0.1, 0.3]) == "0.200 (0.100–0.300)"
    assert _cell("S_mean at most", [0.1, 0.3001]) == "0.31"
