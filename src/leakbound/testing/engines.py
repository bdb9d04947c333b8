"""`check_engine`: test by draws from an engine whether the engine keeps its promises.

Bounds are not valid if an engine draws from another decoding than requested, or if its draws are
not independent. Decodings that the engine's `check` refuses are not tested. An engine whose
fingerprint has `repeatable: false` need not repeat its draws, but they must differ between keys.
Most tests are exact. Two tests can fail by chance: the test that draws differ between keys, and the
test that the temperature is as requested. An engine that keeps all promises fails `check_engine`
with probability at most `FALSE_ALARM`.

The test of the temperature does not need the probabilities of the model. For two single-token
completions x and y, log(p(x) / p(y)) at temperature T is 1/T times the same quantity at temperature
1. Clopper-Pearson intervals bound both quantities, and must overlap after scaling by T.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, get_args

from leakbound.errors import InputError
from leakbound.stats import Rows, bound
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Fingerprint,
    Finish,
    Generate,
    Query,
    Sample,
)

FALSE_ALARM = 1e-6
"""The largest probability that one call fails for an engine that keeps every promise."""

_KEYED = 200  # draws per key: two keys agree on all with chance 0.9 ** 200 < 1e-9 per query
_MOST_EQUAL = 0.75  # fraction of equal draws; if lower, no output exceeds 0.9
_TEMPERED = 4000  # single-token draws at each temperature
_COLD = 0.5

Key = tuple[int, ...] | str
Interval = tuple[float, float]


def check_engine(
    engine: Generate, queries: Sequence[Query], *, max_new_tokens: int = 8, draws: int = _TEMPERED
) -> None:
    """Raise InputError at the first promise of `Generate` that the engine breaks.

    An engine that keeps every promise fails with probability at most `FALSE_ALARM`. An engine that
    passes may still break a promise.

    Args:
        engine: the engine to test. It draws about 6 * `draws` completions per query.
        queries: at least one query. The answers must vary, and the first tokens must not be equally
            likely; otherwise the draws show nothing.
        max_new_tokens: the length of the longest completions that are drawn; above 1.
        draws: the number of single-token draws at each of two temperatures. More draws detect
            smaller errors.

    Raises:
        InputError: for a broken promise, with the engine's class, or for queries whose draws show
            nothing.
    """
    trial = _Trial(engine, tuple(queries), Decoding(max_new_tokens=max_new_tokens), draws)
    if not isinstance(engine, Generate):
        trial.refuse("an engine must have usage, fingerprint, check and generate")
    first = json.dumps(engine.fingerprint, sort_keys=True)
    if first != json.dumps(engine.fingerprint, sort_keys=True):
        trial.refuse("the fingerprint must stay the same")
    _check_counts(trial)
    _check_keys(trial)
    _check_certain_decodings(trial)
    _check_length(trial)
    _check_temperature(trial)


@dataclass(frozen=True, slots=True)
class _Trial:
    """An engine under test, with its queries."""

    engine: Generate
    queries: tuple[Query, ...]
    decoding: Decoding
    draws: int

    def sample(
        self, draws: Draws, decoding: Decoding | None = None, queries: Sequence[Query] = ()
    ) -> dict[str, Sample]:
        """Return one sample per query, by the query's id; raise InputError for a Failure."""
        queries, how = queries or self.queries, decoding or self.decoding
        self.engine.check(queries, how)
        samples: dict[str, Sample] = {}
        for drawn in self.engine.generate(queries, how, draws):
            if not isinstance(drawn, Sample):
                self.refuse(f"query {drawn.query.id!r} must be drawn, got: {drawn.reason}")
            if drawn.query.id in samples:
                self.refuse(f"query {drawn.query.id!r} must be answered once, got two samples")
            if drawn.decoding != how:
                self.refuse(
                    f"a sample must have the decoding {how.name}, got {drawn.decoding.name}"
                )
            samples[drawn.query.id] = drawn
        if samples.keys() != {query.id for query in queries}:
            self.refuse(f"every query must be answered, got only {sorted(samples)}")
        return samples

    @property
    def repeatable(self) -> bool:
        """Return whether the engine promises the same draws for the same keys."""
        return Fingerprint.of(self.engine.fingerprint).repeatable

    def offers(self, decoding: Decoding) -> bool:
        """Return whether the engine accepts a decoding."""
        try:
            self.engine.check(self.queries, decoding)
        except InputError:
            return False
        return True

    def refuse(self, promise: str) -> NoReturn:
        """Raise InputError with the broken promise and the engine's class."""
        raise InputError(
            f"engine {type(self.engine).__name__} fails a check: {promise}. Fix the engine."
        )


