"""Properties of every theorem of `stats` and of the statements built on them: one case each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import pytest

from leakbound import stats
from leakbound.errors import InputError
from leakbound.stats import (
    LEAKAGE,
    SD,
    THEOREMS,
    Estimate,
    Evidence,
    Mass,
    Masses,
    Pair,
    Pool,
    Quantity,
    Rows,
    Stopped,
    bound,
    corrected_bound,
    ed,
    every_question,
    leak_at,
    tail,
)
from leakbound.stats.pool import KINDS

QUESTIONS, DRAWS, LOST = 5, 40, 15
CAP = DRAWS + LOST
SCORES = np.round(np.random.default_rng(0).beta(1, 3, (QUESTIONS, DRAWS)), 2)
SCORES[0] = 0
SCORES[1] = np.linspace(0.4, 1, DRAWS).round(2)
CONTROL = np.round(np.random.default_rng(9).beta(1, 6, (QUESTIONS, DRAWS)), 2)
MASS = Mass(np.array([0.3, 0.2]), np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.4)
READINGS = {
    "leakage": LEAKAGE,
    "median": Quantity("median"),
    "tail": tail(0.3),
    "leak@k": leak_at(3),
    "standard deviation": SD,
    "expectation deviation": ed(),
}


@dataclass(frozen=True)
class Case:
    """A quantity of the scores, as draws of a kind; a leak is a score of at least a half."""

    kind: str
    quantity: Quantity
    binary: bool = False
    method: Literal["paper"] | None = None
    design: tuple[Any, Any] = ("", "")

    def __str__(self) -> str:
        parts = (self.kind, *self.design, self.quantity.over, self.quantity.reading)
        given = (str(self.quantity.at or ""), "binary" if self.binary else "", self.method or "")
        return " ".join(filter(None, (*parts, *given)))

    def evidence(self, scores: Any, counts: Any, missing: Any) -> Evidence:
        scores = np.asarray(scores, dtype=np.float64)
        if self.binary:
            scores = np.where(np.isnan(scores), scores, scores >= 0.5)
        if "fresh" in self.design:  # each draw is the only output of its query
            counts = np.ones(scores.shape) if counts is None else np.asarray(counts)
            lost = np.zeros(int(np.sum(np.broadcast_to(missing, len(scores)))))
            scores = np.append(np.repeat(scores.ravel(), counts.ravel().astype(int)), lost)
            counts, missing = np.ones(len(scores)), np.zeros(len(scores))
            counts[len(scores) - len(lost) :], missing[len(scores) - len(lost) :] = 0, 1
            scores, counts = scores[:, None], counts[:, None]
        rows = Rows.of(scores, counts, missing, binary=self.binary)
        match self.kind:
            case "draws":
                return rows
            case "stopped":
                return Stopped(rows, CAP)
            case "masses":
                return Masses.of(MASS if rows.single else [MASS] * rows.questions, rows)
            case "pair":
                control = CONTROL if self.binary is False else CONTROL >= 0.5
                other = control[0] if rows.single else control[: rows.questions]
                return Pair(rows, Rows.of(other, binary=self.binary))
        return Pool.of(rows, target=self.design[0], design=self.design[1])

    def made(
        self, scores: Any = SCORES, counts: Any = None, missing: Any = 0, **how: Any
    ) -> Estimate:
        given = self.evidence(scores, counts, missing)
        return bound(given, self.quantity, **{"method": self.method} | how)

    @property
    def spread(self) -> bool:
        return self.quantity in (SD, ed(), SD.mean(), ed().mean())

    @property
    def certain(self) -> bool:
        return self.kind == "masses" and self.quantity == SD

    @property
    def range(self) -> tuple[float, float]:
        most = {"standard deviation": 0.5, "expectation deviation": (1 + 5**0.5) / 2}
        largest = QUESTIONS if self.quantity.over == "count" else 1.0
        return -1.0 if self.kind == "pair" else 0.0, most.get(self.quantity.reading, largest)

    @property
    def apart(self) -> bool:
        """Return whether every question has its own entry."""
        return self.quantity.over in ("each", "every") and not any(self.design)


def cases() -> Iterator[Case]:
    for row in THEOREMS:
        quantity = READINGS[row.reading]
        quantity = quantity.mean() if row.over == "mean" else quantity
        designs = [design for design, law in KINDS.items() if law == row.kind] or [("", "")]
        methods = (None, "paper") if row.paper and row.kind == "draws" else (None,)
        for binary in (False, True) if row.binary is None else (row.binary,):
            for design in designs:
                for method in methods:
                    yield Case(row.kind, quantity, binary, method, design)
    weights = tuple(range(1, 1 + QUESTIONS))
    for extra in (
        leak_at(2), leak_at([3, 1]), leak_at([3, 1]).mean(), LEAKAGE.mean(weights),
    ):  # fmt: skip
        yield Case("draws", extra)
    for over in (LEAKAGE.worst(), LEAKAGE.every(), LEAKAGE.above(0.3)):
        yield Case("draws", over, method="paper")
        yield Case("draws", over, binary=True)
    yield Case("stopped", LEAKAGE.above(0.3))


CASES = {str(case): case for case in cases()}
ALONE = [name for name, case in CASES.items() if case.apart and case.quantity.over == "each"]
# `test_pool` shows that these have the bounds of another design.
AS_OTHERS = (("inputs", "fresh"), ("inputs", "allocated"))
every_case = pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.design not in AS_OTHERS]
)
of_one = pytest.mark.parametrize("name", ALONE)


def ends(made: Estimate) -> tuple[np.ndarray, np.ndarray]:
    return np.atleast_1d(made.lower), np.atleast_1d(made.upper)


@pytest.fixture(scope="module")
def usual() -> Callable[[str], Estimate]:
    """Make the usual bound of a case once per session: a mutant's session has its own."""
    return cache(lambda name: CASES[name].made())


