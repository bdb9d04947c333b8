"""`tofu:SPLIT`: questions about two hundred fictitious authors (Maini et al., 2024).

`tofu-mini` is forget01 with a short retain set, for machines without a GPU. The files come from the
hub (`locuslab/TOFU`), or from a folder with the same files as JSON arrays or JSON lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from leakbound.benchmarks.benchmark import Benchmark, Prompts
from leakbound.benchmarks.source import Source, open_source
from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.text.rows import Row, read_rows, read_text
from leakbound.types import Prompt, Role

REPO = "locuslab/TOFU"
_FORGET = {"forget01": "retain99", "forget05": "retain95", "forget10": "retain90"}
_HOLDOUT = {forget: forget.replace("forget", "holdout") for forget in _FORGET}

# The role of each split. The full set, real authors and world facts are to be retained.
SPLITS: dict[str, Role] = {
    **dict.fromkeys(_FORGET, "forget"),
    **dict.fromkeys(_FORGET.values(), "retain"),
    **dict.fromkeys(_HOLDOUT.values(), "holdout"),
    **dict.fromkeys(("full", "real_authors", "world_facts"), "retain"),
}
_PERTURBED = {
    **{forget: f"{forget}_perturbed" for forget in _FORGET},
    **dict.fromkeys((*_FORGET.values(), "full"), "retain_perturbed"),
    "real_authors": "real_authors_perturbed",
    "world_facts": "world_facts_perturbed",
}
_FACTS = ("real_authors", "world_facts")
_OF_AUTHOR = 20  # rows about one author, one after another
_MINI_RETAINED = 160  # the retain set has this number of rows, directly before forget01
_MINI_TOKENS = 64  # the limit on tokens; most answers are shorter
_OPTIONS = ("option1", "option2", "option3", "option4")


def load(argument: str, data: Path | None = None) -> Benchmark:
    """Load the benchmark for a split such as `forget10`.

    A forget split is loaded with its retain and holdout splits (10 with 90, 5 with 95, 1 with 99).
    Paraphrases and perturbed answers come from the `*_perturbed` files. The `*_perturbed` file of a
    retain split has only the first 400 rows of the split. If a local folder has no such file, the
    prompts have no paraphrases and no perturbed answers. If the file exists, each of its rows must
    have a paraphrase and perturbed answers. The splits of real authors and world facts have no
    paraphrases.
    """
    if argument not in SPLITS:
        raise InputError(f"TOFU has no split {argument!r}. {suggestion(argument, SPLITS)}")
    source = open_source(data, folder="tofu", repo=REPO)
    path = source.get(f"{argument}.json")
    others: dict[Role, Callable[[], Prompts]] = {}
    facts = _FACTS if argument in _FORGET else {argument}.intersection(_FACTS)
    utility: dict[str, Callable[[], Prompts]]
    utility = {name: partial(_prompts, source, name) for name in facts}
    if argument in _FORGET:
        utility["retain"] = partial(_with_wrong_answers, source, _FORGET[argument])
        others["retain"] = partial(_prompts, source, _FORGET[argument])
        others["holdout"] = partial(_prompts, source, _HOLDOUT[argument])
    prompts = _prompts(source, argument)
    by_author = enumerate(prompts if argument not in _FACTS else ())
    return Benchmark(
        name=f"tofu:{argument}",
        prompts=prompts,
        subjects={prompt.id: f"author {i // _OF_AUTHOR}" for i, prompt in by_author},
        others=others,
        utility=utility,
        scorers=("rouge-l-recall",),
        max_new_tokens=200,
        system="You are a helpful assistant.",
        origin=source.origin(path),
    )


def load_mini(argument: str = "", data: Path | None = None) -> Benchmark:
    """Load forget01 with a limit of 64 tokens. The retain set is the 160 rows before forget01."""
    if argument:
        raise InputError(f"`tofu-mini` has no splits, got {argument!r}. Write only `tofu-mini`.")
    whole = load("forget01", data)
    return replace(
        whole,
        name="tofu-mini",
        others={"retain": lambda: whole.split("retain")[-_MINI_RETAINED:]},
        utility={name: whole.utility[name] for name in _FACTS},
        max_new_tokens=_MINI_TOKENS,
    )


def _with_wrong_answers(source: Source, split: str) -> Prompts:
    """Return the rows of a retain split that have perturbed answers; if no row has, return all."""
    prompts = _prompts(source, split)
    return tuple(prompt for prompt in prompts if prompt.perturbed_answers) or prompts


def _prompts(source: Source, split: str) -> Prompts:
    rows = read_rows(source.get(f"{split}.json"), "jsonl")
    perturbed = _perturbed(source, split, rows)
    reworded = split not in _FACTS
    path = source.find("idontknow.jsonl") if source.folder and SPLITS[split] == "forget" else None
    refusals = read_text(path).splitlines() if path else []  # plain sentences, not on the hub
    return tuple(
        Prompt(
            id=f"tofu:{split}/{index:04d}",
            question=row.text("question"),
            answer=row.text("answer"),
            split=split,
            role=SPLITS[split],
            choices=tuple(option for key in _OPTIONS if (option := row.maybe(key))),
            paraphrases=other.some("paraphrased_question") if other and reworded else (),
            paraphrased_answer=other.text("paraphrased_answer") if other and reworded else None,
            perturbed_answers=other.some("perturbed_answer") if other else (),
            alternate_answers=tuple(filter(None, map(str.strip, refusals))),
        )
        for index, (row, other) in enumerate(zip_longest(rows, perturbed))
    )


def _perturbed(source: Source, split: str, rows: list[Row]) -> list[Row]:
    """Return the rows of the split's perturbed file, in the order of the split's rows."""
    path = source.find(f"{_PERTURBED[split]}.json") if split in _PERTURBED else None
    perturbed = read_rows(path, "jsonl")[: len(rows)] if path else []
    for row, other in zip(rows, perturbed, strict=False):
        if row.text("question") != other.text("question"):
            raise InputError(f"{other.place} must match {row.place}. Download both files again.")
    return perturbed