def _check_counts(trial: _Trial) -> None:
    """Check that each chunk has all draws as distinct completions, and that `usage` counts them."""
    before = trial.engine.usage.draws
    for query_id, sample in trial.sample(Draws(sizes=(30, 20), first_chunk=5)).items():
        by_chunk = Counter[int]()
        for completion in sample.completions:
            by_chunk[completion.chunk] += completion.count
        if by_chunk != {5: 30, 6: 20}:
            trial.refuse(f"chunks 5 and 6 must have 30 and 20 draws, got {dict(by_chunk)}")
        _check_completions(trial, query_id, sample)
    drawn = trial.engine.usage.draws - before
    if drawn != 50 * len(trial.queries):
        trial.refuse(f"`usage` must count {50 * len(trial.queries)} draws, got {drawn}")
    own = {query.id: 3 + i for i, query in enumerate(trial.queries)}
    shared = trial.sample(Draws(sizes=(max(own.values()),), draws_per_query=own))
    if {query_id: sample.n for query_id, sample in shared.items()} != own:
        trial.refuse(f"the draws of each query must be {own}, as `draws_per_query` states")


def _check_completions(trial: _Trial, query_id: str, sample: Sample) -> None:
    keys = [(_key(c), c.finish, c.chunk) for c in sample.completions]
    if len(set(keys)) < len(keys) or any(c.count < 1 for c in sample.completions):
        trial.refuse(f"the completions of a chunk must be distinct and counted, at {query_id!r}")
    for c in sample.completions:
        if c.finish not in get_args(Finish):
            trial.refuse(f"`finish` must be one of {', '.join(get_args(Finish))}, got {c.finish!r}")
        if c.token_ids is not None and c.tokens not in (None, len(c.token_ids)):
            trial.refuse(f"`tokens` must be {len(c.token_ids)} or None, got {c.tokens}")
        if c.thought is not None and not c.thought.strip():
            trial.refuse(f"a thought must have text, or be None, at {query_id!r}")
        if c.logprob is None or c.model_logprob is None:
            continue
        if not math.isclose(c.logprob, c.model_logprob, rel_tol=1e-3, abs_tol=1e-3):
            trial.refuse(f"at T = 1 `logprob` must equal `model_logprob`, at {c.answer!r}")


def _check_keys(trial: _Trial) -> None:
    """Check that draws depend on seed, purpose, query and chunk, and on nothing else."""
    draws = Draws(sizes=(1,) * _KEYED)
    first = {query_id: _one_by_one(sample) for query_id, sample in trial.sample(draws).items()}
    most = {query_id: max(Counter(keys).values()) for query_id, keys in first.items()}
    varied = [q for q in trial.queries if most[q.id] <= _MOST_EQUAL * _KEYED]
    if not varied:
        trial.refuse(
            "draws of different chunks must differ, but nearly all answers to each query are equal"
        )
    if trial.repeatable:
        again = trial.sample(replace(draws, sizes=(1,) * 40, first_chunk=7), queries=varied[:1])
        if _one_by_one(again[varied[0].id], 7) != first[varied[0].id][7:47]:
            trial.refuse("draws with the same seed, purpose, query and chunk must be equal")
    twins = {query.id: replace(query, id=f"{query.id}~again") for query in varied}
    of_twins = trial.sample(draws, queries=[*twins.values()])
    others = {
        "seed": trial.sample(replace(draws, seed=1), queries=varied),
        "purpose": trial.sample(replace(draws, purpose="other"), queries=varied),
        "chunk": trial.sample(replace(draws, first_chunk=_KEYED), queries=varied),
        "query": {query_id: of_twins[twin.id] for query_id, twin in twins.items()},
    }
    for key, samples in others.items():
        start = _KEYED if key == "chunk" else 0
        if any(_one_by_one(samples[q.id], start) == first[q.id] for q in varied):
            trial.refuse(f"draws must change if the {key} changes")


