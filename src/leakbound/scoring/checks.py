"""Check a run before it is scored or bounded: parts, texts, scores, independence of draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from leakbound import stats
from leakbound.errors import InputError, UnansweredError
from leakbound.scoring.score import slug
from leakbound.store import Arm, Run
from leakbound.store.record import claim_of
from leakbound.store.tables import cells_of
from leakbound.types import RULE, Scorer


def require_fixed_n(arm: Arm) -> None:
    """Raise InputError if the draws of an arm decided their number n (sampling plan `Until`)."""
    if claim := claim_of(arm.spec.draws):
        raise InputError(
            f"{arm.place} sampled each question until {claim!r} was decided, but this command "
            "needs a number of draws fixed in advance. Sample a run without --until."
        )


def require_complete(run: Run) -> None:
    """Raise UnansweredError if any question has no completions."""
    failed = [(name, *item) for name, arm in run.arms.items() for item in arm.failures.items()]
    if failed:
        name, query_id, reason = failed[0]
        prompt_of = {q.id: q.prompt_id for arm in run.arms.values() for q in arm.queries}
        questions = {prompt_of[query] for _, query, _ in failed}
        raise UnansweredError(
            f"{len(questions)} of the {len(run.prompts)} questions could not be sampled in "
            f"{len({name for name, *_ in failed})} of {len(run.arms)} arms, first {query_id!r} in "
            f"arm {name!r}: {reason}. The other questions are stored in `{run.path}`, without "
            "statements about all questions. Check the model, then run the same command again."
        )


def require_sampled(run: Run) -> None:
    """Raise IncompleteError if a part is missing, DamagedError if a part is damaged."""
    run.require_drawn()
    for arm in run.arms.values():
        arm.missing_parts()  # reads every part


def require_texts(run: Run, specs: Sequence[str]) -> None:
    """Raise InputError for a run without texts, unless all specs are thresholds (`>=t`).

    A threshold can be applied to stored scores.
    """
    bare = next((name for name, arm in run.arms.items() if not arm.texts), None)
    if bare is not None and not (specs and all(">=" in spec for spec in specs)):
        raise InputError(
            f"arm {bare!r} of `{run.path}` has scores but no texts, because it is redacted. Run "
            f"`leakbound bound {run.path}`, or score the original run."
        )


def require_scores(arm: Arm, scorer: Scorer) -> list[str]:
    """Return the digests of an arm's scores; raise InputError if its completions have no scores."""
    digests = arm.digests(scorer.name, slug(scorer))
    if digests is None:
        raise InputError(
            f"{arm.place} has no scores of {scorer.name!r} from its current completions and "
            f"version {RULE} of the scoring rules. Run `leakbound score` first."
        )
    return digests


def require_independent_draws(arm: Arm) -> None:
    """Raise InputError, with the question, if the draws of a question cannot be independent.

    Greedy arms have one draw per question, so they pass. Arms without probabilities cannot be
    tested, so they pass. Draws from a remainder are compared with the conditional distribution
    given the remainder.
    """
    if arm.decoding.greedy:
        return
    remainders = arm.masses.explored().remainder
    for query_id, (counts, logprobs) in _draws(arm).items():
        within = remainders.get(query_id, 1.0)
        shift = math.log(within) if within else -math.inf  # −inf: nothing can be checked
        chunks = sorted({chunk for chunk, _ in counts})
        table = [[counts[chunk, text] for text in logprobs] for chunk in chunks]
        shifted = [math.nan if p is None else p - shift for p in logprobs.values()]
        where = f"question {query_id!r} in arm {arm.name!r}"
        stats.require_independent(table, shifted, where=where)


def _draws(
    arm: Arm,
) -> dict[str, tuple[Counter[tuple[int, Hashable]], dict[Hashable, float | None]]]:
    """Return the counts and log-probabilities of the token sequences of each question.

    The counts are by chunk and sequence.
    """
    draws: dict[str, tuple[Counter[tuple[int, Hashable]], dict[Hashable, float | None]]] = {}
    names = ("query_id", "chunk", "answer", "logprob", "count")
    for part in arm.parts:
        if not arm.has(part):
            continue
        table = arm.completions(part)
        pairs = zip(_sequences(table["token_ids"]), cells_of(table, *names), strict=True)
        for ids, (query_id, chunk, text, logprob, count) in pairs:
            if count:
                counts, logprobs = draws.setdefault(query_id, (Counter(), {}))
                sequence = text if ids is None else ids
                counts[chunk, sequence] += count
                logprobs[sequence] = logprobs.get(sequence) if logprob is None else logprob
    return draws


def _sequences(column: Any) -> Iterator[bytes | None]:
    """Yield the bytes of each list of token ids. Distinct lists have distinct bytes."""
    for piece in column.chunks:
        flat, cuts = piece.values.to_numpy(), piece.offsets.to_numpy()
        for start, end, valid in zip(cuts[:-1], cuts[1:], piece.is_valid(), strict=True):
            yield flat[start:end].tobytes() if valid.as_py() else None
