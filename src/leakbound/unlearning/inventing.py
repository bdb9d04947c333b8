"""Answers that the model makes up, which replace the true answers (Mekala et al. 2024, AltPO).

The answers are drawn once, before training, from the initial model, and stored with the trained
model. There are three deviations from the paper. The instruction was written for this package, the
model sees no examples, and only the first line of an output is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from leakbound.engines.hf import TransformersEngine
from leakbound.errors import IncompleteError
from leakbound.text.counting import counted_as, is_missing
from leakbound.types import Draws, Prompt, Query
from leakbound.unlearning.probe import answered
from leakbound.unlearning.recipe import Recipe
from leakbound.unlearning.settings import ModelAnswers
from leakbound.unlearning.work_folder import stored_json

INVENTED = "invented.json"
_REQUEST = """{question}
{answer}

That was a question and its answer. Make up another answer to it, as plausible and about as long, \
in which every fact is a different one. Say nothing but that answer."""


def invented_answers(
    recipe: Recipe, engine: Callable[[], TransformersEngine], folder: Path
) -> dict[str, list[str]]:
    """Return the answers that the model makes up for the rows of each split that needs them.

    The rows are several copies of the list of questions. The k-th copy of a question is paired with
    the k-th answer drawn for it. Answers are read from `folder` if they are stored there. Otherwise
    they are drawn, and written into `folder`. The same seed gives the same answers. Raises
    IncompleteError if the model cannot be queried.
    """
    inventing, seed = recipe.settings.inventing, recipe.settings.seed
    questions = {s: rows[: len(rows) // inventing.draws] for s, rows in recipe.inventive.items()}
    if not questions:
        return {}
    stored = stored_json(
        folder / INVENTED,
        lambda: {
            split: _drawn(rows, engine(), inventing, seed) for split, rows in questions.items()
        },
    )
    return {
        split: [stored[split][row.id][k] for k in range(inventing.draws) for row in rows]
        for split, rows in questions.items()
    }


def _drawn(
    questions: Sequence[Prompt], engine: TransformersEngine, inventing: ModelAnswers, seed: int
) -> dict[str, list[str]]:
    queries = [*map(request_of, questions)]
    wanted = Draws(sizes=(inventing.draws,), seed=seed, purpose="invented answers")
    results = engine.generate(queries, inventing.decoding, wanted)
    samples = [*answered(results, "for a made-up answer")]
    for sample in samples:
        if any(is_missing(c, counted_as(c)) for c in sample.completions):
            raise IncompleteError(
                f"{sample.query.id!r} has no made-up answer: an output reached "
                f"{inventing.max_new_tokens} tokens before its answer began. Raise "
                "--max-new-tokens."
            )
    return {
        sample.query.id: [
            completion.answer.strip().partition("\n")[0]
            for completion in sample.completions
            for _ in range(completion.count)
        ]
        for sample in samples
    }


def request_of(row: Prompt) -> Query:
    """Return the query that requests a made-up answer to a row's question from the model."""
    text = _REQUEST.format(question=row.question, answer=row.answer)
    return replace(Query.original(row), text=text, prefix="", examples=())