def _check_certain_decodings(trial: _Trial) -> None:
    """Check that greedy decoding, specified in three ways, always returns one completion."""
    ways = {
        "temperature": replace(trial.decoding, temperature=0.0),
        "top_k": replace(trial.decoding, top_k=1),
        "top_p": replace(trial.decoding, top_p=1e-9),
    }
    greedy: dict[str, set[Key]] = {}
    for setting, decoding in ways.items():
        if setting != "temperature" and not trial.offers(decoding):
            continue
        for query_id, sample in trial.sample(Draws(sizes=(60,)), decoding).items():
            keys = {_key(completion) for completion in sample.completions}
            if len(keys) > 1 or keys != greedy.setdefault(query_id, keys):
                trial.refuse(
                    f"`{setting}` must be as requested: {decoding.name} allows one completion"
                )


def _check_length(trial: _Trial) -> None:
    """Check that no completion is too long; without token ids, two words count as one token."""
    for most in (1, trial.decoding.max_new_tokens):
        decoding = replace(trial.decoding, max_new_tokens=most)
        for sample in trial.sample(Draws(sizes=(60,)), decoding).values():
            for c in sample.completions:
                words = len(c.answer.split())
                if (len(c.token_ids) if c.token_ids is not None else words / 2) > most:
                    trial.refuse(f"`max_new_tokens` must be as requested, {most}, got {c.answer!r}")


def _check_temperature(trial: _Trial) -> None:
    """Check that the log ratio of two first tokens at T = 1/2 is twice the ratio at T = 1."""
    single = replace(trial.decoding, max_new_tokens=1)
    pilot = trial.sample(Draws(sizes=(trial.draws,), purpose="pilot"), single)
    pairs = {q.id: pair for q in trial.queries if (pair := _pair(pilot[q.id]))}
    warm = trial.sample(Draws(sizes=(trial.draws,)), single)
    cold = trial.sample(Draws(sizes=(trial.draws,)), replace(single, temperature=_COLD))
    seen, alpha = False, FALSE_ALARM / (5 * max(len(pairs), 1))
    for query_id, pair in pairs.items():
        at_1, at_cold = (_log_ratio(samples[query_id], pair, alpha) for samples in (warm, cold))
        scaled = (_COLD * at_cold[0], _COLD * at_cold[1])
        if not _meet(at_1, scaled):
            trial.refuse(
                f"`temperature` must be as requested: at {_COLD:g} the log ratio of two common "
                f"tokens of {query_id!r} must be {1 / _COLD:g} times that at 1, "
                f"{at_1[0]:.2f} to {at_1[1]:.2f}, got {at_cold[0]:.2f} to {at_cold[1]:.2f}"
            )
        seen = seen or not _meet(at_1, at_cold)
    if not seen:
        trial.refuse(
            "the draws do not show the temperature; pass queries with a likely first token"
        )


def _key(completion: Completion) -> Key:
    return completion.answer if completion.token_ids is None else completion.token_ids


def _one_by_one(sample: Sample, first: int = 0) -> list[Key]:
    """Return the draws of chunks of size one, in their order."""
    by_chunk = {completion.chunk: _key(completion) for completion in sample.completions}
    return [by_chunk[chunk] for chunk in sorted(by_chunk) if chunk >= first]


def _counts(sample: Sample) -> Mapping[Key, int]:
    counts = Counter[Key]()
    for completion in sample.completions:
        counts[_key(completion)] += completion.count
    return counts


def _pair(sample: Sample) -> tuple[Key, Key] | None:
    """Return the most frequent token and the token whose ratio to it depends most on T, or None."""
    (first, most), *others = Counter(_counts(sample)).most_common()
    worth = {key: math.log(most / count) * count / most for key, count in others}
    best = max(worth, key=lambda key: worth[key], default=None)
    return None if best is None or not worth[best] else (first, best)


def _log_ratio(sample: Sample, pair: tuple[Key, Key], alpha: float) -> Interval:
    """Return bounds on log p(x) / p(y), each wrong with probability at most `alpha`."""
    counts = _counts(sample)
    x, y = (counts.get(key, 0) for key in pair)
    fraction = bound(Rows.of_hits(x, x + y), confidence=1 - 2 * alpha)
    return _logit(float(fraction.lower)), _logit(float(fraction.upper))


def _logit(p: float) -> float:
    return -math.inf if p <= 0 else math.inf if p >= 1 else math.log(p / (1 - p))


def _meet(a: Interval, b: Interval) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]