def test_every_theorem_has_a_case_and_a_name() -> None:
    assert len({row.name for row in THEOREMS}) == len(THEOREMS)
    proved = {(row.kind, row.reading, row.over) for row in THEOREMS}
    assert {(c.kind, c.quantity.reading, c.quantity.over) for c in CASES.values()} >= proved


@pytest.mark.parametrize("name", CASES)
def test_bounds_enclose_the_value_and_one_side_is_trivial(name: str) -> None:
    case = CASES[name]
    least, most = case.range
    for side in ("upper", "lower", "both"):
        made = case.made(side=side)
        low, high = ends(made)
        assert (low >= least).all()
        assert (high <= most + 1e-12).all()
        unknown = np.isnan(made.value)
        assert (unknown | ((low <= made.value + 1e-12) & (made.value <= high + 1e-12))).all()
        if side == "upper":
            assert (low == least).all()
        if side == "lower":
            assert high == pytest.approx(most)
        assert (made.side, made.confidence) == (side, 1.0 if case.certain else 0.99)
        assert np.sum(made.n) == (0 if case.certain else SCORES.size)
    assert json.loads(json.dumps(made.to_dict()))["target"] == made.target
    assert made.target
    stopping = {"stopped": f"stopped at a look, at most {CAP} draws"}.get(case.kind, "fixed n")
    assert made.stopping == stopping
    if any(case.design):
        target = "these" if case.design[0] == "queries" else "the input distribution"
        assert target in made.target


@of_one
def test_one_question_of_any_distribution_stays_in_range(name: str) -> None:
    case = CASES[name]
    least, most = case.range
    for scores in (np.zeros(30), np.ones(30), np.tile([0.0, 1.0], 20), [0.4]):
        made = case.made(scores)
        assert isinstance(np.ravel(made.upper)[0], float)
        assert (least <= np.ravel(made.lower)).all()
        assert (np.ravel(made.lower) <= np.ravel(made.upper)).all()
        assert (np.ravel(made.upper) <= most + 1e-12).all()


