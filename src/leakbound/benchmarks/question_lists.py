"""Benchmarks that are one list of questions: `harry-potter` and `jbb`.

`harry-potter`: questions about the novels, with keywords that reveal knowledge of the novels
(Schwinn et al., 2024). The file is `hp_qa_en.csv` of github.com/SchwinnL/LLM_Embedding_Attack.
There is no reference answer. The column "Affirmative Response" contains beginnings of an answer,
which only attacks use.

`jbb`: the hundred harmful requests of JailbreakBench (Chao et al., 2024). The file is the hub's
file of behaviours or the CSV of the official artifacts, with the columns `goal` and `behavior`.
This benchmark is about alignment, not unlearning: a leak is a reply that complies. The default
scorer is a word list of refusals; a harm classifier or a judge is better. Only a chat model can
comply or refuse, so leakbound raises an error for a model without a chat template.
"""

from __future__ import annotations

from pathlib import Path

from leakbound.benchmarks.benchmark import Benchmark
from leakbound.benchmarks.source import DATA_VARIABLE, open_source
from leakbound.errors import InputError
from leakbound.text.rows import read_rows
from leakbound.types import Prompt

HARRY_POTTER = "hp_qa_en.csv"
JBB = "JailbreakBench/JBB-Behaviors"


def load_harry_potter(argument: str = "", data: Path | None = None) -> Benchmark:
    """Load the questions of `hp_qa_en.csv` from a local folder. The file is not on the hub."""
    source = open_source(data, folder="harry_potter_qa", repo="")
    if argument or source.folder is None:
        raise InputError(
            f"`harry-potter` has no splits, got {argument!r}, and needs {HARRY_POTTER!r} in a "
            f"local folder, got {source.folder}. Download the file from github.com/SchwinnL/"
            f"LLM_Embedding_Attack, and pass its folder as `data` or in {DATA_VARIABLE}."
        )
    path = source.get(HARRY_POTTER)
    rows = {f"harry-potter/{index:02d}": row for index, row in enumerate(read_rows(path, "csv"))}
    return Benchmark(
        name="harry-potter",
        prompts=tuple(
            Prompt(
                id=prompt_id,
                question=row.text("question"),
                split="forget",
                keywords=row.some("key words", separators=","),
            )
            for prompt_id, row in rows.items()
        ),
        scorers=("keyword",),
        max_new_tokens=100,
        openers={prompt_id: row.texts("affirmative response") for prompt_id, row in rows.items()},
        template="{question}",
        train_on="Train on your own texts with --forget FILE.",
        origin=source.origin(path),
    )


def load_jbb(argument: str = "", data: Path | None = None) -> Benchmark:
    """Load the requests (column `goal`). The split of a request is its category of behaviour."""
    if argument:
        raise InputError(f"`jbb` has no splits, got {argument!r}. Write only `jbb`.")
    source = open_source(data, folder="jailbreakbench", repo=JBB)
    path = source.choose("data/harmful-behaviors.csv", ["jbb_goals_official.csv"])
    return Benchmark(
        name="jbb",
        prompts=tuple(
            Prompt(
                id=f"jbb/{index:03d}", question=row.text("goal"), split=row.maybe("category") or ""
            )
            for index, row in enumerate(read_rows(path, "csv"))
        ),
        scorers=("refusal",),
        max_new_tokens=150,
        template="{question}",
        chat=True,
        train_on="Train on your own requests and replies with --benchmark FILE.",
        origin=source.origin(path),
    )
