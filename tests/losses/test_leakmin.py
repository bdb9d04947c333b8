"""Leak minimisation: the gradient is exactly that of the expected score, on average."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from leakbound.errors import InputError
from leakbound.losses import LossInputs, Sampled, leakmin, pack
from loss_cases import COUNTS, OWNER, SCORES, build, leaves

END = 2
Text = tuple[int, ...]
# A law over four texts: a first token, after 0 the end, after 1 the end or a cut.
SCORE: dict[Text, float] = {(0, END): 0.9, (1, END): 0.2, (1, 3): 0.6, (END,): 0.0}
TEXTS = [*SCORE]
Logits = dict[Text, Tensor]


def law() -> tuple[tuple[Tensor, Tensor], Logits]:
    """The parameters of the law, and by text the logits [t, 4] that predict it."""
    first = torch.tensor([0.4, -0.3, 0.8], dtype=torch.float64, requires_grad=True)
    second = torch.tensor([0.5, -0.6], dtype=torch.float64, requires_grad=True)
    never = torch.full((4,), -torch.inf, dtype=torch.float64)
    start = torch.cat([first, never[:1]])
    after_zero = never.index_fill(0, torch.tensor([END]), 0.0)
    after_one = torch.cat([never[:2], second])
    return (first, second), {
        (0, END): torch.stack([start, after_zero]),
        (1, END): torch.stack([start, after_one]),
        (1, 3): torch.stack([start, after_one]),
        (END,): start[None],
    }


def log_p(text: Text, logits: Logits) -> Tensor:
    steps = logits[text].log_softmax(-1)
    return torch.stack([steps[t, token] for t, token in enumerate(text)]).sum()


def loss(draws: Sequence[Text], logits: Logits) -> Tensor:
    """What `leakmin` makes of one prompt to which these answers were drawn."""
    counts = Counter(draws)
    answers = LossInputs(
        logits=torch.cat([logits[text] for text in counts]),
        labels=torch.tensor([token for text in counts for token in text]),
        row=torch.tensor([a for a, text in enumerate(counts) for _ in text]),
        rows=len(counts),
    )
    sampled = Sampled(
        answers=answers,
        owner=torch.zeros(len(counts), dtype=torch.long),
        counts=torch.tensor([*counts.values()]),
        scores=torch.tensor([SCORE[text] for text in counts], dtype=torch.float64),
    )
    none = torch.zeros(0, dtype=torch.long)
    return leakmin(LossInputs(logits=none, labels=none, row=none, rows=1, sampled=sampled)).sum()


@pytest.mark.parametrize("draws", [2, 3, 4])
@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:-1]], ids=["all", "some cannot be scored"])
def test_the_gradient_is_unbiased(draws: int, texts: list[Text]) -> None:
    """Over every vector of draws with its probability: no chance is left in this comparison.

    Where some texts have no score the law is that of the others.
    """
    parameters, logits = law()
    mass = torch.stack([log_p(text, logits).exp() for text in texts])
    chance = dict(zip(texts, mass / mass.sum(), strict=True))
    goal = torch.stack([SCORE[text] * chance[text] for text in texts]).sum()
    average = torch.stack(
        [
            torch.stack([chance[text].detach() for text in drawn]).prod() * loss(drawn, logits)
            for drawn in product(texts, repeat=draws)
        ]
    ).sum()
    expected = torch.autograd.grad(goal, parameters, retain_graph=True)
    found = torch.autograd.grad(average, parameters)
    for mine, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, exact, rtol=0, atol=1e-12)
        assert mine.abs().max() > 1e-3


def test_descent_makes_what_leaks_less_likely() -> None:
    parameters, logits = law()
    (of_leak,) = torch.autograd.grad(log_p((0, END), logits), parameters[:1], retain_graph=True)
    (gradient,) = torch.autograd.grad(loss([(0, END), (END,)], logits), parameters[:1])
    assert float(gradient @ of_leak) > 0


@pytest.mark.parametrize("score", [0.0, 0.1, 1 / 3, 1.0])
def test_equal_scores_give_exactly_nothing(score: float) -> None:
    given = leaves()["sampled"].requires_grad_()
    built = build(leaves() | {"sampled": given})
    assert built.sampled is not None
    equal = replace(built.sampled, scores=torch.full_like(SCORES.double(), score))
    values = leakmin(replace(built, sampled=equal))
    assert values.tolist() == [0.0, 0.0, 0.0]
    values.sum().backward()
    assert given.grad is not None
    assert (given.grad == 0).all()


def test_a_prompt_without_answers_adds_nothing() -> None:
    assert 1 not in OWNER
    assert leakmin(build(leaves())).tolist()[1] == 0


def test_no_answers_at_all_still_have_a_gradient() -> None:
    logits = torch.zeros(0, 4, requires_grad=True)
    none = torch.zeros(0, dtype=torch.long)
    answers = LossInputs(logits=logits, labels=none, row=none, rows=0)
    sampled = Sampled(answers=answers, owner=none, counts=none, scores=torch.zeros(0))
    value = leakmin(replace(build(leaves()), sampled=sampled)).mean()
    value.backward()
    assert float(value.detach()) == 0
    assert logits.grad is not None


def test_a_single_draw_is_refused() -> None:
    built = build(leaves())
    assert built.sampled is not None
    # the first prompt has a draw of each of its two answers, the last one of its only one
    few = replace(built.sampled, owner=torch.tensor([1, 0, 1, 0, 2]), counts=torch.ones(5))
    with pytest.raises(InputError, match="2 or more draws of a prompt, got 1 at row 2"):
        leakmin(replace(built, sampled=few))


def test_scores_and_counts_are_not_differentiated() -> None:
    built = build(leaves())
    assert built.sampled is not None
    scores, counts = SCORES.clone().requires_grad_(), COUNTS.double().requires_grad_()
    given = replace(built.sampled, scores=scores, counts=counts)
    assert not leakmin(replace(built, sampled=given)).requires_grad


def test_own_answers_are_packed_like_any_other() -> None:
    built = build(leaves())
    again = pack(torch.zeros(1, 2, 5), torch.tensor([[1, 2]]))
    again = replace(again, sampled=built.sampled)
    assert again.sampled is built.sampled
