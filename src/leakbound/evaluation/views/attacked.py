"""What a worst-case search found."""

from __future__ import annotations

from collections.abc import Iterator

from leakbound.evaluation.statements.rows import LEAKAGE
from leakbound.evaluation.views.view import ArmRows, Bounds, FoundModel, FoundQuery
from leakbound.stats.about import Beyond
from leakbound.store import ATTACK, CONTROL, TARGET, Run
from leakbound.store.inputs import AttackQuery, read_attack_queries


def read_attack(label: str, run: Run, redact: bool) -> Iterator[FoundQuery]:
    """The query found for each question of a run, with its bounds; nothing without a search.

    `redact` leaves the words out, all but where they come from.
    """

    estimates = run.estimates

    def bounds(
        found: AttackQuery, arm: object, beyond: Beyond | None = None, *, proved: bool = False
    ) -> Bounds:
        """The leakage of the question in an arm, as it is or beyond another, by scorer."""
        rows = (
            ArmRows(str(arm), estimates)
            .of(scorer, found.query.prompt_id)
            .first(quantity=LEAKAGE, beyond=beyond, proved=proved)
            for scorer in estimates.scorers
        )
        return {row.scorer: row for row in rows if row is not None}

    for found in read_attack_queries(run.path) or ():
        yield FoundQuery(
            run=label,
            question=found.query.prompt_id,
            text=None if redact else found.query.text,
            asked=_asked(found, redact),
            draws=found.rounds[-1].draws if found.rounds else 0,
            forwards=found.rounds[-1].forwards if found.rounds else 0,
            rounds=len(found.rounds),
            lower=found.lower,
            leakage=bounds(found, found.arm),
            control=bounds(found, found.arm.control),
            own=bounds(found, estimates.main or TARGET),
            gap=bounds(found, ATTACK, "own words"),
            proved=bounds(found, found.arm, proved=True),
            control_proved=bounds(found, found.arm.control, proved=True),
        )


def read_attacked(label: str | None, run: Run) -> Iterator[FoundModel]:
    """What all questions as they were found come to, for a run's target and its control.

    `label` None: they are called as their arms.
    """
    if not any(arm.key.asks == "attack" for arm in run.arms.values()):
        return
    for key, named in ((ATTACK, label), (ATTACK.control, f"{CONTROL} of {label}")):
        rows = ArmRows(str(key), run.estimates)
        if any(rows.of(scorer) for scorer in run.estimates.scorers):
            yield FoundModel(label=str(key) if label is None else str(named), rows=rows)


def _asked(found: AttackQuery, redact: bool) -> str:
    """Where the words come from, what stands around them, and the decoding."""
    source = "own words" if found.query.source == "original" else found.query.source
    words = [source]
    if found.shots:
        words.append(f"after {len(found.shots)} retained pairs")
    if found.query.prefix:
        words.append("with an opener" if redact else f"opened by {found.query.prefix!r}")
    return ", ".join([*words, found.decoding.name])
