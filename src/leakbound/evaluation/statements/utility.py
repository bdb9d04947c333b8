"""What a model still knows of what it should: the other side of forgetting."""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.errors import IncompleteError
from leakbound.scorers import make_scorer, score_texts
from leakbound.types import Decoding, Draws, Failure, Generate, Progress, Prompt, Query, silent

_BATCH = 64


def retain_recall(
    engine: Generate,
    prompts: Sequence[Prompt],
    max_new_tokens: int,
    progress: Progress = silent,
) -> float:
    """Mean ROUGE-L recall of the greedy answers to `prompts`, in [0, 1].

    Raises IncompleteError where a question could not be answered: a mean over the others would
    be about another set.
    """
    scorer = make_scorer("rouge-l-recall")
    decoding = Decoding(temperature=0.0, max_new_tokens=max_new_tokens)
    by_id = {prompt.id: prompt for prompt in prompts}
    total = 0.0
    for start in range(0, len(prompts), _BATCH):
        progress("answering retain", start, len(prompts), "questions")
        queries = [Query.original(prompt) for prompt in prompts[start : start + _BATCH]]
        for result in engine.generate(queries, decoding, Draws(sizes=(1,), purpose="utility")):
            if isinstance(result, Failure):
                raise IncompleteError(f"{result.query.id!r} has no answer: {result.reason}")
            text = result.completions[0].text
            (score,) = score_texts(scorer, [text], by_id[result.query.prompt_id])
            total += score or 0.0
    progress("answering retain", len(prompts), len(prompts), "questions")
    return total / len(prompts)
