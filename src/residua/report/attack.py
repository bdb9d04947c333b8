"""What a worst-case search found, for the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from residua.evaluation.attack.found import Found, read_found
from residua.evaluation.draws.sample import TARGET
from residua.report.measured import LEAKAGE, Estimates, bound_of
from residua.report.view import Bound, FoundQuery
from residua.store import Run


def read_attack(label: str, run: Run, estimates: Estimates, redact: bool) -> Iterator[FoundQuery]:
    """The query found for each question of a run, with its bounds; nothing without a search.

    `redact` leaves the words out, all but where they come from.
    """
    own = next(
        (
            name
            for name, arm in run.arms.items()
            if name.startswith(TARGET) and arm.own_words and not arm.decoding.greedy
        ),
        TARGET,
    )
    for found in read_found(run) or ():
        yield FoundQuery(
            run=label,
            question=found.query.prompt_id,
            text=None if redact else found.query.text,
            prefix=None if redact else found.query.prefix,
            source=_source(found),
            decoding=found.decoding.name,
            draws=found.rounds[-1].draws if found.rounds else 0,
            rounds=len(found.rounds),
            lower=found.lower,
            leakage=_bounds(estimates, found.arm, found.query.prompt_id),
            own=_bounds(estimates, own, found.query.prompt_id),
        )


def _source(found: Found) -> str:
    """Where the words come from: the question's own, or how they were changed."""
    changes: list[str] = [found.query.source] if found.query.source != "original" else []
    changes += ["retained pairs"] if found.shots else []
    changes += ["opener"] if found.query.prefix else []
    return " + ".join(changes) or "its own words"


def _bounds(estimates: Estimates, arm: str, question: str) -> Mapping[str, Bound]:
    """The leakage of a question in an arm, by scorer."""
    found = {s: bound_of(estimates.of(arm, s, question), *LEAKAGE) for s in estimates.scorers}
    return {scorer: bound for scorer, bound in found.items() if bound is not None}
