"""Values that the frozen initial model computes for the rows, stored in files and read when needed.

Files are necessary, because the activations of some thousand rows at one layer of a large model
need gigabytes. Each file contains the values of a chunk of rows, and is written completely or not
at all. So an interrupted computation can resume.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from leakbound.losses import Needs, sequence_nll
from leakbound.losses.contrastive import cel, mean_distance
from leakbound.losses.family import keywords
from leakbound.objective import Objective
from leakbound.store.files import make_folder, write_whole
from leakbound.unlearning.batches import (
    Assembly,
    Frozen,
    Head,
    as_it_is,
    centre_name,
    centres_of,
    site_name,
)
from leakbound.unlearning.examples import Step, pad
from leakbound.unlearning.forward import Forward
from leakbound.unlearning.work_folder import DISTANCE, PUSHED

_FROZEN = {"reference_nll", "reference_logits", "whole_reference", "reference", "centres"}


@dataclass(frozen=True)
class References:
    """The frozen model's values, stored in `folder`, of every row that `steps` use."""

    folder: Path
    assembly: Assembly
    steps: Sequence[Step]
    chunk: int

    @cached_property
    def files(self) -> dict[Path, tuple[str, list[int]]]:
        """Each file with its split and the rows in it."""
        files = {}
        for split, needs in self.assembly.needs.items():
            if needs.parts & _FROZEN:
                used = sorted({i for step in self.steps for i in step[split]})
                for start in range(0, len(used), self.chunk):
                    rows = used[start : start + self.chunk]
                    files[self.folder / f"{split}-{start:06d}.safetensors"] = split, rows
        return files

    def compute(self, forward: Forward, device: torch.device) -> None:
        """Compute and store the values of rows whose file is missing, with the current weights."""
        missing = {file: rows for file, rows in self.files.items() if not file.exists()}
        if missing:
            make_folder(self.folder)
        with torch.no_grad():
            for file, (split, rows) in missing.items():
                values = dict(_values(self.assembly, forward, split, rows, device))
                write_whole(file, partial(save_file, values))

    def read(self, step: Step) -> dict[str, list[Frozen]]:
        """Return the frozen model's values of the rows of a step, by split."""
        frozen: dict[str, list[Frozen]] = {}
        for split, rows in step.items():
            if self.assembly.needs[split].parts & _FROZEN:
                places = ((i, *self._where[split, i]) for i in rows)
                frozen[split] = [
                    {name: file.get_tensor(f"{i}/{name}") for name in names}
                    for i, file, names in places
                ]
        return frozen

    @cached_property
    def _where(self) -> dict[tuple[str, int], tuple[Any, list[str]]]:
        """For each row, the open file with the row's values, and the names of these values."""
        places: dict[tuple[str, int], tuple[Any, list[str]]] = {}
        for path, (split, rows) in self.files.items():
            file = safe_open(path, framework="pt")
            names: dict[int, list[str]] = {row: [] for row in rows}
            for key in file.keys():  # type: ignore[no-untyped-call]  # noqa: SIM118
                index, _, name = key.partition("/")
                names[int(index)].append(name)
            places |= {(split, row): (file, names[row]) for row in rows}
        return places


def push_at_start(references: References, objective: Objective) -> dict[str, float]:
    """Return the initial fraction of rows that CEL pushes away, and the mean distance to centres.

    CEL pushes a row away from its centres if the row's distance to them is below the margin tau.
    The result is empty if no term of the objective pushes rows away.
    """
    figures: dict[str, float] = {}
    for term in objective.terms:
        settings = {name: p.default for name, p in keywords(cel).items()} | dict(term.settings)
        if term.loss != "cel" or not settings["alpha"]:
            continue
        (site,), apart = term.needs.sites, []
        for split, rows in references.files.values():
            for row in references.read({split: rows})[split] if split == term.split else ():
                centres = tuple(centres_of(row, site))
                how = settings["distance"], settings["align"]
                apart.append(float(mean_distance(centres[0], centres, *how)))
        figures[PUSHED] = fmean(far < settings["tau"] for far in apart)
        figures[DISTANCE] = fmean(apart)
    return figures


def frozen_head(forward: Forward, needs: Mapping[str, Needs]) -> Head:
    """Return a copy of the output head, which computes the frozen model's logits during training.

    If no split needs these logits, or the head is not separate, return `as_it_is`.
    """
    compared = {"reference_logits", "whole_reference"}
    if not forward.narrow or not any(compared & need.parts for need in needs.values()):
        return as_it_is
    head = copy.deepcopy(forward.model.get_output_embeddings())
    dtype = next(head.parameters()).dtype
    return lambda ends: head(ends.to(dtype))


def _values(
    assembly: Assembly, forward: Forward, split: str, rows: list[int], device: torch.device
) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the tensor of each frozen value that these rows need."""
    needs, data = assembly.needs[split], assembly.data[split]
    batch = assembly.batch({split: rows}).to(device)
    ends, hidden = forward.run(batch.padded, batch.places.nonzero(as_tuple=True))
    inputs = assembly.cut(batch, forward.logits(ends), hidden, as_it_is)[split]
    tails = assembly.cut(batch, ends, hidden, as_it_is)[split]
    values: dict[str, Sequence[Tensor] | Tensor] = {}
    if "reference_nll" in needs.parts:
        values["nll"] = sequence_nll(inputs)
        for part in needs.parts & data.others.keys():
            values[f"{part} nll"] = sequence_nll(getattr(inputs, part))
    if "reference_logits" in needs.parts:
        values["ends"] = _split(tails.logits, tails.row, len(rows))
    if "whole_reference" in needs.parts and tails.whole:
        values["whole ends"] = _split(tails.whole.logits, tails.whole.row, len(rows))
    if "reference" in needs.parts:
        for site, states in inputs.activations.items():
            values[site_name(site)] = _split(states.values, states.row, len(rows))
    for name, of_rows in values.items():
        for row, value in zip(rows, of_rows, strict=True):
            yield f"{row}/{name}", value.detach().cpu().contiguous().clone()
    nowhere = torch.zeros(0, dtype=torch.long, device=device)  # no logits
    for row in rows if "centres" in needs.parts else ():
        for number, centre in enumerate(data.centres[row]):
            _, states_of = forward.run(pad([centre], whole=True).to(device), (nowhere, nowhere))
            for site in needs.sites:
                value = states_of[site.layer][0, slice(*centre.question)]
                yield f"{row}/{centre_name(site, number)}", value.cpu().contiguous()


def _split(values: Tensor, row: Tensor, rows: int) -> Sequence[Tensor]:
    return torch.split(values, torch.bincount(row, minlength=rows).tolist())
