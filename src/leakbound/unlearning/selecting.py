"""Input selection before contrast centres: only rewritings that the model answers surely stay.

Algorithm 2 of Cheng et al. (2025) as `leakbound.inputs.select` has it, by the model as it is before
training, at T = 1 with nothing truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from leakbound.engines.hf import TransformersEngine
from leakbound.inputs import SELECTION, select
from leakbound.types import Decoding, Draws, Prompt, Query, Sample
from leakbound.unlearning.centres import candidates
from leakbound.unlearning.own_answers import answered
from leakbound.unlearning.settings import Selecting


def selected(
    rows: Sequence[Prompt], engine: TransformersEngine, how: Selecting, seed: int
) -> list[Prompt]:
    """The rows with those of their paraphrases that are answered at least as surely as they are.

    The same for the same seed. IncompleteError where the model cannot be asked.
    """
    queries = [query for row in rows for query in _queries(row)]

    def sample(asked: Sequence[Query], draws: int, chance: int) -> Sequence[Sample]:
        wanted = Draws(sizes=(draws,), seed=chance, purpose=SELECTION)
        decoding = Decoding(max_new_tokens=how.max_new_tokens)
        return [*answered(engine.generate(asked, decoding, wanted), "for its selection")]

    kept = select(queries, sample, draws=how.draws, seed=seed)
    return [
        replace(row, paraphrases=tuple(query.text for query in kept[row.id].kept[1:]))
        for row in rows
    ]


def _queries(row: Prompt) -> list[Query]:
    question, others = Query.original(row), enumerate(candidates(row)[1:], start=1)
    reworded = partial(replace, question, source="file")
    return [question, *(reworded(id=f"{row.id}#{i}", text=text) for i, text in others)]
