"""Beam search under the decoding, with exact masses: what proofs of leaks are compared with.

After Cooper et al., arXiv 2603.24917, of whom the idea and the width of 20 are taken. Their pruning
by distance to the answer is not: any wording that scores as a leak is one. What ends at a beam is
counted and takes no place in it; what is cut off is counted where it is settled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leakbound.sampling import PrefixModel, Settle
from leakbound.sampling.forest import Root, Stem, forward, laws_after
from leakbound.sampling.model import Ended, Ending
from leakbound.types import Decoding


@dataclass(frozen=True, slots=True)
class Beams:
    """What beams reached: (ids, whether they ended, lower bound of their mass), and forwards.

    Nothing begins with anything else of it, so that masses add up.
    """

    reached: tuple[tuple[tuple[int, ...], bool, float], ...]
    forwards: int

    def leaks(self, number: int, settle: Settle) -> float:
        """The leaking mass at least, scored at the end."""
        ranges = settle(number, [(ids, ended) for ids, ended, _ in self.reached])
        masses = (mass for *_, mass in self.reached)
        return math.fsum(mass * low for mass, (low, _) in zip(masses, ranges, strict=True))


def beam_search(
    model: PrefixModel,
    root: Root,
    decoding: Decoding,
    *,
    width: int,
    forwards: int,
    margin: float = 0.0,
    ended: Ended | None = None,
) -> Beams:
    """The `width` likeliest prefixes of every length that is reached with so many forwards."""
    ending = Ending.of(model, decoding, ended)
    handle, logits = model.prefill(root.token_ids)
    open_, handles, held = [Stem.prompt()], [handle], [handle]
    done: list[tuple[tuple[int, ...], bool, float]] = []
    spent = 0
    while True:
        children = []
        for part, law in laws_after(logits, open_, decoding, margin):
            ids = law.logprob.topk(min(width, model.vocab_size)).indices.tolist()
            parents = zip(open_[part], handles[part], ids, law.steps(ids), strict=True)
            for stem, at, tokens, steps in parents:
                children += [stem.child(at, *each) for each in zip(tokens, steps, strict=True)]
        children = [child for child in children if child.floor > -math.inf]
        ends = [child for child in children if ending.reason(child.path)]
        done += [(child.path, True, math.exp(child.floor)) for child in ends]
        going = [child for child in children if not ending.reason(child.path)]
        going.sort(key=lambda child: (-child.logprob, child.path))
        open_ = going[: min(width, forwards - spent)]
        if not open_:
            break
        spent += len(open_)
        new, logits = forward(model, open_)
        handles = new.tolist()
        held += handles
    done += [(child.path, False, math.exp(child.floor)) for child in going]
    model.release(np.array(held, dtype=np.int64))
    return Beams(tuple(done), spent)
