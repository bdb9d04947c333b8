"""From the rows of a step to what the losses take, by way of one padded batch.

All splits stand below one another in one batch, alternate answers after the rows they belong to,
so that a step is one forward pass. Afterwards each split gets its own `LossInputs` cut from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from residua.losses import (
    IGNORED,
    Activations,
    LossInputs,
    Needs,
    Site,
    direction,
    pack_activations,
)
from residua.unlearning.examples import Example, Padded, Rows, Step, pad

Frozen = Mapping[str, Tensor]  # what the frozen model says of one row, by name
Head = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of a step, padded together.

    `places`, `answer` and `question` [B, T] mark where logits are wanted, and the own tokens of
    answers and questions. `rows` and `alternates` tell which of the B belong to a split, `frozen`
    what is known of its rows. `share` weighs this process's part of the step among all.
    """

    padded: Padded
    places: Tensor
    answer: Tensor
    question: Tensor
    rows: Mapping[str, range]
    alternates: Mapping[str, range]
    frozen: Mapping[str, Sequence[Frozen]]
    share: float = 1.0

    def to(self, device: torch.device) -> Batch:
        """The same on another device; what is frozen follows when it is used."""
        return replace(
            self,
            padded=self.padded.to(device),
            places=self.places.to(device),
            answer=self.answer.to(device),
            question=self.question.to(device),
        )

    def tokens(self, site: Site, rows: range) -> Tensor:
        """Where the tokens of `site` stand in `rows`, [rows, T]."""
        mask = self.answer if site.tokens == "answer" else self.question
        return mask[rows.start : rows.stop]


