"""The promises that every scorer owes its callers, tried on texts that its author gives."""

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
    """Raise InputError at the first promise of a scorer that is broken.

    Its range is as declared; a full leak scores 1; a text scores the same in any company and
    order; `bounds`, where it has them, hold for the texts; equal settings are equal scorers.

    Args:
        scorer: what is tried.
        prompt: a prompt that it can score.
        leak: a text that leaks in full (None: the prompt's answer).
        texts: other texts to score, those that are hard to score among them.
        make: makes a scorer from its name, to see that the name is a spec (`make_scorer`); None:
            that is not tried.

    Raises:
        InputError: a promise that is broken, with the scorer's name, or a prompt that the scorer
            refuses, or an object that is no scorer.
    """
    require_scorer(scorer)
    check_prompts(scorer, [prompt])
    full = leak if leak is not None else prompt.answer or ""
    tried = [full, *texts, "", f"So: {full}"]
    together = score_texts(scorer, tried, prompt)
    _require(
        together[0] == 1.0, f"a full leak must score 1, got {together[0]} for {full!r}", scorer
    )
    for text, score in zip(tried, together, strict=True):
        (alone,) = scorer.score([text], prompt)
        _require(
            alone == score, f"{text!r} must score the same alone, got {alone} and {score}", scorer
        )
    backwards = scorer.score(tried[::-1], prompt)
    _require(backwards[::-1] == together, "scores must not depend on the order of texts", scorer)
    _require(scorer.score([], prompt) == [], "no texts must give no scores", scorer)
    _require(isinstance(hash(scorer), int), "a scorer must be hashable", scorer)
    check_bounds(scorer, tried, prompt)
    if make is not None:
        _require(make(scorer.name) == scorer, "the name must give the scorer back", scorer)


def _require(holds: bool, promise: str, scorer: Scorer) -> None:
    if not holds:
        raise InputError(f"{promise}: scorer {scorer.name!r}. Mend it, or bounds are void.")


@dataclass(frozen=True, slots=True)
class FakeScorer:
    """Gives each text the score that the table has for it.

    Args:
        scores: text -> score in [0, 1], or None for a text that cannot be decided.
        otherwise: the score of a text that is not in the table.
        binary: the declared range: {0, 1} if true, else [0, 1].
        name: as it stands in results.
    """

    scores: Mapping[str, float | None] = field(hash=False)
    otherwise: float | None = 0.0
    binary: bool = False
    name: str = "fake"

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """The table's score of each text.

        Args:
            texts: completions.
            prompt: plays no part.

        Returns:
            One score a text, `otherwise` for one that is not in the table.
        """
        return [self.scores.get(text, self.otherwise) for text in texts]
