"""The law of the next token under a decoding, draws by it, and how much of it a margin leaves.

The same prefix, computed in a batch of another shape, has other roundings. `margin` says how far
they go: no logit differs by more than margin / 2 between batch shapes, so no log-probability at
T = 1 by more than margin, none at temperature T by more than margin / T. A *floor* is a lower
bound of a log-probability under every such perturbation. Where a token's place in the top-k or
nucleus, the largest logit, or the adaptive switch could come out otherwise, the doubtful token
has floor −inf and the others are divided by the weight of all that could be kept.

All probabilities are float64. With margin 0 nothing is in doubt, ties included. Draws go by inverse
CDF; a token of probability 0 is never drawn. On a GPU the logits stay there: for 2^27 of them three
transfers draw (rows and uniforms there, what the rows are and what was drawn back), and one or two
more where draws are truncated, however many rows and draws there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.types import Decoding

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_NUCLEUS_TOLERANCE = 1e-12  # .5 + .3 reaches a top-p of .8 in spite of rounding
# float64 values worked on at once: few enough to stay in a processor's cache, many for a GPU
_ELEMENTS = {"cpu": 1 << 18, "other": 1 << 27}
_ROUNDING = 1e-11  # added to a margin, above what float64 sums over a vocabulary err by


class Tempered(NamedTuple):
    """exp((logits − top) / temperature), in float64, for a search in two levels.

    Attributes:
        blocks: [rows, blocks, tokens], about as many of either, zeros behind the vocabulary.
        sums: of each block, [rows, blocks].
        flat: [rows, vocabulary].
    """

    blocks: torch.Tensor
    sums: torch.Tensor
    flat: torch.Tensor

    @classmethod
    def of(cls, logits: torch.Tensor, top: torch.Tensor, temperature: float = 1.0) -> Tempered:
        """The weights of rows of logits at a temperature.

        Args:
            logits: [rows, vocabulary], in any float.
            top: the largest logit of each row, [rows], in float64.
            temperature: above 0.

        Returns:
            The weights.
        """
        height, size = logits.shape
        width = 1 << size.bit_length() // 2
        room = top.new_empty(height, -(-size // width) * width)
        room[:, size:] = 0.0
        flat = torch.sub(logits, top[:, None], out=room[:, :size])
        (flat if temperature == 1 else flat.div_(temperature)).exp_()
        blocks = room.view(height, -1, width)
        return cls(blocks, blocks.sum(dim=-1), flat)


@dataclass(frozen=True, slots=True)
class LogitsReading:
    """Rows of logits read as T = 1 distributions; unusable rows are `broken` and read as flat.

    Attributes:
        logits: [rows, vocabulary].
        weights: those at T = 1.
        top: the largest logit of each row, [rows], float64.
        log_total: the natural logarithm of each row's summed weights, [rows].
        p_max: the largest probability of each row, [rows].
        broken: whether the row's logits were unusable, [rows].
    """

    logits: torch.Tensor
    weights: Tempered
    top: torch.Tensor
    log_total: torch.Tensor
    p_max: Floats
    broken: Flags

    @property
    def best(self) -> torch.Tensor:
        """The lowest id of the largest logit: `max` tells the first."""
        return self.logits.max(dim=-1).indices

    def tempered(self, temperature: float) -> Tempered:
        """The weights at another temperature.

        Args:
            temperature: above 0.

        Returns:
            The weights.
        """
        return self.weights if temperature == 1 else Tempered.of(self.logits, self.top, temperature)


class Step(NamedTuple):
    """One token's natural log-probabilities, as in `Law`, and p_max of the row it is from.

    Attributes:
        logprob: under the decoding.
        floor: a lower bound of `logprob` for any logits within the margin.
        model_logprob: under the untruncated T = 1 model.
        p_max: the largest T = 1 probability of the row.
    """

    logprob: float
    floor: float
    model_logprob: float
    p_max: float


@dataclass(frozen=True, slots=True)
class Law:
    """Natural log-probabilities of every next token; −inf is impossible.

    Attributes:
        logprob: under the decoding, [rows, vocabulary].
        floor: a lower bound of `logprob` for any logits within the margin, [rows, vocabulary].
        model_logprob: under the untruncated T = 1 model, [rows, vocabulary].
        p_max: the largest T = 1 probability, [rows].
        broken: whether the logits were unusable, [rows].
    """

    logprob: torch.Tensor
    floor: torch.Tensor
    model_logprob: torch.Tensor
    p_max: Floats
    broken: Flags

    def taken(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> Floats:
        """`logprob`, `floor` and `model_logprob` of some tokens, read off the device at once.

        Args:
            rows: the row of each token, [tokens].
            ids: the tokens, [tokens].

        Returns:
            [3, tokens], float64.
        """
        row, token = torch.as_tensor(np.stack([rows, ids]), device=self.logprob.device)
        columns = (self.logprob, self.floor, self.model_logprob)
        values: Floats = torch.stack([column[row, token] for column in columns]).cpu().numpy()
        return values

    def steps(self, tokens: Sequence[Sequence[int]]) -> list[list[tuple[int, Step]]]:
        """The step to each of some tokens.

        Args:
            tokens: those of each row in turn.

        Returns:
            For each row, (token, step) of each of its tokens.
        """
        rows = np.repeat(np.arange(len(tokens)), [len(some) for some in tokens])
        ids = np.fromiter(chain.from_iterable(tokens), dtype=np.int64, count=len(rows))
        every = zip(
            ids.tolist(), *self.taken(rows, ids).tolist(), self.p_max[rows].tolist(), strict=True
        )
        steps = iter([(id_, Step(*values)) for id_, *values in every])
        return [list(islice(steps, len(some))) for some in tokens]


@dataclass(frozen=True, slots=True)
class Kept:
    """The heaviest tokens of each row, descending, ties by id, and how far truncation keeps them.

    Attributes:
        mass: their weights, [rows, width], which need not sum to 1.
        ids: their token ids, [rows, width].
        kept: how many of them, from the first on, are kept, [rows]; 0 where too few were looked at
            to tell.
        sure: how many are kept under any logits within the margin, [rows].
        possible: how many are kept under some logits within the margin, at most, [rows].
    """

    mass: torch.Tensor
    ids: torch.Tensor
    kept: torch.Tensor
    sure: torch.Tensor
    possible: torch.Tensor

    def rows(self, chosen: torch.Tensor | slice) -> Kept:
        """The same of some rows.

        Args:
            chosen: numbers of rows, or a slice of them.

        Returns:
            Those rows.
        """
        parts = (self.mass, self.ids, self.kept, self.sure, self.possible)
        return Kept(*(part[chosen] for part in parts))


def rows_at_once(logits: torch.Tensor) -> int:
    """How many rows of logits to work on at a time.

    Args:
        logits: [rows, vocabulary].

    Returns:
        At least 1.
    """
    at_once = _ELEMENTS["cpu" if logits.device.type == "cpu" else "other"]
    return max(1, at_once // logits.shape[1])


def read(logits: torch.Tensor) -> LogitsReading:
    """The T = 1 distributions behind rows of logits.

    Args:
        logits: [rows, vocabulary], in any float.

    Returns:
        The reading; rows with NaN, +inf or no finite entry are broken.
    """
    top = logits.amax(dim=-1).double()  # NaN where one of them is
    weights = Tempered.of(logits, top)
    log_total = torch.log(weights.sums.sum(dim=-1))
    unusable = ~torch.isfinite(top)
    p_max, broken = torch.stack([torch.exp(-log_total), unusable.double()]).cpu().numpy()
    if broken.any():
        flat = read(torch.where(unusable[:, None], 0.0, logits))
        return replace(flat, broken=broken > 0)
    return LogitsReading(logits, weights, top, log_total, p_max, broken > 0)


def greedy_steps(
    p_max: Floats, decoding: Decoding, p_max_sum: Floats, depth: NDArray[np.int64], margin: float
) -> tuple[Flags, Flags]:
    """Which rows take the likeliest token, and for which of them or others that is in doubt.

    The mean of p_max over a prefix moves by a factor of at most e^margin.

    Args:
        p_max: the largest T = 1 probability of each row, [rows].
        decoding: greedy, or with adaptive temperature in mode "running"; else no row is.
        p_max_sum: of each row the sum of p_max over the tokens before this one, [rows].
        depth: of each row how many tokens there will be with this one, [rows].
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).

    Returns:
        Two masks, [rows] each: greedy, and in doubt.
    """
    threshold = decoding.adaptive_temperature
    if decoding.greedy or threshold is None or decoding.adaptive_mode != "running":
        return np.full(len(p_max), decoding.greedy), np.zeros(len(p_max), dtype=bool)
    mean = (p_max_sum + p_max) / depth
    if not margin:
        return mean > threshold, np.zeros(len(p_max), dtype=bool)
    factor = ratio(margin)
    return mean > threshold, (mean / factor <= threshold) & (threshold <= mean * factor)


@torch.inference_mode()
def certain_law(
    logits: torch.Tensor,
    decoding: Decoding,
    p_max_sum: Floats,
    depth: NDArray[np.int64],
    margin: float,
) -> Law:
    """The next-token law of each row of logits, and its floors for this margin.

    Args:
        logits: of the untruncated T = 1 model, [rows, vocabulary].
        decoding: the distribution to draw from.
        p_max_sum: of each row the sum of p_max over the tokens before this one, [rows] (adaptive
            temperature, `running`).
        depth: of each row how many tokens there will be with this one, [rows].
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).

    Returns:
        The law.
    """
    return _law(read(logits), decoding, (p_max_sum, depth), margin)


def _law(
    at_one: LogitsReading,
    decoding: Decoding,
    confidence: tuple[Floats, NDArray[np.int64]],
    margin: float,
) -> Law:
    """The law of each row; `confidence` as for `pick`."""
    greedy, doubtful = greedy_steps(at_one.p_max, decoding, *confidence, margin)
    model_logprob = at_one.logits - (at_one.top + at_one.log_total)[:, None]
    if greedy.all() and not doubtful.any():
        logprob, floor = _likeliest(at_one, margin)
        return Law(logprob, floor, model_logprob, at_one.p_max, at_one.broken)
    logprob, floor = _sampled(at_one, decoding, margin)
    if greedy.any() or doubtful.any():
        first, second = (_column(rows, floor.device) for rows in (greedy, doubtful))
        sure_logprob, sure_floor = _likeliest(at_one, margin)
        either = torch.minimum(floor, sure_floor)
        floor = torch.where(second, either, torch.where(first, sure_floor, floor))
        logprob = torch.where(first, sure_logprob, logprob)
    return Law(logprob, floor, model_logprob, at_one.p_max, at_one.broken)


def _likeliest(at_one: LogitsReading, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """All mass on the largest logit; its floor is −inf where another could be as large."""
    best = at_one.best[:, None]
    logprob = torch.full_like(at_one.weights.flat, -math.inf).scatter_(1, best, 0.0)
    if not margin:
        return logprob, logprob
    others = at_one.logits.scatter(1, best, -math.inf)
    sure = at_one.top - others.amax(dim=-1) > margin + _ROUNDING
    return logprob, torch.where(sure[:, None], logprob, -math.inf)


def _sampled(
    at_one: LogitsReading, decoding: Decoding, margin: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities, and their floors, of a step that is not greedy."""
    temperature = decoding.temperature
    weights = at_one.tempered(temperature)
    if not decoding.truncated:
        scaled = (at_one.logits - at_one.top[:, None]) / temperature
        logprob = scaled - torch.log(weights.sums.sum(dim=-1, keepdim=True))
        return logprob, logprob - margin / temperature
    logprob = torch.full_like(weights.flat, -math.inf)
    floor = torch.full_like(weights.flat, -math.inf)
    for rows, part in truncations(weights.flat, decoding, margin):
        upto, log_mass = part.mass.cumsum(dim=-1), torch.log(part.mass)
        place = torch.arange(part.mass.shape[1], device=logprob.device)

        def log_total(leading: torch.Tensor, upto: torch.Tensor = upto) -> torch.Tensor:
            return torch.log(upto.gather(1, leading[:, None] - 1))

        kept = torch.where(place < part.kept[:, None], log_mass - log_total(part.kept), -math.inf)
        least = log_mass - log_total(part.possible) - margin / temperature
        least = torch.where(place < part.sure[:, None], least, -math.inf)
        logprob[rows] = logprob[rows].scatter_(1, part.ids, kept)
        floor[rows] = floor[rows].scatter_(1, part.ids, least)
    return logprob, floor


