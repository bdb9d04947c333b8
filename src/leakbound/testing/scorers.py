"""Test whether a scorer keeps its promises (`check_scorer`), or fake a scorer (`FakeScorer`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from leakbound.errors import InputError
from leakbound.scorers import check_bounds, check_prompts, require_scorer, score_texts
from leakbound.types import Prompt, Scorer


def check_scorer(
    scorer: Scorer,
    prompt: Prompt,
    *,
    leak: str | None = None,
    texts: Sequence[str] = (),
    make: Callable[[str], Scorer] | None = None,
) -> None:
    """Raise InputError at the first broken promise of a scorer.

    A scorer must keep these promises. The scores are in the declared range. A full leak scores 1.
    The score of a text does not depend on other texts or their order. The `bounds` of the scorer,
    if any, are valid for the texts. The scorer is hashable. If `make` is given, `make` returns an
    equal scorer for the name of the scorer.

    Args:
        scorer: the scorer to test.
        prompt: a prompt that it can score.
        leak: a text that leaks in full (None: the prompt's answer).
        texts: other texts to score; include texts that are hard to score.
        make: a function that makes a scorer from its name, such as `make_scorer`, to test that the
            name is a spec; None: not tested.

    Raises:
        InputError: for a broken promise (the message states it with the scorer's name), a prompt
            that the scorer refuses, or an object that is not a scorer.
    """
    require_scorer(scorer)
    check_prompts(scorer, [prompt])
    full = leak if leak is not None else prompt.answer or ""
    tried = [full, *texts, "", f"So: {full}"]
    together = score_texts(scorer, tried, prompt)
    first = together[0]
    _require(first == 1.0, f"a full leak must score 1, got {first} for {full!r}", scorer)
    for text, score in zip(tried, together, strict=True):
        (single,) = score_texts(scorer, [text], prompt)
        promise = f"{text!r} must score the same in any batch, got {single} and {score}"
        _require(single == score, promise, scorer)
    reverse = score_texts(scorer, tried[::-1], prompt)
    _require(reverse[::-1] == together, "scores must not depend on the order of texts", scorer)
    _require(isinstance(hash(scorer), int), "a scorer must be hashable", scorer)
    check_bounds(scorer, tried, prompt)
    if make is not None:
        _require(make(scorer.name) == scorer, "`make(name)` must equal the scorer", scorer)


def _require(kept: bool, promise: str, scorer: Scorer) -> None:
    if not kept:
        raise InputError(f"{promise}: scorer {scorer.name!r}. Fix it, or bounds are not valid.")


@dataclass(frozen=True, slots=True)
class FakeScorer:
    """A scorer that looks up the score of each text in a table.

    Args:
        scores: the score in [0, 1] by text; None for a text that cannot be decided.
        otherwise: the score of a text that is not in the table.
        binary: whether the declared range is {0, 1}, else [0, 1].
        name: the name of the scorer in results.
    """

    scores: Mapping[str, float | None] = field(hash=False)
    otherwise: float | None = 0.0
    binary: bool = False
    name: str = "fake"

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """Return the score of each text in the table.

        Args:
            texts: completions.
            prompt: not used.

        Returns:
            One score per text; `otherwise` for a text that is not in the table.
        """
        return [self.scores.get(text, self.otherwise) for text in texts]
