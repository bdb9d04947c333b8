"""Build one padded batch from the rows of a step, and cut it into the inputs of the losses.

One batch contains the rows of all splits. The rows of a split are followed by the same prompts with
alternate or invented answers. So a step is one forward pass. The outputs are then divided into one
`LossInputs` per split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leakbound.losses import (
    IGNORED,
    LossInputs,
    Needs,
    Site,
    Tokens,
    direction,
    pack_activations,
)
from leakbound.unlearning.examples import Example, ExampleRows, Padded, Step, pad

Frozen = Mapping[str, Tensor]  # the frozen model's values of one row, and their names
Head = Callable[[Tensor], Tensor]


def as_it_is(ends: Tensor) -> Tensor:
    """Return the input unchanged; use this function in place of an output head."""
    return ends


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of a step, padded together.

    Attributes:
        padded: the token ids, the mask and the labels of B rows.
        places: a mask that is true at the positions whose logits are needed, [B, T].
        tokens: for each name, a mask that is true at the tokens of answers or of questions, [B, T].
        rows: for each split, the range of its rows among the B rows.
        others: for each split and part, the range of the split's rows with alternate or invented
            answers.
        frozen: for each split, the frozen model's values of each row.
        step_lengths: for each split and part, the number of tokens of each row of the step.
    """

    padded: Padded
    places: Tensor
    tokens: Mapping[Tokens, Tensor]
    rows: Mapping[str, range]
    others: Mapping[tuple[str, str], range]
    frozen: Mapping[str, Sequence[Frozen]]
    step_lengths: Mapping[str, Mapping[str, Sequence[int]]]

    def to(self, device: torch.device) -> Batch:
        """Return the batch on another device; the frozen values are moved when they are used."""
        padded, places = self.padded.to(device), self.places.to(device)
        tokens = {name: mask.to(device) for name, mask in self.tokens.items()}
        return replace(self, padded=padded, places=places, tokens=tokens)


@dataclass(frozen=True, slots=True)
class Assembly:
    """Makes batches of `data`, and cuts each batch into the inputs of losses with these `needs`.

    `seed` is the seed of the direction towards which activations are steered.
    """

    data: Mapping[str, ExampleRows]
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
        *,
        of: Step | None = None,
    ) -> Batch:
        """Return the rows of `step` in one batch, with all parts that the objective needs.

        `of` is the complete step if `step` has only a part of its rows.
        """
        examples: list[Example] = []
        rows: dict[str, range] = {}
        others: dict[tuple[str, str], range] = {}
        for split, indices in step.items():
            rows[split] = _append(examples, self.data[split].examples, indices)
            for part, answers in self.data[split].others.items():
                if part in self.needs[split].parts:
                    others[split, part] = _append(examples, answers, indices)
        needs = [self.needs[split] for split in step]
        ends = ("whole" in n.parts or any(s.tokens == "answer" for s in n.sites) for n in needs)
        padded = pad(examples, whole=any(ends))
        return Batch(
            padded=padded,
            places=self._places(padded, rows, others.values()),
            tokens={
                "answer": _spans(padded, [(len(e.prompt), len(e.tokens)) for e in examples]),
                "question": _spans(padded, [e.question for e in examples]),
            },
            rows=rows,
            others=others,
            frozen=frozen or {},
            step_lengths={s: self._lengths(s, indices) for s, indices in (of or step).items()},
        )

    def _lengths(self, split: str, rows: Sequence[int]) -> dict[str, list[int]]:
        data = self.data[split]
        answers = {"answer": data.examples, **data.others}
        lengths = {part: [len(texts[i].answer) for i in rows] for part, texts in answers.items()}
        return lengths | {"whole": [len(data.examples[i].tokens) for i in rows]}

    def cut(
        self, batch: Batch, logits: Tensor, hidden: Mapping[int, Tensor], head: Head
    ) -> dict[str, LossInputs]:
        """Return the inputs of each split's losses, from the logits at the batch's places [K, V].

        `hidden` contains the outputs of `layers`. `head` is the frozen model's output head, from
        which the frozen model's logits are computed.
        """
        ranges = sorted([*batch.rows.values(), *batch.others.values()], key=lambda rows: rows.start)
        counts = torch.split(batch.places.sum(dim=1), [len(inside) for inside in ranges])
        # `split` returns views and needs one gradient; indexing would copy twice.
        pieces = torch.split(logits, [int(count.sum()) for count in counts])
        picked = _Picked(batch, dict(zip(ranges, pieces, strict=True)))
        return {split: self._inputs(split, picked, hidden, head) for split in batch.rows}

    def _inputs(
        self, split: str, picked: _Picked, hidden: Mapping[int, Tensor], head: Head
    ) -> LossInputs:
        batch, parts, inside = picked.batch, self.needs[split].parts, picked.batch.rows[split]
        labelled, here = batch.padded.labels != IGNORED, slice(inside.start, inside.stop)
        frozen = _FrozenRows(batch.frozen.get(split, ()), labelled.device)
        others = {
            part: replace(picked.at(labelled, rows), reference_nll=frozen.joined(f"{part} nll"))
            for (of, part), rows in batch.others.items()
            if of == split
        }
        whole = None
        if "whole" in parts:
            whole = picked.at(batch.padded.attention_mask.bool(), inside)
            whole = replace(whole, reference_logits=frozen.joined("whole ends", head))
        activations = {}
        for site in self.needs[split].sites:
            states = hidden[site.layer]
            led = direction(states.shape[-1], self.seed).to(states)
            activations[site] = replace(
                pack_activations(states[here], batch.tokens[site.tokens][here]),
                reference=frozen.joined(site_name(site)),
                centres=frozen.centres(site) if "centres" in parts else None,
                direction=led if "direction" in parts else None,
            )
        return replace(
            picked.at(labelled, inside, made=_predicts(self.needs[split]) or whole is not None),
            reference_nll=frozen.joined("nll"),
            reference_logits=frozen.joined("ends", head),
            whole=whole,
            step_lengths=batch.step_lengths[split],
            activations=activations,
            alternate=others.get("alternate"),
            invented=others.get("invented"),
        )

    def _places(self, padded: Padded, rows: Mapping[str, range], others: Iterable[range]) -> Tensor:
        labelled = padded.labels != IGNORED
        places = torch.zeros_like(labelled)
        for split, inside in rows.items():
            here = slice(inside.start, inside.stop)
            if "whole" in self.needs[split].parts:
                places[here] = padded.attention_mask[here].bool()
            elif _predicts(self.needs[split]):
                places[here] = labelled[here]
        for inside in others:
            places[inside.start : inside.stop] = labelled[inside.start : inside.stop]
        return places


