"""Which rewritings of each row are its contrast centres: chosen once, before training, and kept.

`selected` may leave out first those that the model does not answer surely: algorithm 2 of Cheng et
al. (2025) as `leakbound.inputs.select` has it, by the model as it is before training, at T = 1 with
nothing truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from leakbound.engines.hf import TransformersEngine
from leakbound.errors import InputError, needing
from leakbound.inputs import SELECTION, select
from leakbound.losses import Needs
from leakbound.objective import Objective
from leakbound.store.files import write_json, write_text
from leakbound.store.trained import CENTRES
from leakbound.types import Decoding, Draws, Embed, Prompt, Query, Sample, from_json
from leakbound.unlearning.centres import CLUSTERED_FROM, Centres, candidates, contrast_centres
from leakbound.unlearning.centres_picture import centres_picture
from leakbound.unlearning.own_answers import answered
from leakbound.unlearning.settings import Selecting
from leakbound.unlearning.work_folder import read_json

PICTURE = "centres.svg"
Splits = Mapping[str, Sequence[Prompt]]
Chosen = Mapping[str, Sequence[Centres]]
Select = Callable[[Sequence[Prompt]], Sequence[Prompt]]


def centred_splits(needs: Mapping[str, Needs]) -> tuple[str, ...]:
    """The splits whose rows need contrast centres."""
    return tuple(split for split, each in needs.items() if "centres" in each.parts)


def clusters(objective: Objective, splits: Splits) -> bool:
    """True if some row needs centres and has so many candidates that they are clustered."""
    rows = (row for split in centred_splits(objective.needs) for row in splits[split])
    return any(len(candidates(row)) >= CLUSTERED_FROM for row in rows)


def require_candidates(objective: Objective, splits: Splits) -> None:
    """Raise InputError for a row with too few candidates for its loss, or no way to cluster."""
    for split in centred_splits(objective.needs):
        for row in splits[split]:
            _require_enough(row, objective, split, len(candidates(row)))
    if clusters(objective, splits):
        many = f"clustering more than {CLUSTERED_FROM - 2} rewritings of a question"
        with needing(many, "centres", ", or give fewer"):
            import sklearn  # noqa: F401


def choose_centres(
    objective: Objective,
    splits: Splits,
    embedder: Embed,
    *,
    seed: int,
    folder: Path,
    select: Select = list,
) -> dict[str, list[Centres]]:
    """The centres of each row of the splits that need some, among what `select` leaves of it.

    Read from `folder` where they are kept, else chosen and written there, with a picture where
    any were clustered. Raises InputError where clustering leaves a row too few for its loss.
    """
    needing = centred_splits(objective.needs)
    if (folder / CENTRES).exists():
        kept = read_json(folder / CENTRES)["splits"]
        return {split: [_centres(row) for row in kept[split]] for split in needing}
    found = {
        split: [_choose(row, embedder, seed) for row in select(splits[split])] for split in needing
    }
    for split, chosen in found.items():
        for row, centres in zip(splits[split], chosen, strict=True):
            _require_enough(row, objective, split, len(centres.chosen))
    if needing:
        _write(folder, splits, found, embedder.name)
    return found


def files_of(folder: Path) -> dict[str, str]:
    """What was written of the choice, by name: it stands beside the finished model."""
    files = [folder / name for name in (CENTRES, PICTURE)]
    return {file.name: file.read_text(encoding="utf-8") for file in files if file.exists()}


def numbers(folder: Path) -> str:
    """How many centres the rows have, without a word of theirs; blank where none were needed."""
    if not (folder / CENTRES).exists():
        return ""
    splits = read_json(folder / CENTRES)["splits"].values()
    chosen = [len(row["chosen"]) for rows in splits for row in rows]
    texts = [len(row["texts"]) for rows in splits for row in rows]
    return f"{min(chosen)} to {max(chosen)} a row, of {min(texts)} to {max(texts)} candidates"


def _choose(row: Prompt, embedder: Embed, seed: int) -> Centres:
    texts = candidates(row)
    clustered = len(texts) >= CLUSTERED_FROM
    vectors = embedder.embed(texts) if clustered else np.empty((len(texts), 0))
    return contrast_centres(texts, vectors, seed=seed)


def _write(folder: Path, splits: Splits, found: Chosen, embedder: str) -> None:
    """The picture first: where there is the list, all of it is there."""
    clustered = {
        row.id: centres
        for split, chosen in found.items()
        for row, centres in zip(splits[split], chosen, strict=True)
        if centres.coordinates
    }
    if clustered:
        write_text(folder / PICTURE, centres_picture(clustered))
    rows = {
        split: [
            {"id": row.id, **asdict(centres)}
            for row, centres in zip(splits[split], chosen, strict=True)
        ]
        for split, chosen in found.items()
    }
    write_json(folder / CENTRES, {"embedder": embedder if clustered else None, "splits": rows})


def _centres(kept: Mapping[str, Any]) -> Centres:
    return from_json(Centres, {name: of for name, of in kept.items() if name != "id"})


def _require_enough(row: Prompt, objective: Objective, split: str, number: int) -> None:
    """With β = 0 the question alone cannot be pushed from itself (see `losses.contrastive`)."""
    pushed = any(
        term.loss == "cel" and term.split == split and term.settings.get("beta") == 0
        for term in objective.terms
    )
    if pushed and number < 2:
        raise InputError(
            f"cel with beta = 0 needs a contrast centre besides the question, and row {row.id!r} "
            f"of {split} has none. Add rewritings that say it in other words, or raise beta."
        )


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
