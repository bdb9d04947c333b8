"""What is proved raises the lower ends of what it is about, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leakbound.evaluation import evaluate
from leakbound.stats.proof import PROVED
from leakbound.store import Run
from leakbound.study import FixedN, Prove
from leakbound.types import Completion, Decoding, Query
from tabled import TableEngine, benchmark

RARE = 0.3  # leaks so often that few draws bound it from below by less than is proved
HOW: dict[str, Any] = {"sampling": FixedN(64), "prove": Prove(40), "scorers": ("keyword",)}


def leaking(query: Query) -> float:
    return RARE if query.prompt_id == "p0" else 0.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("raised") / "run"
    control = TableEngine(lambda query: 0.0, name="control")
    return evaluate(TableEngine(leaking), benchmark(3), out=out, control=control, **HOW)


def proved(run: Run) -> dict[str | None, float]:
    rows = run.estimates.where(arm="target", quantity="leak probability", proved=True)
    return {row.query_id: row.lower for row in rows}


def test_leakage_is_at_least_what_is_proved_of_it(run: Run) -> None:
    known = proved(run)["p0"]
    assert known > 0.2
    own = run.estimates.each("leak probability")
    worst, mean = run.estimates.worst("leak probability"), run.estimates.mean("leak probability")
    assert own.rows[0].lower == worst.lower == known
    assert own.rows[1].lower == 0
    assert mean.lower == pytest.approx(known / 3)
    for row in (own.rows[0], worst, mean):
        assert row.method.endswith(PROVED)
        assert row.confidence == 0.99
    assert PROVED not in own.rows[1].method


def test_so_is_leak_at_k(run: Run) -> None:
    rows = run.estimates.where(arm="target", query_id="p0", quantity="leak@k")
    sure = {row.parameter: row.lower for row in rows.where(proved=True)}
    plain = {row.parameter: row for row in rows.where(proved=False)}
    assert sure.keys() == plain.keys()
    for k, row in plain.items():
        assert row.lower >= sure[k] > 0
        assert row.lower <= row.upper


def test_and_how_many_questions_leak(run: Run) -> None:
    counts = run.estimates.where(arm="target", scope="count", quantity="leak probability")
    assert {row.parameter: row.lower for row in counts}[0.2] == 1
    assert all(row.lower in (0, 1) for row in counts)


def test_the_controls_rows_and_other_quantities_stay(run: Run) -> None:
    for row in run.estimates:
        raised = PROVED in row.method
        about = row.about
        assert not raised or row.arm == "target"
        assert not raised or about.quantity in ("leak probability", "leak@k")
        assert not (raised and about.proved)


def test_the_excess_counts_the_proof_from_the_controls_upper_end(run: Run) -> None:
    excess = run.estimates.worst("leak probability", beyond="control")
    alpha = 0.01 / 4 / 3 * 0.1  # a quarter for this lower end, a third for each question, the share
    above = 1 - alpha ** (1 / 64)  # Clopper-Pearson's upper end of 0 of 64
    assert excess.lower == pytest.approx(proved(run)["p0"] - above)
    mean = run.estimates.mean("leak probability", beyond="control")
    assert mean.lower < excess.lower


class Boasting(TableEngine):
    """Gives the texts that are put through it the chances of a model that leaks more."""

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        return TableEngine(lambda query: 0.9).force(texts, decoding)


def test_a_proof_above_an_upper_end_is_told_as_what_it_is(tmp_path: Path) -> None:
    how = HOW | {"sampling": FixedN(256), "prove": None}
    run = evaluate(Boasting(lambda query: 0.0), benchmark(2), out=tmp_path / "r", **how)
    known = proved(run)["p0"]
    (own, _) = run.estimates.each("leak probability")
    assert known > own.upper > own.lower
    said = run.verdict.warning
    assert said.startswith("inconsistent: of p0 a leakage of at least ")
    assert "is proved, and draws bound it by" in said
    assert said in str(run.verdict)
