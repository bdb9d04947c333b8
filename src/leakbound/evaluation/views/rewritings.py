"""What became of the rewritings that the source of a run gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leakbound.inputs import REASONS
from leakbound.store import Run, read_accepted

LESS_SURE = "less sure than the question"
"""Why input selection removes a rewriting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritingCounts:
    """How many rewritings were tried, removed and asked, of all questions together.

    `removed` has the reasons in the order in which they were tried, those that removed none left
    out; `alone` the ids of the questions of which no rewriting is left.
    """

    source: str
    design: str
    tried: int
    removed: Mapping[str, int]
    asked: int
    alone: tuple[str, ...]


def tried(run: Run) -> RewritingCounts | None:
    """What became of them; None where the run asks none."""
    if (inputs := run.record.inputs) is None:
        return None
    accepted = read_accepted(run.path, run.record) or ()
    asked = len(run.queries) - len(run.questions)
    removed: dict[str, int] = {
        reason: sum(one.removed.get(reason, 0) for one in accepted) for reason in REASONS
    }
    if inputs.ids:
        removed[LESS_SURE] = sum(len(one.queries) for one in accepted) - asked
    rewritten = {query.prompt_id for query in run.queries if query.source != "original"}
    return RewritingCounts(
        source=inputs.source,
        design=inputs.design,
        tried=sum(len(one.queries) + len(one.rejected) for one in accepted),
        removed={reason: count for reason, count in removed.items() if count},
        asked=asked,
        alone=tuple(query.id for query in run.questions if query.prompt_id not in rewritten),
    )