@every_case
def test_more_confidence_is_wider(name: str) -> None:
    case = CASES[name]
    uppers = [ends(case.made(confidence=c, side="upper"))[1].sum() for c in (0.5, 0.9, 0.9999)]
    assert uppers == sorted(uppers)
    assert uppers[0] < uppers[-1] or case.certain


@every_case
def test_both_bounds_split_alpha(name: str) -> None:
    case = CASES[name]
    both = case.made(confidence=0.9, side="both")
    shares = [0.95, 0.95]
    if case.quantity.over == "every":  # a question's own alpha is split, not the claim's
        shares = [(1 - (1 - 0.9 ** (1 / QUESTIONS)) / 2) ** QUESTIONS] * 2
    if case.binary and case.spread and case.quantity.over == "each":
        shares[1] = 0.9  # both ends from one interval of p
    lower = ends(case.made(confidence=shares[0], side="lower"))[0]
    upper = ends(case.made(confidence=shares[1], side="upper"))[1]
    np.testing.assert_allclose(ends(both), (lower, upper), atol=1e-9)


@every_case
def test_counts_and_order_are_only_notation(name: str, usual: Callable[[str], Estimate]) -> None:
    case, rng, plain = CASES[name], np.random.default_rng(1), ends(usual(name))
    turned = ends(case.made(rng.permuted(SCORES, axis=1)))
    values = np.unique(SCORES)
    counts = (SCORES[:, :, None] == values).sum(axis=1)
    tiled = np.tile([*values, np.nan], (QUESTIONS, 1))
    padded = ends(case.made(tiled, np.pad(counts, ((0, 0), (0, 1)))))
    np.testing.assert_allclose(turned, plain, atol=1e-12)
    np.testing.assert_allclose(padded, plain, atol=1e-12)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.kind in ("draws", "stopped")])
def test_the_order_of_questions_is_only_notation(name: str) -> None:
    case, order = CASES[name], np.random.default_rng(1).permutation(QUESTIONS)
    if case.quantity.weights is not None:
        case = replace(case, quantity=case.quantity.mean(case.quantity.weights))
        turned = replace(case, quantity=LEAKAGE.mean(np.arange(1, 1 + QUESTIONS)[order]))
    else:
        turned = case
    keys = np.arange(QUESTIONS) + 9
    plain, mixed = case.made(seed=keys), turned.made(SCORES[order], seed=keys[order])
    for end, want in zip(ends(mixed), ends(plain), strict=True):
        np.testing.assert_allclose(end, want[order] if case.apart else want, atol=1e-12)


@of_one
def test_a_row_has_the_same_bound_among_others(name: str) -> None:
    case, rng = CASES[name], np.random.default_rng(2)
    scores = SCORES[:4, :12]
    counts = rng.integers(1, 4, scores.shape)
    counts[3] = counts[1]  # two questions share an n, the others have their own
    missing = np.array([0, 3, 0, 3])
    batch = case.made(scores, counts, missing, seed=[50, 51, 52, 53])
    for row in range(1 if case.kind == "pair" else 4):  # the control is the first question's
        alone = case.made(scores[row], counts[row], missing[row], seed=50 + row)
        for end in ("lower", "upper", "value", "n", "missing"):
            mine, want = getattr(batch, end)[row], getattr(alone, end)
            np.testing.assert_allclose(mine, want, atol=1e-12)


