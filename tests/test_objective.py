"""Objectives by name, and what they add up to."""

from __future__ import annotations

import pytest
import torch

from residua.errors import InputError
from residua.losses import LossInputs, entropy, ga, nll, npo, pack, sequence_nll
from residua.objective import OBJECTIVES, Objective, Term, parse_objective


def batch(seed: int, *, reference: float | None = None) -> LossInputs:
    logits = torch.randn(3, 2, 6, generator=torch.Generator().manual_seed(seed))
    packed = pack(logits, torch.tensor([[1, 2], [-100, 4], [5, 0]]))
    if reference is None:
        return packed
    own = sequence_nll(packed) + reference
    return LossInputs(
        logits=packed.logits, labels=packed.labels, row=packed.row, rows=3, reference_nll=own
    )


FORGET, RETAIN = batch(0, reference=0.7), batch(1)
SPLITS = {"forget": FORGET, "retain": RETAIN, "train": RETAIN}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("finetune", nll(RETAIN).mean()),
        ("ga", ga(FORGET).mean()),
        ("gd", ga(FORGET).mean() + nll(RETAIN).mean()),
        ("gd:forget=0.5,retain=2", 0.5 * ga(FORGET).mean() + 2 * nll(RETAIN).mean()),
        ("npo", npo(FORGET, beta=0.1).mean() + nll(RETAIN).mean()),
        ("npo:beta=0.05,retain=0", npo(FORGET, beta=0.05).mean()),
        (
            "npo+entropy",
            npo(FORGET, beta=0.1).mean()
            + nll(RETAIN).mean()
            + entropy(FORGET).mean()
            - 0.25 * entropy(RETAIN).mean(),
        ),
        (
            "ga + entropy:forget=2,retain=-0.1",
            ga(FORGET).mean() + 2 * entropy(FORGET).mean() - 0.1 * entropy(RETAIN).mean(),
        ),
    ],
)
def test_recipes_are_the_sums_they_say(text: str, expected: torch.Tensor) -> None:
    torch.testing.assert_close(parse_objective(text)(SPLITS), expected)


def test_splits_stand_in_order_and_once() -> None:
    objective = parse_objective("npo+entropy")
    assert objective.splits == ("forget", "retain")
    assert objective.referenced == {"forget"}
    assert parse_objective("ga+entropy:retain=0").splits == ("forget",)
    assert parse_objective("gd").referenced == frozenset()


def test_two_names_for_one_sum_are_equal() -> None:
    assert parse_objective("npo").to_dict() == parse_objective("npo:beta=0.1").to_dict()
    assert parse_objective("npo").to_dict() != parse_objective("npo:beta=0.2").to_dict()


def test_own_terms_need_no_name() -> None:
    objective = Objective("mine", (Term("nll", "retain", 3.0),))
    torch.testing.assert_close(objective(SPLITS), 3 * nll(RETAIN).mean())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nop", f"no objective 'nop'.*{', '.join(OBJECTIVES)}"),
        ("npo+", "no objective ''"),
        ("npo:gamma=1", "no setting 'gamma'.*beta, retain"),
        ("ga:beta=1", "no setting 'beta'.*none"),
        ("npo:beta", "NAME=NUMBER, got 'beta'"),
        ("npo:beta=nan", "NAME=NUMBER"),
        ("gd:forget=0,retain=0", "no term with a weight"),
    ],
)
def test_bad_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_objective(text)