def truncations(
    weights: torch.Tensor, decoding: Decoding, margin: float = 0.0
) -> Iterator[tuple[torch.Tensor, Kept]]:
    """The tokens that top-k and then top-p keep of each row, a few rows at a time.

    Args:
        weights: [rows, vocabulary], at the decoding's temperature; need not sum to 1.
        decoding: one that truncates.
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).

    Returns:
        (numbers of rows, their tokens), until every row was told of once.
    """
    rows, width = torch.arange(len(weights), device=weights.device), min(64, weights.shape[1])
    while len(rows):
        part = kept_tokens(weights[rows], decoding, width, margin)
        left = torch.nonzero(part.kept == 0)[:, 0]
        done = torch.nonzero(part.kept)[:, 0] if len(left) else slice(None)
        if len(left) < len(rows):
            yield rows[done], part.rows(done)
        rows, width = rows[left], min(16 * width, weights.shape[1])


def kept_tokens(weights: torch.Tensor, decoding: Decoding, width: int, margin: float) -> Kept:
    """Look at the heaviest tokens of each row and tell which truncation keeps.

    Args:
        weights: [rows, vocabulary], at the decoding's temperature; need not sum to 1.
        decoding: one that truncates.
        width: how many tokens of each row to look at, at most the vocabulary.
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).

    Returns:
        Those tokens; `kept` is 0 in rows where `width` was too few to tell.
    """
    size = weights.shape[1]
    mass, ids = torch.topk(weights, width, dim=-1)
    ids, order = ids.sort(dim=-1)
    mass, again = mass.gather(1, order).sort(dim=-1, descending=True, stable=True)
    ids = ids.gather(1, again)
    # beyond the tokens heavier than the last one seen, an unseen tie could come first
    certain = (mass > mass[:, -1:]).sum(dim=-1) if width < size else (mass > 0).sum(dim=-1)
    limit = decoding.top_k or size
    upto = mass.cumsum(dim=-1)
    total = upto[:, min(limit, width) - 1] if limit <= width else weights.sum(dim=-1)
    reach = (decoding.top_p - _NUCLEUS_TOLERANCE) * total
    kept = ((upto < reach[:, None]).sum(dim=-1) + 1).clamp(max=limit)
    if decoding.top_p == 1:
        kept = torch.full_like(kept, limit)
    if width == size:
        kept = torch.minimum(kept, certain)
    else:
        kept = torch.where((kept <= certain) & (limit <= width or not decoding.top_k), kept, 0)
    if not margin:
        return Kept(mass, ids, kept, kept, kept)
    whole = None if decoding.top_k else weights.sum(dim=-1)
    sure, possible, seen = _doubt(mass, decoding, margin, whole)
    if width < size:
        kept = torch.where(seen, kept, 0)
    return Kept(mass, ids, kept, sure, possible)


