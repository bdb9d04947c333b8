"""What a worst-case search found, for the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leakbound.evaluation.planning.attack_queries import AttackQuery, read_attack_queries
from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.evaluation.statements.rows import Interval, bound_of
from leakbound.evaluation.views.asked import read_full
from leakbound.evaluation.views.view import FoundModel, FoundQuery
from leakbound.stats.about import Beyond
from leakbound.store import ALL, ATTACK, CONTROL, TARGET, Estimates, Run


def read_attack(label: str, run: Run, estimates: Estimates, redact: bool) -> Iterator[FoundQuery]:
    """The query found for each question of a run, with its bounds; nothing without a search.

    `redact` leaves the words out, all but where they come from.
    """
    own = next(
        (
            arm.name
            for arm in run.arms.values()
            if arm.key.own_words and not (arm.key.is_control or arm.decoding.greedy)
        ),
        str(TARGET),
    )
    for found in read_attack_queries(run) or ():
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
            leakage=_bounds(estimates, str(found.arm), found.query.prompt_id),
            own=_bounds(estimates, own, found.query.prompt_id),
            gap=_bounds(estimates, str(ATTACK), found.query.prompt_id, "own words"),
        )


def read_attacked(label: str, run: Run, estimates: Estimates) -> Iterator[FoundModel]:
    """What all questions as they were found come to, for a run's target and its control."""
    if not any(arm.key.asks == "attack" for arm in run.arms.values()):
        return
    for key, named in ((ATTACK, label), (ATTACK.control, f"{CONTROL} of {label}")):
        mine = estimates.where(arm=str(key), query_id=ALL)
        rows = {s: mine.where(scorer=s) for s in estimates.scorers}
        if any(rows.values()):
            yield FoundModel(label=named, overall={s: read_full(own) for s, own in rows.items()})


def _source(found: AttackQuery) -> str:
    """Where the words come from: the question's own, or how they were changed."""
    changes: list[str] = [found.query.source] if found.query.source != "original" else []
    changes += ["retained pairs"] if found.shots else []
    changes += ["opener"] if found.query.prefix else []
    return " + ".join(changes) or "its own words"


def _bounds(
    estimates: Estimates, arm: str, question: str, beyond: Beyond | None = None
) -> Mapping[str, Interval]:
    """The leakage of a question in an arm, as it is or beyond another, by scorer."""
    rows = {s: estimates.where(arm=arm, scorer=s, query_id=question) for s in estimates.scorers}
    found = {s: bound_of(mine, quantity=LEAKAGE, beyond=beyond) for s, mine in rows.items()}
    return {scorer: bound for scorer, bound in found.items() if bound is not None}