@dataclass(frozen=True, slots=True)
class _Picked:
    """The logits at the places of a batch, one piece [k, V] per range of rows."""

    batch: Batch
    pieces: Mapping[range, Tensor]

    def at(self, mask: Tensor, inside: range, *, made: bool = True) -> LossInputs:
        """Return these rows' labels where `mask` [B, T] is true, and the logits there if `made`."""
        here = slice(inside.start, inside.stop)
        row, column = mask[here].nonzero(as_tuple=True)
        logits = self.pieces[inside].new_empty(len(row), 0)
        if made:
            chosen = mask[here][self.batch.places[here]]
            logits = self.pieces[inside] if chosen.all() else self.pieces[inside][chosen]
        labels = self.batch.padded.labels[here][row, column]
        return LossInputs(logits=logits, labels=labels, row=row, rows=len(inside))


@dataclass(frozen=True, slots=True)
class _FrozenRows:
    """The frozen model's values of some rows, as tensors on a device; None for absent values."""

    rows: Sequence[Frozen]
    device: torch.device

    def joined(self, name: str, head: Head = as_it_is) -> Tensor | None:
        if not self.rows or name not in self.rows[0]:
            return None
        join = torch.stack if name.endswith("nll") else torch.cat  # by row, or by token
        with torch.no_grad():
            return head(join([row[name] for row in self.rows]).to(self.device))

    def centres(self, site: Site) -> tuple[tuple[Tensor, ...], ...]:
        return tuple(
            tuple(centre.to(self.device) for centre in centres_of(row, site)) for row in self.rows
        )


def site_name(site: Site) -> str:
    """Return the name of a row's frozen activations at a site."""
    return f"{site.layer} {site.tokens}"


def centre_name(site: Site, number: int | str) -> str:
    """Return the name of the frozen activations of a row's contrast centre."""
    return f"{site_name(site)} centre {number}"


def centres_of(row: Frozen, site: Site) -> list[Tensor]:
    """Return the frozen activations of a row's contrast centres; the first is the question."""
    return [row[name] for name in sorted(row) if name.startswith(centre_name(site, ""))]


def _append(examples: list[Example], source: Sequence[Example], indices: Sequence[int]) -> range:
    start = len(examples)
    examples += [source[i] for i in indices]
    return range(start, len(examples))


def _predicts(needs: Needs) -> bool:
    return bool(needs.parts & {"logits", "reference_nll", "reference_logits"})


def _spans(padded: Padded, spans: Sequence[tuple[int, int]]) -> Tensor:
    column = torch.arange(padded.input_ids.shape[1])
    start, stop = torch.tensor(spans).unsqueeze(-1).unbind(1)
    return torch.logical_and(column >= start, column < stop)
