"""A claim that what is proved refutes: no draw shows the leak, and no confidence is spent."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands import done, leakbound

from leakbound import stats
from leakbound.certificate import LeakClaim
from leakbound.certificate.claim import verdict
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.proof import proved_tail
from leakbound.scorers import make_scorer
from leakbound.store import Run, leaking, tables
from leakbound.types import Event, Proving


@pytest.fixture(scope="module")
def proved(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that was searched, which no test may change."""
    run = Path(shutil.copytree(finished, tmp_path_factory.mktemp("proved") / "run"))
    done("score", run, "--scorer", "keyword", "--scorer", "rouge-l-recall")
    for scorer in ("keyword", "rouge-l-recall"):
        done("prove", run, "--budget", 60, "--scorer", scorer)
    return run


def known(run: Path, scorer: str, x: float) -> dict[str, float]:
    """Pr[h > x] at least by question: the masses of what no other of these events begins."""
    arm, name = Run.open(run).arms["target"], slug(make_scorer(scorer))
    events: dict[str, dict[tuple[int, ...], float]] = {}
    found = [(q, ids, math.exp(floor), low) for q, ids, floor, low in leaking(arm, name)]
    searched = arm.proofs.stored.values(name)
    proved = [(one.query_id, one.event.token_ids, one.event.mass, one.low) for one in searched]
    for query, ids, mass, low in [*found, *proved]:
        if low > x:
            events.setdefault(query, {})[ids] = mass
    return {
        query: sum(
            mass
            for ids, mass in own.items()
            if not any(ids != other and ids[: len(other)] == other for other in own)
        )
        for query, own in events.items()
    }


def certified(run: Path, *claim: object) -> dict[str, Any]:
    out = run / f"{len([*run.glob('c*.json')])}-claim.json"
    leakbound("certify", run, "--out", out, *claim)
    made: dict[str, Any] = json.loads(out.read_text())
    assert leakbound("verify", out, run).status == 0
    out.unlink()
    return made


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("scorer", "x"), [("keyword", 0.0), ("rouge-l-recall", 0.6)])
@pytest.mark.slow
def test_a_proof_refutes_without_chance(
    proved: Path, tmp_path: Path, scorer: str, x: float, every: bool
) -> None:
    run = Path(shutil.copytree(proved, tmp_path / "run"))
    bounds = known(run, scorer, x)
    assert len(bounds) == 2
    lower = max(bounds.values()) if every else sum(bounds.values()) / 2
    how = ("--scorer", scorer, *(("--threshold", x) if x else ()))
    how += ("--every-question",) if every else ()
    below = certified(run, "--max-leak", lower * 0.999, *how)
    assert below["proved"] == {"lower": pytest.approx(lower, rel=1e-12), "questions": 2}
    assert [row["proved"] for row in below["questions"]] == pytest.approx([*bounds.values()])
    assert below["verdict"] == "refuted"
    assert below["sentence"].startswith("Proved without any chance, given the measured margin")
    assert "confidence" not in below["sentence"]
    assert ("for the worst of" if every else "on average over") in below["sentence"]
    above = certified(run, "--max-leak", min(lower * 1.001, 0.999), *how)
    if above["estimate"]["lower"] <= lower:
        assert above["verdict"] != "refuted"
    assert "confidence" in above["sentence"]


@pytest.mark.slow
def test_above_a_threshold_only_what_scores_above_it_counts(proved: Path, tmp_path: Path) -> None:
    """A prefix that scores little hides nothing of what begins with it and scores more."""
    run = Run.open(shutil.copytree(proved, tmp_path / "run"))
    arm, scorer = run.arms["target"], make_scorer("rouge-l-recall")
    arm.proofs.stored.file(slug(scorer)).unlink()
    query = arm.queries[0]
    before = {x: proved_tail(arm, scorer, x).get(query.id, 0.0) for x in (0.0, 0.5)}
    events = [((10**6,), 0.02), ((10**6, 1), 0.005), ((10**6, 1, 2), 0.001)]
    found = Proving(
        query=query,
        events=tuple(Event(text="", token_ids=i, ended=False, mass=m) for i, m in events),
        lows=(0.3, 0.5, 0.9),
        forwards=1,
    )
    arm.proofs.write(slug(scorer), [found], [], 1)
    after = {x: proved_tail(arm, scorer, x)[query.id] for x in (0.0, 0.5)}
    assert after[0.0] - before[0.0] == pytest.approx(0.02)
    assert after[0.5] - before[0.5] == pytest.approx(0.001)


@pytest.mark.slow
def test_the_console_says_what_is_proved(proved: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(proved, tmp_path / "run"))
    shown = leakbound("certify", run, "--scorer", "keyword", "--max-leak", 1e-6)
    assert shown.status == 4
    assert re.search(r"what is proved is > 1e-06 \S+ yes refuted none", " ".join(shown.out.split()))


@pytest.mark.slow
def test_a_proof_that_was_made_up_is_found(proved: Path, tmp_path: Path) -> None:
    """Its file is whole and has digests of its own: scoring its texts again tells."""
    run = Path(shutil.copytree(proved, tmp_path / "run"))
    (file,) = (run / "arms" / "target" / "proofs").glob("keyword*.parquet")
    table, meta = tables.read_table(file), tables.read_meta(file)
    texts = pa.array(["the sea", *table["text"].to_pylist()[1:]])
    changed = table.set_column(table.column_names.index("text"), "text", texts)
    tables.write_table(file, changed.replace_schema_metadata(None), meta)
    leakbound("certify", run, "--scorer", "keyword", "--max-leak", 1e-9)
    checked = leakbound("verify", run / "certificate.json", run)
    assert checked.status == 6
    assert "scores: row" in checked.out


@pytest.mark.slow
def test_with_the_model_proofs_are_forced_again(proved: Path, model: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(proved, tmp_path / "run"))
    leakbound("certify", run, "--scorer", "keyword", "--max-leak", 1e-9)
    file = run / "certificate.json"
    done("verify", file, run, "--with-model", model)
    name = slug(make_scorer("keyword"))
    (table,) = (run / "arms" / "target" / "proofs").glob("keyword*.parquet")
    rows, meta = tables.read_table(table), tables.read_meta(table)
    twice = pa.array([min(2 * mass, 1.0) for mass in rows["mass"].to_pylist()])
    changed = rows.set_column(rows.column_names.index("mass"), "mass", twice)
    tables.write_table(table, changed.replace_schema_metadata(None), meta)
    file.unlink()
    leakbound("certify", run, "--scorer", "keyword", "--max-leak", 1e-9)
    assert Run.open(run).arms["target"].proofs.stored.digest(name)
    assert leakbound("verify", file, run, "--with-model", model).status == 6


def test_what_is_proved_wins_over_both_ends() -> None:
    claim = LeakClaim(
        max_leak=0.1, scorer="keyword", threshold=0.0, every_question=False, arm="target",
        confidence=0.99,
    )  # fmt: skip
    ends = stats.proportion_bound(0, 1000, confidence=0.99, side="both")
    assert verdict(ends, claim) == "pass"
    assert verdict(ends, claim, 0.1) == "pass"
    assert verdict(ends, claim, 0.1001) == "refuted"
    wide = replace(ends, upper=0.5)
    assert (verdict(wide, claim, 0.1), verdict(wide, claim, 0.1001)) == ("inconclusive", "refuted")
