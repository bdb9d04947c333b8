"""`verify` of weighted draws: their scores, and their probabilities under both models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import leakbound
from knowing import MODEL, OTHER, TASK, engine
from leakbound.certificate import verify
from leakbound.evaluation import evaluate
from leakbound.evaluation.drawing.weigh import Proposal, weigh_arm
from leakbound.evaluation.statements.bound import bound_run
from leakbound.scorers import make_scorer
from leakbound.store import Run, load, tables
from leakbound.study import Prove, Weighing
from leakbound.types import Decoding

DECODINGS = [Decoding(max_new_tokens=8), Decoding(max_new_tokens=8, top_p=0.93)]


@pytest.fixture(params=DECODINGS, ids=lambda decoding: decoding.name)
def weighed(request: Any, tmp_path: Path) -> Path:
    """A certified run with weighted draws, a part of them by another model."""
    who, path = engine(MODEL, "model"), tmp_path / "run"
    run = evaluate(who, TASK, n=64, prove=Prove(3, ("none",)), out=path, decodings=(request.param,))
    scorer = make_scorer("contains")
    proposal = Proposal(engine(OTHER, "other"), lambda query: query)
    assert weigh_arm(run.arms["target"], who, proposal, scorer, Weighing(300)) == []
    certify(run)
    return path


def certify(run: Run) -> None:
    (run.path / "certificate.json").unlink(missing_ok=True)
    bound_run(run, [make_scorer("contains")])
    leakbound.certify(run.path, max_leak=0.5, scorer="contains")


def checks(path: Path, **models: Any) -> dict[str, Any]:
    found = verify(path / "certificate.json", path, **models)
    return {check.name: check for check in found.checks}


def forge(path: Path, **changed: Any) -> None:
    """Change a stored draw that both models may give, and write a certificate for it."""
    (file,) = (path / "arms" / "target" / "weighed").glob("*.parquet")
    meta, table = tables.read_meta(file), tables.read_table(file)
    rows: list[dict[str, Any]] = table.to_pylist()
    one = next(row for row in rows if min(row["logprob"], row["proposal_logprob"]) > -math.inf)
    for name, change in changed.items():
        one[name] = change(one[name]) if callable(change) else change
    del meta["digest"]
    tables.write_table(file, pa.Table.from_pylist(rows, schema=table.schema), meta)
    certify(load(path))


def test_both_models_give_the_stored_probabilities(weighed: Path) -> None:
    who, other = engine(MODEL, "model"), engine(OTHER, "other")
    found = checks(weighed, model=who, proposal=other)
    assert {found[name].status for name in ("scores", "log-probabilities", "weights")} == {"ok"}
    assert found["weights"].says.endswith("and the one that proposed")
    alone = checks(weighed, model=who)["weights"]
    assert alone.status == "ok"
    assert "name it with --with-proposal" in alone.says
    assert "weights" not in checks(weighed)


def test_another_model_that_is_said_to_have_proposed(weighed: Path) -> None:
    who = engine(MODEL, "model")
    found = checks(weighed, model=who, proposal=who)["weights"]
    assert found.status == "differs"
    assert "question 'q', its weighted draw" in found.differences[0].where


@pytest.mark.parametrize("name", ["logprob", "proposal_logprob"])
def test_a_forged_probability(weighed: Path, name: str) -> None:
    least = name.replace("logprob", "least")
    lower = {name: lambda p: p - 1e-3, least: lambda p: p - 1e-3}
    forge(weighed, **lower)
    found = checks(weighed, model=engine(MODEL, "model"), proposal=engine(OTHER, "other"))
    (difference,) = found["weights"].differences
    assert difference.certificate == pytest.approx(difference.found - 1e-3)


def test_a_forged_score_and_text(weighed: Path) -> None:
    forge(weighed, score=lambda score: 1 - score)
    assert checks(weighed)["scores"].status == "differs"
    forge(weighed, score=lambda score: 1 - score, text="another text")
    model = checks(weighed, model=engine(MODEL, "model"))["log-probabilities"]
    (difference,) = model.differences
    assert difference.where.endswith("its text")


def test_margins_are_no_forgery(weighed: Path) -> None:
    who, other = engine(MODEL, "model"), engine(OTHER, "other")
    who.margin = other.margin = 1e-2
    less = dict.fromkeys(("least", "logprob", "most"), lambda p: p - 5e-3)
    forge(weighed, **less)
    assert checks(weighed, model=who, proposal=other)["weights"].status == "differs"
    forge(weighed, most=lambda p: p + 5e-3)
    assert checks(weighed, model=who, proposal=other)["weights"].status == "ok"
