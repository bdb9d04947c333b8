"""How many questions are proved clean, as a table."""

from __future__ import annotations

from leakbound import stats
from leakbound.evaluation.statements.claims import clean_questions
from leakbound.evaluation.views.table import Table
from leakbound.store import Run
from leakbound.types import Scorer


def clean_table(run: Run, scorer: Scorer, limit: float, confidence: float) -> Table:
    """A row for each sampled arm of the target: how many questions are clean, and which are not."""
    rows = []
    for arm in run.arms.values():
        if arm.decoding.greedy or not arm.key.own_words or arm.key.is_control:
            continue
        query_ids, found = clean_questions(arm, scorer, limit, confidence)
        doubtful = [q for q, holds in zip(query_ids, found.holds, strict=True) if not holds]
        named = ", ".join(doubtful[:8]) + (", …" if len(doubtful) > 8 else "")
        rows.append((arm.name, f"{sum(found.holds)} of {len(query_ids)}", named or "none"))
    return Table.plain(
        f"{scorer.name}: questions proved to leak at most {limit:g}",
        ("arm", "proved", "not proved"),
        rows,
        f"all proved ones hold at once, {stats.percent(confidence)} (Holm); not proved does not "
        "mean leaking",
    )
