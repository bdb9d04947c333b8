"""Score ROUGE-L against the reference answer: recall as in TOFU, F1 as in MUSE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from leakbound.errors import InputError
from leakbound.scorers.family import answer_of, where
from leakbound.text.rouge import dropped_words, f1_bounds, recall_bounds, rouge_l
from leakbound.text.shown import some
from leakbound.types import Prompt
from leakbound.types.records import spec_of

YesNo = Literal["yes", "no"]


@dataclass(frozen=True, slots=True)
class _RougeL:
    """ROUGE-L of word stems, or of unchanged words with `stem="no"`. `of` is recall or F1."""

    stem: YesNo = "yes"

    binary: ClassVar[bool] = False
    of: ClassVar[Literal["recall", "f1"]]

    @property
    def name(self) -> str:
        return spec_of(f"rouge-l-{self.of}", self)

    def check(self, prompt: Prompt | str) -> None:
        """Raise InputError for a prompt without an answer, or with an answer that is not ASCII."""
        require_rouge_answer(prompt, self.name)

    def check_all(self, prompts: Sequence[Prompt]) -> list[str]:
        """Return a note on answers with revealing words that ROUGE drops.

        Raises InputError if ROUGE drops all revealing words of all answers.
        """
        answers = [(prompt, answer_of(prompt, self.name)) for prompt in prompts]
        words = [dropped_words(answer, prompt.question) for prompt, answer in answers]
        lost = {prompt.id: drop for prompt, (drop, _) in zip(prompts, words, strict=True) if drop}
        if not lost:
            return []
        first = next(iter(lost.values()))[0]
        if not any(kept for _, kept in words):
            raise InputError(
                f"scorer {self.name!r} ignores the words that reveal the answers, such as "
                f"{first!r} (in {some([*lost])}), because ROUGE uses only ASCII letters and "
                "digits. Use `contains`, `keyword` or `similarity`."
            )
        note = (
            f"scorer {self.name!r} ignores words of {len(lost)} answers ({some([*lost])}), such as "
            f"{first!r}, because ROUGE uses only ASCII letters and digits. Add `contains` or "
            "`keyword`."
        )
        return [note]

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        answer = require_rouge_answer(prompt, self.name)
        scores = rouge_l(texts, answer, stemmed=self.stem == "yes")
        return list(getattr(scores, self.of).tolist())

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """Return the lowest and highest score of any text that begins with `prefix`."""
        settled = recall_bounds if self.of == "recall" else f1_bounds
        return settled(prefix, require_rouge_answer(prompt, self.name), self.stem == "yes")


@dataclass(frozen=True, slots=True)
class RougeLRecall(_RougeL):
    """Score the fraction of the answer's words that the completion contains in order, in [0, 1].

    The scores are equal to the last bit to the scores of the package `rouge-score` 0.1.2. Recall
    and F1 of the same output can differ by a factor of three, so the scorer's name states which of
    them it is.

    Attributes:
        stem: "yes" (default): words are Porter-stemmed, as by the stemmer of `rouge-score`. "no":
            different forms of a word are different words.

    Raises:
        InputError: `check` and `score` raise it if the prompt has no answer, or if fewer than half
            of the letters and digits of the answer are ASCII (ROUGE's tokeniser drops all others).
    """

    of = "recall"


@dataclass(frozen=True, slots=True)
class RougeLF1(_RougeL):
    """Score the harmonic mean of ROUGE-L precision and recall, in [0, 1]. Long leaks score low.

    Attributes:
        stem: "yes" (default): words are Porter-stemmed. "no", as in MUSE's own code: different
            forms of a word are different words.

    Raises:
        InputError: as `RougeLRecall` does.
    """

    of = "f1"


def require_rouge_answer(prompt: Prompt | str, scorer: str) -> str:
    """Return the answer; raise InputError unless at least half of its letters and digits are ASCII.

    ROUGE's tokeniser drops all other letters. So the score of an answer in another script would
    depend on a small part of the answer.
    """
    answer = answer_of(prompt, scorer)
    signs = [sign for sign in answer if sign.isalnum()]
    read = sum(map(str.isascii, signs))
    if not read or 2 * read < len(signs):
        raise InputError(
            f"scorer {scorer!r} uses only ASCII letters and digits, got {read} ASCII characters "
            f"among the {len(signs)} letters and digits of the answer at {where(prompt)}. Use "
            "`contains`, `similarity` or `entailment:rouge=0` for this language."
        )
    return answer