def _doubt(
    mass: torch.Tensor, decoding: Decoding, margin: float, whole: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """How many leading tokens are surely kept, how many possibly, and if `mass` shows as much.

    A weight moves by a factor within e^(±margin / 2T), so two change places only if their ratio
    is within `factor`. Worst for a token: whatever may come before it does and is heavy, what
    stays behind is light; best: the reverse. It is in the nucleus if the mass before it is below
    top_p of all, that is (1 − p) · before < p · (itself and after). Both sets are leading ones,
    since all of it is monotone in the token's weight. `whole` is the mass of all tokens, where
    top-k does not limit them.
    """
    factor = ratio(margin / decoding.temperature)
    width = mass.shape[1]
    limit = decoding.top_k or width + 1
    upto = torch.nn.functional.pad(mass.cumsum(dim=-1), (1, 0))
    negated = -mass  # ascending, for the search; both counts are of leading tokens
    may = torch.searchsorted(negated, negated / factor, right=True)  # itself included
    must = torch.searchsorted(negated, negated * factor)
    sure, possible = may <= limit, must < limit
    among_sure, among_possible = sure.sum(dim=-1), possible.sum(dim=-1)
    if decoding.top_p < 1:
        p = decoding.top_p - _NUCLEUS_TOLERANCE
        least = upto.gather(1, among_sure[:, None]) if whole is None else whole[:, None]
        most = upto.gather(1, among_possible[:, None]) if whole is None else whole[:, None]
        before = upto.gather(1, may) - mass
        after = torch.maximum(least - before, mass)
        slack = _NUCLEUS_TOLERANCE * most
        sure &= (1 - p) * before * factor + slack < p * after
        before = upto.gather(1, must)
        possible &= (1 - p) * before <= factor * p * (most - before) + slack
    # where the last token looked at is out, no unseen one can come before a kept one
    seen = (among_possible if decoding.top_k else possible.sum(dim=-1)) < width
    return sure.sum(dim=-1), possible.sum(dim=-1), seen


def ratio(log: float) -> float:
    """By how much a ratio may change; finite, so that it times 0 is 0.

    Args:
        log: by how much its natural logarithm may, at least 0.

    Returns:
        The factor, at least 1.
    """
    return math.exp(min(log + _ROUNDING, 600.0))


def _column(rows: Flags, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(rows).to(device)[:, None]


@dataclass(frozen=True, slots=True)
class Picks:
    """Tokens drawn from rows of logits, and what each row was.

    Attributes:
        tokens: the token of each draw, [draws].
        logprob: its natural log-probability under the decoding, [draws].
        floor: a lower bound of `logprob` for any logits within the margin, [draws].
        model_logprob: that under the untruncated T = 1 model, [draws].
        p_max: the largest T = 1 probability of each row, [rows].
        broken: whether the row's logits were unusable, [rows]; what is drawn there means nothing.
    """

    tokens: NDArray[np.int64]
    logprob: Floats
    floor: Floats
    model_logprob: Floats
    p_max: Floats
    broken: Flags

    def steps(self, draws: NDArray[np.int64], rows: NDArray[np.int64]) -> Floats:
        """The steps that some draws took.

        Args:
            draws: numbers of draws, [n].
            rows: the row that each of them is from, [n].

        Returns:
            The fields of a `Step` for each, [n, 4].
        """
        columns = (self.logprob[draws], self.floor[draws], self.model_logprob[draws])
        return np.stack([*columns, self.p_max[rows]], axis=1)


@torch.inference_mode()
def pick(
    logits: torch.Tensor,
    decoding: Decoding,
    rows: NDArray[np.int64],
    uniforms: Floats,
    confidence: tuple[Floats, NDArray[np.int64]],
    margin: float = 0.0,
) -> Picks:
    """Draw token i from row `rows[i]` of the logits with `uniforms[i]`, by inverse CDF.

    Args:
        logits: of the untruncated T = 1 model, [rows, vocabulary].
        decoding: the distribution to draw from.
        rows: the row of each draw, sorted, [draws].
        uniforms: a number in [0, 1) for each draw, [draws].
        confidence: for each row the sum of p_max over the tokens before this one, [rows], and how
            many tokens there will be with it, [rows] (adaptive temperature, `running`).
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).

    Returns:
        The draws, in the same order.
    """
    height = rows_at_once(logits)
    if len(logits) > height:
        starts = np.arange(0, len(logits), height)
        cuts = np.searchsorted(rows, [*starts, len(logits)])
        sums, depth = confidence
        parts = [
            pick(
                logits[start : start + height],
                decoding,
                rows[low:high] - start,
                uniforms[low:high],
                (sums[start : start + height], depth[start : start + height]),
                margin,
            )
            for start, low, high in zip(starts, cuts, cuts[1:], strict=False)
        ]
        columns = ([getattr(part, field.name) for part in parts] for field in fields(Picks))
        return Picks(*map(np.concatenate, columns))
    at_one = read(logits)
    greedy, doubtful = greedy_steps(at_one.p_max, decoding, *confidence, margin)
    row, u = torch.from_numpy(np.stack([rows, uniforms])).to(logits.device)
    row, drawn = row.long(), np.flatnonzero(~greedy[rows])
    search = _search_nucleus if decoding.truncated else _search_all
    if len(drawn) == len(rows):
        tokens, logprob = search(at_one.tempered(decoding.temperature), row, u, decoding)
    else:
        tokens, logprob = at_one.best[row], torch.zeros_like(u)
        if len(drawn):
            mine = torch.as_tensor(drawn, device=row.device)
            tokens[mine], logprob[mine] = search(
                at_one.tempered(decoding.temperature), row[mine], u[mine], decoding
            )
    model_logprob = at_one.logits[row, tokens] - at_one.top[row] - at_one.log_total[row]
    if not margin:
        floor = logprob
    elif decoding.truncated or greedy.any() or doubtful.any():
        floor = _law(at_one, decoding, confidence, margin).floor[row, tokens]
    else:
        floor = logprob - margin / decoding.temperature
    # float64 holds every token's id exactly
    table = torch.stack([tokens.double(), logprob, floor, model_logprob]).cpu().numpy()
    values = (table[1], table[2], table[3], at_one.p_max, at_one.broken)
    return Picks(table[0].astype(np.int64), *values)


def _search_all(
    weights: Tempered, row: torch.Tensor, u: torch.Tensor, decoding: Decoding
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse CDF over the whole vocabulary: tokens, and their log-probabilities."""
    _, count, width = weights.blocks.shape
    own = weights.sums.cumsum(dim=-1)[row]
    target = u * own[:, -1]
    block = _place(own, target)
    inside = weights.blocks.flatten(0, 1).index_select(0, row * count + block)
    # rounding of what is below may point before the start of a block, or beyond its end
    below = own.gather(1, block[:, None])[:, 0] - weights.sums[row, block]
    offset = _place(inside.cumsum(dim=-1), (target - below).clamp_(min=0.0))
    chosen = inside.gather(1, offset[:, None])[:, 0]
    return block * width + offset, torch.log(chosen) - torch.log(own[:, -1])


def _search_nucleus(
    weights: Tempered, row: torch.Tensor, u: torch.Tensor, decoding: Decoding
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse CDF over the tokens that top-k and then top-p keep."""
    tokens = torch.empty_like(row)
    logprob = torch.empty_like(u)
    for done, part in truncations(weights.flat, decoding):
        mine: torch.Tensor | slice = slice(None)
        slot = row
        if len(done) < len(weights.flat):
            where = torch.full(weights.flat.shape[:1], -1, dtype=torch.long, device=row.device)
            where[done] = torch.arange(len(done), device=row.device)
            mine = torch.nonzero(where[row] >= 0)[:, 0]
            slot = where[row[mine]]
        upto, last = part.mass.cumsum(dim=-1), part.kept - 1
        total = upto.gather(1, last[:, None])[:, 0]
        index = (upto[slot] <= (u[mine] * total[slot])[:, None]).sum(dim=-1)
        index = torch.minimum(index, last[slot])
        tokens[mine] = part.ids[slot, index]
        logprob[mine] = torch.log(part.mass[slot, index]) - torch.log(total[slot])
    return tokens, logprob


def _place(upto: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Per row, the first entry of what ascends that is greater than its target, or the largest."""
    first = torch.searchsorted(upto, targets[:, None], right=True)
    return torch.minimum(first, torch.searchsorted(upto, upto[:, -1:].contiguous()))[:, 0]