@every_case
def test_missing_draws_count_against_claims(name: str, usual: Callable[[str], Estimate]) -> None:
    case, plain = CASES[name], usual(name)
    missing = case.made(missing=LOST)
    lost = 0 if case.certain else LOST * QUESTIONS
    assert (np.sum(missing.missing), np.sum(missing.n) - np.sum(plain.n)) == (lost, lost)
    assert (ends(missing)[1] >= ends(plain)[1] - 1e-12).all() or case.kind == "stopped"
    widest = case.certain or case.quantity.over in ("worst", "count") or ends(plain)[1].max() == 1
    assert widest or ends(missing)[1].sum() > ends(plain)[1].sum()
    if case.spread or case.kind == "pair":  # in another order
        lower, whole = (
            np.mean([ends(case.made(missing=gone, seed=seed))[0] for seed in range(3)])
            for gone in (LOST, 0)
        )
        assert lower <= whole
    elif case.kind != "stopped":  # with the missing draws it is at the cap, and may be tighter
        assert (ends(missing)[0] <= ends(plain)[0] + 1e-12).all()
    if case.apart and case.quantity.over == "each" and not (case.spread or case.kind == "pair"):
        filled = [np.append(SCORES, np.full((QUESTIONS, LOST), end), axis=1) for end in (0.0, 1.0)]
        full = [case.made(scores) for scores in filled]
        np.testing.assert_allclose(missing.lower, full[0].lower, atol=1e-12)
        np.testing.assert_allclose(missing.upper, full[1].upper, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in ALONE if CASES[name].kind == "draws"])
def test_only_missing_draws_say_nothing(name: str) -> None:
    made = CASES[name].made(np.empty((2, 0)), missing=20)
    assert np.isnan(made.value).all()
    assert (np.asarray(made.upper) >= min(1, CASES[name].range[1])).all()


@pytest.mark.true_entropy
@every_case
def test_a_seed_is_kept_where_the_order_matters(name: str) -> None:
    """A missing seed is drawn and recorded; each row has its own order."""
    case, scores = CASES[name], np.append(SCORES, np.zeros((QUESTIONS, LOST)), axis=1)
    first, second = (case.made(scores) for _ in range(2))
    if not ("betting" in first.method or "largest of each" in first.method):
        assert first.seed is second.seed is None
        return
    assert np.all(first.seed != second.seed)
    again = case.made(scores, seed=first.seed)
    if case.kind != "masses":  # with several rows, one number makes the keys
        assert np.array_equal(again.lower, first.lower)
        assert np.array_equal(again.upper, first.upper)
    if case.quantity.over != "count" and "betting" in first.method:
        uppers = {float(ends(made)[1].sum()) for made in (first, second)}
        if len(uppers) == 1:  # by chance; these seeds differ in every case
            others = (case.made(scores, seed=seed) for seed in (1, 2, 3))
            uppers = {float(ends(other)[1].sum()) for other in others}
        assert len(uppers) > 1
    if case.apart and case.kind == "draws" and np.ndim(first.upper) == 1:
        alike = case.made(np.tile(SCORES[2], (40, 1)))
        assert len(set(np.asarray(alike.upper).tolist())) > 1


@every_case
def test_invalid_terms_are_refused(name: str) -> None:
    terms: tuple[tuple[dict[str, Any], str], ...] = (
        ({"method": "best"}, "`method` must be .* for the .*, got 'best'"),
        ({"confidence": 1.0}, "strictly"),
        ({"confidence": 0.0}, "strictly"),
        ({"side": "top"}, "'both'"),
    )
    for how, message in terms[:1] if CASES[name].certain else terms:  # or the bound spends no alpha
        with pytest.raises(InputError, match=message):
            CASES[name].made(**how)