@dataclass(frozen=True, slots=True)
class Assembly:
    """Makes batches of `data`, and cuts them, for an objective with these `needs`.

    `seed` draws the direction that activations are led to.
    """

    data: Mapping[str, Rows]
    needs: Mapping[str, Needs]
    seed: int = 0

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers whose outputs are needed."""
        return tuple(sorted({site.layer for needs in self.needs.values() for site in needs.sites}))

    def batch(
        self,
        step: Step,
        frozen: Mapping[str, Sequence[Frozen]] | None = None,
        share: float = 1.0,
    ) -> Batch:
        """The rows of `step` in one batch, with what the objective needs of each split."""
        examples: list[Example] = []
        rows: dict[str, range] = {}
        alternates: dict[str, range] = {}
        for split, indices in step.items():
            rows[split] = _append(examples, self.data[split].examples, indices)
            if "alternate" in self.needs[split].parts:
                alternates[split] = _append(examples, self.data[split].alternates, indices)
        padded = pad(examples, whole=any(_reads_the_end(self.needs[split]) for split in step))
        return Batch(
            padded=padded,
            places=self._places(padded, rows, alternates),
            answer=_spans(padded, [(len(e.prompt), len(e.tokens)) for e in examples]),
            question=_spans(padded, [e.question for e in examples]),
            rows=rows,
            alternates=alternates,
            frozen=frozen or {},
            share=share,
        )

    def cut(
        self, batch: Batch, logits: Tensor, hidden: Mapping[int, Tensor], head: Head
    ) -> dict[str, LossInputs]:
        """What the losses of each split take, from the logits at the batch's places [K, V].

        `hidden` are the outputs of `layers`; `head` is the frozen model's, for its logits.
        """
        picked = _Picked(batch, logits)
        return {split: self._inputs(split, picked, hidden, head) for split in batch.rows}

    def _inputs(
        self, split: str, picked: _Picked, hidden: Mapping[int, Tensor], head: Head
    ) -> LossInputs:
        batch, needs = picked.batch, self.needs[split]
        labelled = batch.padded.labels != IGNORED
        frozen = _Known(batch.frozen.get(split, ()), picked.logits.device)
        alternate = whole = None
        if split in batch.alternates:
            nll = frozen.stacked("alternate nll")
            alternate = replace(picked.at(labelled, batch.alternates[split]), reference_nll=nll)
        if "whole" in needs.parts:
            whole = picked.at(batch.padded.attention_mask.bool(), batch.rows[split])
        return replace(
            picked.at(labelled, batch.rows[split], made=_predicts(needs) or whole is not None),
            reference_nll=frozen.stacked("nll"),
            reference_logits=frozen.joined("ends", head),
            alternate=alternate,
            whole=whole,
            activations={
                site: self._activations(site, batch, split, hidden[site.layer])
                for site in needs.sites
            },
        )

    def _places(
        self, padded: Padded, rows: Mapping[str, range], alternates: Mapping[str, range]
    ) -> Tensor:
        labelled = padded.labels != IGNORED
        places = torch.zeros_like(labelled)
        for split, inside in rows.items():
            here = slice(inside.start, inside.stop)
            if "whole" in self.needs[split].parts:
                places[here] = padded.attention_mask[here].bool()
            elif _predicts(self.needs[split]):
                places[here] = labelled[here]
        for inside in alternates.values():
            places[inside.start : inside.stop] = labelled[inside.start : inside.stop]
        return places

    def _activations(self, site: Site, batch: Batch, split: str, hidden: Tensor) -> Activations:
        inside, parts = batch.rows[split], self.needs[split].parts
        frozen = _Known(batch.frozen.get(split, ()), hidden.device)
        made = pack_activations(hidden[inside.start : inside.stop], batch.tokens(site, inside))
        led = direction(hidden.shape[-1], self.seed).to(hidden) if "direction" in parts else None
        return replace(
            made,
            reference=frozen.joined(site_name(site)),
            centres=frozen.centres(site) if "centres" in parts else None,
            direction=led,
        )


@dataclass(frozen=True, slots=True)
class _Picked:
    """The logits [K, V] made at the places of a batch, to be found again by place."""

    batch: Batch
    logits: Tensor

    def at(self, mask: Tensor, inside: range, *, made: bool = True) -> LossInputs:
        """Those at the true entries of `mask` [B, T] in these rows; `made`: they are there."""
        places, here = self.batch.places, slice(inside.start, inside.stop)
        row, column = mask[here].nonzero(as_tuple=True)
        number = places.flatten().cumsum(0).view(places.shape) - 1
        found = self.logits[number[here][row, column]] if made else self._none(len(row))
        labels = self.batch.padded.labels[here][row, column]
        return LossInputs(logits=found, labels=labels, row=row, rows=len(inside))

    def _none(self, rows: int) -> Tensor:
        return self.logits.new_empty(rows, 0)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of some rows, made into tensors on a device; None where nothing is."""

    rows: Sequence[Frozen]
    device: torch.device

    def stacked(self, name: str) -> Tensor | None:
        if not self.rows or name not in self.rows[0]:
            return None
        return torch.stack([row[name] for row in self.rows]).to(self.device)

    def joined(self, name: str, function: Head = lambda values: values) -> Tensor | None:
        if not self.rows or name not in self.rows[0]:
            return None
        with torch.no_grad():
            return function(torch.cat([row[name] for row in self.rows]).to(self.device))

    def centres(self, site: Site) -> tuple[tuple[Tensor, ...], ...]:
        names = [[n for n in row if n.startswith(centre_name(site, ""))] for row in self.rows]
        return tuple(
            tuple(row[name].to(self.device) for name in sorted(own))
            for row, own in zip(self.rows, names, strict=True)
        )


def site_name(site: Site) -> str:
    """What a row's frozen activations at a site are called."""
    return f"{site.layer} {site.tokens}"


def centre_name(site: Site, number: int | str) -> str:
    """What the frozen activations of a row's contrast centre are called."""
    return f"{site_name(site)} centre {number}"


def _append(examples: list[Example], source: Sequence[Example], indices: Sequence[int]) -> range:
    start = len(examples)
    examples += [source[i] for i in indices]
    return range(start, len(examples))


def _predicts(needs: Needs) -> bool:
    return bool(needs.parts & {"logits", "reference_nll", "reference_logits"})


def _reads_the_end(needs: Needs) -> bool:
    return "whole" in needs.parts or any(site.tokens == "answer" for site in needs.sites)


def _spans(padded: Padded, spans: Sequence[tuple[int, int]]) -> Tensor:
    column = torch.arange(padded.input_ids.shape[1])
    start, stop = torch.tensor(spans).unsqueeze(-1).unbind(1)
    return torch.logical_and(column >= start, column < stop)
