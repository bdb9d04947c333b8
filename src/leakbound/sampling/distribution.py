"""Next-token distributions under a decoding, draws from them, and lower bounds under a margin.

The logits of a prefix are rounded differently in batches of different shapes.
`margin` bounds the effect: no logit differs by more than margin / 2 between
batch shapes. So no log-probability at T = 1 differs by more than margin, and no
log-probability at temperature T by more than margin / T. A *floor* is a lower
bound of a log-probability under every such perturbation of the logits. A
perturbation may decide whether a token is in the top-k or the nucleus, which
token has the largest logit, or whether adaptive temperature switches to greedy.
A token that is in doubt for such a reason has floor −inf. The weights of the
other tokens are divided by the weight of all tokens that may be kept.

All probabilities are float64. With margin 0 no token is in doubt, even if
logits are tied. Draws use the inverse CDF; a token of probability 0 is never
drawn. On a GPU the logits stay on the device. Drawing from up to 2^27 logits
needs three transfers between host and device, for any number of rows and draws.
Rows and uniforms are copied to the device, and values per row and per draw are
copied back. Truncated draws need two more transfers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.types import Decoding

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Confidence: TypeAlias = tuple[Floats, NDArray[np.int64]]
"""Two arrays: for each prefix, the sum over its tokens of the largest T = 1 next-token probability,
and the number of its tokens plus 1.
"""
Drawn: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""The drawn tokens, their log-probabilities, and the floors of these log-probabilities, [draws]
each.
"""

_NUCLEUS_TOLERANCE = 1e-12  # so that .5 + .3 reaches a top-p of .8 in spite of rounding
# float64 values in one batch: few enough for the cache of a CPU, many for a GPU
_ELEMENTS = {"cpu": 1 << 18, "other": 1 << 27}
_SHIFT, _BUCKETS = 47, 1 << 11  # keeps a float64's exponent and five more bits
_LAST = (1023 - 63) << 5  # the bits of 2^-63 that are kept
_SUMMED = 1e-9  # exceeds the difference between sums over a vocabulary in different orders
_ROUNDING = 1e-11  # added to a margin; exceeds the error of float64 sums over a vocabulary