@pytest.mark.parametrize(
    ("scores", "how", "message"),
    [
        ([0.1, np.nan], {}, "position 1"),
        ([[0.1, 0.2], [0.3, -0.2]], {}, "question 1, position 1"),
        ([0.1, 1.1], {}, r"\[0, 1\]"),
        ([], {}, "no draw"),
        ([[0.1], [0.2]], {"counts": [[1], [0]]}, "question 1"),
        ([0.1, 0.2], {"counts": [1]}, "shape"),
        ([0.1, 0.2], {"counts": [1, -1]}, "whole"),
        ([0.1, 0.2], {"counts": [1, 1.5]}, "whole"),
        ([0.1, 0.2], {"missing": -1}, "whole"),
        ([[0.1, 0.2]], {"missing": [0, 1]}, "one number per question"),
        ([[[0.1]]], {}, "3-D"),
        ([0.1, "a"], {}, "numbers"),
        ([0.0, 0.1], {"binary": True}, r"must be 0 or 1, got 0\.1.*NAME>=t"),
    ],
)
def test_invalid_draws_are_refused(scores: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Rows.of(scores, **how)


def test_rounding_beyond_the_range_is_cut_off() -> None:
    assert Rows.of([-1e-10, 0.5, 1 + 1e-10]).values.tolist() == [[0.0, 0.5, 1.0]]


@pytest.mark.parametrize("seed", [-1, [1, 2, 3], [5, 5]])
def test_invalid_seeds_are_refused(seed: Any) -> None:
    with pytest.raises(InputError, match=r"seed.*(whole|one number per row|a different number)"):
        bound(Rows.of(SCORES[:2]), seed=seed)


@pytest.mark.parametrize(
    ("evidence", "quantity", "message"),
    [
        (Stopped(Rows.of(SCORES), CAP), SD, r"standard deviation .* may have stopped.*: leakage\."),
        (Stopped(Rows.of(SCORES), CAP), leak_at(3), "leak@k .*NAME>=t"),
        (Masses.of(MASS), ed(), "exact masses.*: leakage, tail, leak@k, standard deviation"),
        (Pair(Rows.of(SCORES), Rows.of(CONTROL)), tail(0.1), "the draws of two models"),
        (Rows.of(SCORES), tail(0.1).mean(), "mean of the tail .* fixed number of draws"),
        (
            Pool.of(Rows.of(SCORES), design="fixed"),
            SD,
            "target 'queries'.*: leakage.*design 'allocated'.*NAME>=t",
        ),
        (
            Pool.of(Rows.of(SCORES), design="fixed", target="inputs"),
            ed(),
            "target 'inputs'.*: leakage, tail, leak@k.*design 'fresh'",
        ),
    ],
)
def test_without_a_theorem_others_are_named(
    evidence: Evidence, quantity: Quantity, message: str
) -> None:
    assert not stats.has_bound(evidence, quantity)
    with pytest.raises(InputError, match=message):
        bound(evidence, quantity)


@pytest.mark.parametrize("binary", [True, False])
def test_statements_of_other_bounds_are_valid_at_their_sides_too(binary: bool) -> None:
    rows = Rows.of(SCORES >= 0.5, binary=True)
    items: dict[str, Any] = {"positives": (190, 200), "negatives": (6, 300)}
    own = partial(bound, Stopped(rows, CAP))
    watched = partial(every_question, own, QUESTIONS + 2, independent=False)
    judged = partial(corrected_bound, partial(bound, rows, LEAKAGE.mean(), seed=1), **items)
    statement = watched if binary else judged
    both, lower, upper = (
        statement(confidence=c, side=side)
        for c, side in ((0.9, "both"), (0.95, "lower"), (0.95, "upper"))
    )
    np.testing.assert_allclose(ends(both), (ends(lower)[0], ends(upper)[1]), atol=1e-9)
    assert (both.lower <= both.value).all() if binary else both.lower <= both.value <= both.upper


def test_an_estimate_is_one_line() -> None:
    assert str(bound(Rows.of_hits(1, 1024, 2), side="upper")) == (
        "leak probability: value 0.000978474, lower 0, upper 0.00977599, confidence 0.99, "
        "side upper, n 1024, missing 2, method Clopper-Pearson, stopping fixed n"
    )
    scores = np.array([0.0, 0.0, 0.05, 0.1, 0.1, 0.1, 0.2, 0.35, 0.4, 0.6] * 5)
    several = str(bound(Rows.of([scores, 1 - scores]), seed=7))
    assert several.startswith("mean leakage: value 0.19 to 0.81, lower 0.104021 to 0.707081, upper")
    assert "method finite-horizon betting, seed 7, " in several
