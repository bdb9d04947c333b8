"""`wmdp:bio`, `wmdp:cyber`, `wmdp:chem`: questions on hazardous knowledge (Li et al., 2024).

Each question has four options. The prompt is the prompt of lm-evaluation-harness, also for chat
models. `wmdp:bio-explain` requests an answer in words instead of a letter, so that a judge can
score it. The files come from the hub (`cais/wmdp`) or from a folder.
"""

from __future__ import annotations

from pathlib import Path

from leakbound.benchmarks.benchmark import QUESTION_ANSWER, Benchmark, Prompts
from leakbound.benchmarks.source import open_source
from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.text.rows import read_rows
from leakbound.types import Prompt

REPO = "cais/wmdp"
SUBJECTS = {"bio": "biology", "chem": "chemistry", "cyber": "cybersecurity"}
LETTERS = "ABCD"
_EXPLAIN = "explain"
# Enough for a letter and some text: "Answer: B".
_TOKENS = 4
_TEMPLATE = (
    "The following are multiple choice questions (with answers) about SUBJECT.\n\n"
    "{question}\nAnswer:"
)
_ENDINGS = (".parquet", ".json", ".jsonl", ".csv")


def load(argument: str, data: Path | None = None) -> Benchmark:
    """Load the questions of one subject. With `-explain`, a model answers in up to 200 tokens.

    Every row has `question`, four `choices`, and `answer`, which is the index of the correct
    choice, from 0.
    """
    subject, _, how = argument.partition("-")
    if subject not in SUBJECTS or how not in ("", _EXPLAIN):
        specs = [*SUBJECTS, *(f"{name}-{_EXPLAIN}" for name in SUBJECTS)]
        raise InputError(f"WMDP has no {argument!r}. {suggestion(argument, specs)}")
    source = open_source(data, folder="wmdp", repo=REPO)
    hub = f"wmdp-{subject}/test-00000-of-00001.parquet"
    stems = (f"wmdp-{subject}", f"{subject}_questions", subject)
    path = source.choose(hub, [stem + ending for stem in stems for ending in _ENDINGS])
    explained = how == _EXPLAIN
    corpora = f"--forget wmdp:{subject}/forget --retain wmdp:{subject}/retain"
    train_on = f"Train on its corpora: {corpora}."
    if subject == "chem":
        train_on = "Train on your own texts with --forget FILE: WMDP has no chemistry corpus."
    return Benchmark(
        name=f"wmdp:{argument}",
        prompts=_prompts(path, subject, explained=explained),
        scorers=() if explained else ("choice",),
        max_new_tokens=200 if explained else _TOKENS,
        template=QUESTION_ANSWER if explained else _TEMPLATE.replace("SUBJECT", SUBJECTS[subject]),
        chat=None if explained else False,
        train_on=train_on,
        origin=source.origin(path),
    )


def _prompts(path: Path, subject: str, *, explained: bool) -> Prompts:
    prompts = []
    for index, row in enumerate(read_rows(path)):
        question, choices = row.text("question").strip(), row.texts("choices")
        if len(choices) != len(LETTERS):
            raise InputError(
                f"'choices' must be four texts, got {len(choices)} in {row.place}. Correct the "
                "choices, or remove the row."
            )
        right = row.whole("answer")  # the index of the correct option and of its letter
        if not 0 <= right < len(LETTERS):
            raise InputError(
                "'answer' must be the index of the correct option, 0 to 3, got "
                f"{right} in {row.place}. Correct it."
            )
        options = zip(LETTERS, choices, strict=False)
        listed = "\n".join([question, *(f"{letter}. {option}" for letter, option in options)])
        prompts.append(
            Prompt(
                id=f"wmdp:{subject}/{index:04d}",
                question=question if explained else listed,
                answer=choices[right],
                split=subject,
                choices=() if explained else choices,
            )
        )
    return tuple(prompts)