class Tempered(NamedTuple):
    """Weights exp((logits − top) / temperature) in float64, in blocks for a two-level search.

    Attributes:
        blocks: the weights, [rows, blocks, tokens], with about as many blocks as tokens per block,
            and zeros after the end of the vocabulary.
        sums: the sum of each block, [rows, blocks].
        flat: the weights without blocks, [rows, vocabulary].
    """

    blocks: torch.Tensor
    sums: torch.Tensor
    flat: torch.Tensor

    @classmethod
    def of(cls, logits: torch.Tensor, top: torch.Tensor, temperature: float = 1.0) -> Tempered:
        """Return the weights of rows of logits at a temperature.

        Args:
            logits: [rows, vocabulary], of any floating-point type.
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
    """Rows of logits as T = 1 distributions; unusable rows are `broken` and treated as uniform.

    Attributes:
        logits: [rows, vocabulary].
        weights: the weights at T = 1.
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
        """The likeliest token of each row; among tied tokens, the token with the lowest id."""
        return self.logits.max(dim=-1).indices

    def tempered(self, temperature: float) -> Tempered:
        """Return the weights at a temperature other than 1.

        Args:
            temperature: above 0.

        Returns:
            The weights.
        """
        return self.weights if temperature == 1 else Tempered.of(self.logits, self.top, temperature)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Natural log-probabilities of every next token; −inf for impossible tokens.

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

    def at(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> Floats:
        """Return the values of some tokens, by one transfer from the device.

        Args:
            rows: the row of each token, [tokens].
            ids: the tokens, [tokens].

        Returns:
            `logprob`, `floor`, `model_logprob` and `p_max` of each token, [4, tokens], float64.
        """
        row, token = torch.as_tensor(np.stack([rows, ids]), device=self.logprob.device)
        columns = (self.logprob, self.floor, self.model_logprob)
        values: Floats = torch.stack([column[row, token] for column in columns]).cpu().numpy()
        return np.concatenate([values, self.p_max[None, rows]])


@dataclass(frozen=True, slots=True)
class Kept:
    """Each row's tokens of largest weight, by weight and then by id, and the number of kept tokens.

    Attributes:
        mass: the weights of these tokens, padded with zeros, [rows, width]; they need not sum to 1.
        upto: the cumulative mass up to and including each token, [rows, width].
        ids: the ids of the tokens, [rows, width].
        kept: the number of leading tokens that are kept, [rows].
        certain: the number of leading tokens that are kept for all logits within the margin,
            [rows].
        possible: the largest number of leading tokens that are kept for some logits within the
            margin, [rows].
    """

    mass: torch.Tensor
    upto: torch.Tensor
    ids: torch.Tensor
    kept: torch.Tensor
    certain: torch.Tensor
    possible: torch.Tensor

    def total(self, leading: torch.Tensor) -> torch.Tensor:
        """Return the mass of the first `leading` tokens of each row, [rows]."""
        return self.upto.gather(1, leading[:, None] - 1)[:, 0]

    def of(
        self, row: torch.Tensor, place: torch.Tensor, margin: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities of some tokens, and their floors.

        Args:
            row: the row of each token, [tokens].
            place: the index of each token in its row, [tokens].
            margin: the largest change of a log-probability at the decoding's temperature.

        Returns:
            Two tensors, [tokens] each.
        """
        log_mass = torch.log(self.mass[row, place])
        logprob = log_mass - torch.log(self.total(self.kept))[row]
        floor = log_mass - torch.log(self.total(self.possible))[row] - margin
        return (
            torch.where(place < self.kept[row], logprob, -math.inf),
            torch.where(place < self.certain[row], floor, -math.inf),
        )


def rows_together(logits: torch.Tensor) -> int:
    """Return the number of rows of logits to process in one batch.

    Args:
        logits: [rows, vocabulary].

    Returns:
        At least 1.
    """
    elements = _ELEMENTS["cpu" if logits.device.type == "cpu" else "other"]
    return max(1, elements // logits.shape[1])


def read(logits: torch.Tensor) -> LogitsReading:
    """Return the T = 1 distributions behind rows of logits.

    Args:
        logits: [rows, vocabulary], of any floating-point type.

    Returns:
        The distributions; rows with NaN, +inf or no finite entry are broken.
    """
    top = logits.amax(dim=-1).double()  # NaN if one of the logits is NaN
    weights = Tempered.of(logits, top)
    log_total = torch.log(weights.sums.sum(dim=-1))
    unusable = ~torch.isfinite(top)
    p_max, broken = torch.stack([torch.exp(-log_total), unusable.double()]).cpu().numpy()
    if broken.any():
        flat = read(torch.where(unusable[:, None], 0.0, logits))
        return replace(flat, broken=broken > 0)
    return LogitsReading(logits, weights, top, log_total, p_max, broken > 0)


def greedy_steps(
    p_max: Floats, decoding: Decoding, confidence: Confidence, margin: float
) -> tuple[Flags, Flags]:
    """Return the rows that are greedy, and the rows for which this is in doubt.

    A greedy row has all probability on its likeliest token. A perturbation of the logits changes
    the mean of p_max over a prefix by a factor of at most e^margin.

    Args:
        p_max: the largest T = 1 probability of each row, [rows].
        decoding: the decoding; unless it is greedy or has adaptive temperature in mode "running",
            no row is greedy.
        confidence: the `Confidence` of each row's prefix.
        margin: the largest difference of a T = 1 log-probability between batch shapes, in nats; at
            least 0 (see `distribution`).

    Returns:
        Two masks, [rows] each: greedy, and in doubt.
    """
    threshold = decoding.adaptive_temperature
    if decoding.greedy or threshold is None or decoding.adaptive_mode != "running":
        return np.full(len(p_max), decoding.greedy), np.zeros(len(p_max), dtype=bool)
    p_max_sum, depth = confidence
    mean = (p_max_sum + p_max) / depth
    if not margin:
        return mean > threshold, np.zeros(len(p_max), dtype=bool)
    factor = ratio(margin)
    return mean > threshold, (mean / factor <= threshold) & (threshold <= mean * factor)


@torch.inference_mode()
def next_distribution(
    logits: torch.Tensor, decoding: Decoding, confidence: Confidence, margin: float
) -> Distribution:
    """Return the next-token distribution of each row of logits, and its floors for this margin.

    Args:
        logits: the untruncated T = 1 logits, [rows, vocabulary].
        decoding: the distribution to draw from.
        confidence: the `Confidence` of each row's prefix, used by adaptive temperature in mode
            "running".
        margin: the largest difference of a T = 1 log-probability between batch shapes, in nats; at
            least 0 (see `distribution`).

    Returns:
        The distribution.
    """
    return _distribution(read(logits), decoding, confidence, margin)


def _distribution(
    at_one: LogitsReading, decoding: Decoding, confidence: Confidence, margin: float
) -> Distribution:
    greedy, doubtful = greedy_steps(at_one.p_max, decoding, confidence, margin)
    model_logprob = at_one.logits - (at_one.top + at_one.log_total)[:, None]
    if greedy.all() and not doubtful.any():
        logprob, floor = _likeliest(at_one, margin)
        return Distribution(logprob, floor, model_logprob, at_one.p_max, at_one.broken)
    logprob, floor = _sampled(at_one, decoding, margin)
    if greedy.any() or doubtful.any():
        masks = torch.from_numpy(np.stack([greedy, doubtful])).to(floor.device)
        first, second = masks[:, :, None]
        greedy_logprob, greedy_floor = _likeliest(at_one, margin)
        either = torch.minimum(floor, greedy_floor)
        floor = torch.where(second, either, torch.where(first, greedy_floor, floor))
        logprob = torch.where(first, greedy_logprob, logprob)
    return Distribution(logprob, floor, model_logprob, at_one.p_max, at_one.broken)


def _likeliest(at_one: LogitsReading, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Put all mass on the largest logit; its floor is −inf where another logit may be as large."""
    best = at_one.best[:, None]
    logprob = torch.full_like(at_one.weights.flat, -math.inf).scatter_(1, best, 0.0)
    if not margin:
        return logprob, logprob
    others = at_one.logits.scatter(1, best, -math.inf)
    certain = at_one.top - others.amax(dim=-1) > margin + _ROUNDING
    return logprob, torch.where(certain[:, None], logprob, -math.inf)


def _sampled(
    at_one: LogitsReading, decoding: Decoding, margin: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-probabilities, and their floors, of a step that is not greedy."""
    temperature = decoding.temperature
    weights = at_one.tempered(temperature)
    if not decoding.truncated:
        scaled = (at_one.logits - at_one.top[:, None]) / temperature
        logprob = scaled - torch.log(weights.sums.sum(dim=-1, keepdim=True))
        return logprob, logprob - margin / temperature
    logprob = torch.full_like(weights.flat, -math.inf)
    floor = torch.full_like(weights.flat, -math.inf)
    part = truncated(weights.flat, decoding, margin)
    row, place = torch.nonzero(part.mass, as_tuple=True)
    ids = part.ids[row, place]
    logprob[row, ids], floor[row, ids] = part.of(row, place, margin / temperature)
    return logprob, floor


def truncated(weights: torch.Tensor, decoding: Decoding, margin: float = 0.0) -> Kept:
    """Return the tokens of each row that top-k and then top-p keep.

    Args:
        weights: the weights at the decoding's temperature, in [0, 1], [rows, vocabulary]; they need
            not sum to 1.
        decoding: a decoding with top-k or top-p.
        margin: the largest difference of a T = 1 log-probability between batch shapes, in nats; at
            least 0 (see `distribution`).

    Returns:
        Every token of each row that may be kept.
    """
    mass, ids = _heaviest(weights, _least(weights, decoding, margin))
    upto, limit = mass.cumsum(dim=-1), decoding.top_k or weights.shape[1]
    total = upto[:, min(limit, mass.shape[1]) - 1] if decoding.top_k else weights.sum(dim=-1)
    kept = (mass > 0).sum(dim=-1).clamp(max=limit)
    if decoding.top_p < 1:
        reach = (decoding.top_p - _NUCLEUS_TOLERANCE) * total
        kept = torch.minimum(kept, (upto < reach[:, None]).sum(dim=-1) + 1)
    if not margin:
        return Kept(mass, upto, ids, kept, kept, kept)
    whole = None if decoding.top_k else total
    return Kept(mass, upto, ids, kept, *_doubt(mass, upto, decoding, margin, whole))


def _least(weights: torch.Tensor, decoding: Decoding, margin: float) -> torch.Tensor:
    """Return a weight per row, below which no token is kept for any logits within the margin.

    The weight is found by a histogram with 32 buckets per factor of two; the last bucket is for
    weights below 2^-63. The buckets of the largest weights are added until they contain k tokens,
    or so much mass that the rule of `_doubt` excludes every later token. A token is later if its
    weight is smaller by more than the margin.
    """
    factor = ratio(margin / decoding.temperature)
    bucket = (weights.view(torch.int64) >> _SHIFT).sub_(_LAST).clamp_(0, _BUCKETS - 1)
    above = weights.new_zeros(len(weights), _BUCKETS)
    if decoding.top_k:
        above.scatter_add_(1, bucket, weights.new_ones(()).expand_as(bucket))
        need: torch.Tensor | int = decoding.top_k
    else:
        above.scatter_add_(1, bucket, weights)
        p = factor * decoding.top_p
        fraction = (p + _NUCLEUS_TOLERANCE) / (p + 1 - decoding.top_p)
        need = fraction * above.sum(dim=-1, keepdim=True) * (1 + _SUMMED)
    too_few = above.flip(-1).cumsum(dim=-1) < need
    place = _BUCKETS - 1 - too_few.sum(dim=-1)
    edge = (place + _LAST << _SHIFT).view(torch.float64)
    return torch.where(place > 0, edge / factor, 0.0)


def _heaviest(weights: torch.Tensor, least: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights of at least `least`, descending and padded with zeros, and their ids."""
    count = (heavy := weights >= least[:, None]).sum(dim=-1)
    row, ids = torch.nonzero(heavy, as_tuple=True)
    place = torch.arange(len(row), device=row.device) - (count.cumsum(dim=0) - count)[row]
    width = int(count.max())
    mass, names = weights.new_zeros(len(weights), width), ids.new_zeros(len(weights), width)
    mass[row, place], names[row, place] = weights[row, ids], ids
    mass, order = mass.sort(dim=-1, descending=True, stable=True)
    return mass, names.gather(1, order)


def _doubt(
    mass: torch.Tensor,
    upto: torch.Tensor,
    decoding: Decoding,
    margin: float,
    whole: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the numbers of leading tokens that are certainly kept, and that may be kept.

    A weight changes by a factor within e^(±margin / 2T), so two tokens can change places only if
    the ratio of their weights is within `factor`. In the worst case for a token, every token that
    may precede it precedes it and has its largest possible weight. The other tokens then have their
    smallest possible weights. The best case is the reverse. The token is in the nucleus if the mass
    before it is below top_p times the total mass: (1 − p) · before < p · (itself and after). Both
    conditions are monotone in the token's weight. So the tokens that are certainly kept are leading
    tokens, and so are the tokens that may be kept. `whole` is the mass of all tokens, used if there
    is no top-k.
    """
    factor = ratio(margin / decoding.temperature)
    width = mass.shape[1]
    limit = decoding.top_k or width + 1
    upto = torch.nn.functional.pad(upto, (1, 0))
    negated = -mass  # ascending, as the search needs; both results are numbers of leading tokens
    may = torch.searchsorted(negated, negated / factor, right=True)  # each token counts itself
    must = torch.searchsorted(negated, negated * factor)
    certain, possible = may <= limit, must < limit
    among_certain, among_possible = certain.sum(dim=-1), possible.sum(dim=-1)
    if decoding.top_p < 1:
        p = decoding.top_p - _NUCLEUS_TOLERANCE
        least = upto.gather(1, among_certain[:, None]) if whole is None else whole[:, None]
        most = upto.gather(1, among_possible[:, None]) if whole is None else whole[:, None]
        before = upto.gather(1, may) - mass
        after = torch.maximum(least - before, mass)
        slack = _NUCLEUS_TOLERANCE * most
        certain &= (1 - p) * before * factor + slack < p * after
        before = upto.gather(1, must)
        possible &= (1 - p) * before <= factor * p * (most - before) + slack
    return certain.sum(dim=-1), possible.sum(dim=-1)


def ratio(log: float) -> float:
    """Return the finite factor by which a ratio may change.

    Args:
        log: the largest change of the natural logarithm of the ratio, at least 0.

    Returns:
        The factor, at least 1.
    """
    return math.exp(min(log + _ROUNDING, 600.0))


@dataclass(frozen=True, slots=True)
class Picks:
    """Tokens drawn from rows of logits, and properties of each row.

    Attributes:
        tokens: the token of each draw, [draws].
        logprob: its natural log-probability under the decoding, [draws].
        floor: a lower bound of `logprob` for any logits within the margin, [draws].
        model_logprob: the log-probability of the token under the untruncated T = 1 model, [draws].
        p_max: the largest T = 1 probability of each row, [rows].
        broken: whether the row's logits were unusable, [rows]; the draws of such a row are not
            valid.
    """

    tokens: NDArray[np.int64]
    logprob: Floats
    floor: Floats
    model_logprob: Floats
    p_max: Floats
    broken: Flags

    def steps(self, draws: NDArray[np.int64], rows: NDArray[np.int64]) -> Floats:
        """Return the values that some draws add to the sums of their prefixes.

        Args:
            draws: the indices of the draws, [n].
            rows: the row of each draw, [n].

        Returns:
            `logprob`, `floor`, `model_logprob` and `p_max` of each draw, [n, 4].
        """
        columns = (self.logprob[draws], self.floor[draws], self.model_logprob[draws])
        return np.stack([*columns, self.p_max[rows]], axis=1)


@torch.inference_mode()
def pick(
    logits: torch.Tensor,
    decoding: Decoding,
    rows: NDArray[np.int64],
    uniforms: Floats,
    confidence: Confidence,
    margin: float = 0.0,
) -> Picks:
    """Draw tokens by inverse CDF; draw i is from row `rows[i]` of the logits, with `uniforms[i]`.

    Args:
        logits: the untruncated T = 1 logits, [rows, vocabulary].
        decoding: the distribution to draw from.
        rows: the row of each draw, sorted, [draws].
        uniforms: a number in [0, 1) for each draw, [draws].
        confidence: the `Confidence` of each row's prefix, used by adaptive temperature in mode
            "running".
        margin: the largest difference of a T = 1 log-probability between batch shapes, in nats; at
            least 0 (see `distribution`).

    Returns:
        The draws, in the order of `uniforms`.
    """
    height = rows_together(logits)
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
    greedy, doubtful = greedy_steps(at_one.p_max, decoding, confidence, margin)
    row, u = torch.from_numpy(np.stack([rows, uniforms])).to(logits.device)
    row, drawn = row.long(), np.flatnonzero(~greedy[rows])
    search = _search_truncated if decoding.truncated else _search_all
    if len(drawn) == len(rows):
        weights = at_one.tempered(decoding.temperature)
        tokens, logprob, floor = search(weights, row, u, decoding, margin)
    else:
        tokens, logprob, floor = at_one.best[row], torch.zeros_like(u), torch.zeros_like(u)
        if len(drawn):
            mine = torch.as_tensor(drawn, device=row.device)
            weights = at_one.tempered(decoding.temperature)
            tokens[mine], logprob[mine], floor[mine] = search(
                weights, row[mine], u[mine], decoding, margin
            )
    model_logprob = at_one.logits[row, tokens] - at_one.top[row] - at_one.log_total[row]
    if margin and (greedy.any() or doubtful.any()):
        floor = _distribution(at_one, decoding, confidence, margin).floor[row, tokens]
    # float64 represents every token id exactly
    table = torch.stack([tokens.double(), logprob, floor, model_logprob]).cpu().numpy()
    values = (table[1], table[2], table[3], at_one.p_max, at_one.broken)
    return Picks(table[0].astype(np.int64), *values)


def _search_all(
    weights: Tempered, row: torch.Tensor, u: torch.Tensor, decoding: Decoding, margin: float
) -> Drawn:
    """Draw by inverse CDF over the whole vocabulary."""
    _, count, width = weights.blocks.shape
    own = weights.sums.cumsum(dim=-1)[row]
    target = u * own[:, -1]
    block = _place(own, target)
    inside = weights.blocks.flatten(0, 1).index_select(0, row * count + block)
    # because of rounding, `below` may be before the start of a block or beyond its end
    below = own.gather(1, block[:, None])[:, 0] - weights.sums[row, block]
    offset = _place(inside.cumsum(dim=-1), (target - below).clamp_(min=0.0))
    chosen = inside.gather(1, offset[:, None])[:, 0]
    logprob = torch.log(chosen) - torch.log(own[:, -1])
    return block * width + offset, logprob, logprob - margin / decoding.temperature


def _search_truncated(
    weights: Tempered, row: torch.Tensor, u: torch.Tensor, decoding: Decoding, margin: float
) -> Drawn:
    """Draw by inverse CDF over the tokens that top-k and then top-p keep."""
    part = truncated(weights.flat, decoding, margin)
    target = u * part.total(part.kept)[row]
    place = torch.searchsorted(part.upto[row], target[:, None], right=True)[:, 0]
    place = torch.minimum(place, part.kept[row] - 1)
    return part.ids[row, place], *part.of(row, place, margin / decoding.temperature)


def _place(upto: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return, per sorted row, the index of the first entry above the target, or of the largest."""
    first = torch.searchsorted(upto, targets[:, None], right=True)
    return torch.minimum(first, torch.searchsorted(upto, upto[:, -1:].contiguous()))[:, 0]
