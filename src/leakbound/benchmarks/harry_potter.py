"""`harry-potter`: questions about the novels, with keywords that give knowledge of them away.

Schwinn et al. (2024), `hp_qa_en.csv` of github.com/SchwinnL/LLM_Embedding_Attack. There is no
reference answer; the column "Affirmative Response" opens an answer, for attacks only.
"""

from __future__ import annotations

from pathlib import Path

from leakbound.benchmarks.benchmark import Benchmark
from leakbound.benchmarks.source import DATA_VARIABLE, open_source
from leakbound.errors import InputError
from leakbound.text.rows import read_rows
from leakbound.types import Prompt

FILE = "hp_qa_en.csv"


def load(argument: str = "", data: Path | None = None) -> Benchmark:
    """The questions of `hp_qa_en.csv` in a local folder; the hub does not carry it."""
    source = open_source(data, folder="harry_potter_qa", repo="")
    if argument or source.folder is None:
        raise InputError(
            f"`harry-potter` reads {FILE!r} from a local folder and has no splits, got "
            f"{argument!r} and no folder. Get the file from github.com/SchwinnL/"
            f"LLM_Embedding_Attack and pass its folder as `data` or in {DATA_VARIABLE}."
        )
    path = source.get(FILE)
    rows = {f"harry-potter/{index:02d}": row for index, row in enumerate(read_rows(path, "csv"))}
    prompts = tuple(
        Prompt(
            id=prompt_id,
            question=row.text("question"),
            split="forget",
            keywords=row.some("key words", separators=","),
        )
        for prompt_id, row in rows.items()
    )
    return Benchmark(
        name="harry-potter",
        prompts=prompts,
        scorers=("keyword",),
        max_new_tokens=100,
        openers={prompt_id: row.texts("affirmative response") for prompt_id, row in rows.items()},
        template="{question}",
        held_out="Train on texts of your own, --forget FILE.",
        origin=source.origin(path),
    )
