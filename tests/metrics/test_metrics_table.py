"""Which readings, texts and parts each metric is made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer

from leakbound.errors import InputError
from leakbound.metrics import METRICS, Item, diversity, likelihood, membership, utility
from leakbound.text.rouge import rouge_l
from leakbound.types import Reading
from metric_items import items

MODEL, RETRAINED = items(skill=2.0), items(skill=0.9)
FORGET = MODEL["forget"]


def value(name: str) -> float:
    found = METRICS[name].value(MODEL, RETRAINED).value
    assert found is not None
    return found


def right(item: Item) -> Reading:
    return item.readings["answer"][0]


def ratios(part: str, kind: str, model: dict[str, list[Item]] = MODEL) -> list[float]:
    return [
        likelihood.truth_ratio(item.readings[kind][0], item.readings["perturbed"])  # type: ignore[index]
        for item in model[part]
    ]


def test_probability_is_that_of_the_answer() -> None:
    assert value("forget_probability") == np.mean(
        [likelihood.probability(right(i)) for i in FORGET]
    )


def test_normalised_probability_compares_with_the_perturbed_answers() -> None:
    expected = [
        likelihood.normalised_probability(
            likelihood.probability(right(item)),
            [likelihood.probability(each) for each in item.readings["perturbed"]],
        )
        for item in MODEL["world_facts"]
    ]
    assert value("world_facts_normalised_probability") == pytest.approx(np.mean(expected))


def test_truth_ratios_of_forget_are_undecided_at_best() -> None:
    found = METRICS["forget_truth_ratio"].value(MODEL, None)
    expected = ratios("forget", "paraphrased")
    assert [*found.by_item.values()] == expected
    assert found.value == likelihood.forget_truth_ratio(expected)


@pytest.mark.parametrize(
    ("part", "kind"),
    [("retain", "paraphrased"), ("real_authors", "answer"), ("world_facts", "answer")],
)
def test_truth_ratios_of_what_is_kept(part: str, kind: str) -> None:
    assert value(f"{part}_truth_ratio") == likelihood.utility_truth_ratio(ratios(part, kind))


def test_rouge_compares_the_greedy_answer_with_the_answer() -> None:
    found = [rouge_l([str(item.greedy)], str(item.prompt.answer)) for item in MODEL["retain"]]
    assert value("retain_rouge_l_recall") == pytest.approx(np.mean([r.recall[0] for r in found]))
    assert value("retain_rouge_l_f1") == pytest.approx(np.mean([r.f1[0] for r in found]))
    assert value("retain_rouge_l_f1") > value("retain_rouge_l_recall")


@pytest.mark.parametrize("part", ["forget", "retain", "world_facts"])
def test_rouge_1_counts_words_in_any_order(part: str) -> None:
    scorer = RougeScorer(["rouge1"], use_stemmer=True)
    turned = [replace(i, greedy=" ".join(str(i.greedy).split()[::-1])) for i in MODEL[part]]
    found = [scorer.score(i.prompt.answer, i.greedy)["rouge1"].recall for i in turned]
    metric = METRICS[f"{part}_rouge_1_recall"]
    assert metric.value({part: turned}, None).value == pytest.approx(np.mean(found))


@pytest.mark.parametrize("part", ["forget", "retain"])
def test_paraphrased_and_perturbed_answers_have_their_own_probability_and_rouge(part: str) -> None:
    items = MODEL[part]
    read = [np.mean([likelihood.probability(r) for r in i.readings["perturbed"]]) for i in items]
    assert value(f"{part}_perturbed_probability") == pytest.approx(np.mean(read))
    read = [likelihood.probability(i.readings["paraphrased"][0]) for i in items]
    assert value(f"{part}_paraphrased_probability") == pytest.approx(np.mean(read))
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    near = [scorer.score(i.prompt.paraphrased_answer, i.greedy)["rougeL"].recall for i in items]
    assert value(f"{part}_paraphrased_rouge_l_recall") == pytest.approx(np.mean(near))
    near = [
        np.mean([scorer.score(text, i.greedy)["rougeL"].recall for text in texts])
        for i in items
        if (texts := i.prompt.perturbed_answers)
    ]
    assert value(f"{part}_perturbed_rouge_l_recall") == pytest.approx(np.mean(near))


def test_the_truth_ratio_as_a_share_rises_with_what_is_known() -> None:
    found = []
    for item in FORGET:
        right = np.exp(item.readings["paraphrased"][0].logprobs.mean())
        wrong = np.exp(np.mean([r.logprobs.mean() for r in item.readings["perturbed"]]))
        found.append(right / (right + wrong + 1e-10))
    assert value("forget_truth_ratio_prob_mean") == pytest.approx(np.mean(found))
    poorer = METRICS["forget_truth_ratio_prob_mean"].value(RETRAINED, None).value
    assert poorer is not None
    assert value("forget_truth_ratio_prob_mean") > poorer


def test_diversity_weighs_the_draws_of_each_prompt() -> None:
    drawn = [item.draws for item in FORGET if item.draws]
    bleu = [diversity.self_bleu([*each], [*each.values()]) for each in drawn]
    assert value("forget_self_bleu") == pytest.approx(np.mean(bleu))
    share = [2 / sum(each.values()) for each in drawn]
    assert value("forget_distinct_share") == pytest.approx(np.mean(share))


def test_model_utility_and_r_avg_join_the_others() -> None:
    assert value("model_utility") == utility.model_utility(
        {name: value(name) for name in utility.UTILITY_TERMS}
    )
    assert value("r_avg") == utility.r_avg({name: value(name) for name in utility.RECALL_TERMS})


def test_forget_quality_compares_truth_ratios_with_the_retrained() -> None:
    assert value("forget_quality") == utility.forget_quality(
        ratios("forget", "paraphrased"), ratios("forget", "paraphrased", RETRAINED)
    )
    assert METRICS["forget_quality"].value(MODEL, MODEL).value == 1.0


def test_attacks_score_forget_against_holdout() -> None:
    scored = {
        "loss": lambda item: likelihood.loss(right(item)),
        "zlib": lambda item: membership.zlib_score(right(item)),
        "min_k": lambda item: membership.min_k(right(item)),
        "min_k_plus_plus": lambda item: membership.min_k_plus_plus(right(item)),
        "gradient_norm": lambda item: item.gradient_norm,
    }
    for name, score in scored.items():
        found = METRICS[f"membership_{name}"].value(MODEL, None)
        forget, holdout = ([score(i) for i in MODEL[part]] for part in ("forget", "holdout"))
        assert [*found.by_item.values()] == forget + holdout
        assert found.value == membership.auc(forget, holdout)


def test_the_reference_attack_takes_the_retrained_loss_away() -> None:
    found = METRICS["membership_reference"].value(MODEL, RETRAINED)
    forget, holdout = (
        [
            likelihood.loss(right(ours)) - likelihood.loss(right(theirs))
            for ours, theirs in zip(MODEL[part], RETRAINED[part], strict=True)
        ]
        for part in ("forget", "holdout")
    )
    assert [*found.by_item.values()] == forget + holdout
    assert found.value == membership.auc(forget, holdout)


def test_privleak_compares_the_aucs_of_min_k() -> None:
    ours, theirs = (
        METRICS["membership_min_k"].value(each, None).value for each in (MODEL, RETRAINED)
    )
    assert ours is not None
    assert theirs is not None
    assert value("privleak") == membership.privleak(ours, theirs)
    assert value("rel_diff") == 100 * (ours - theirs) / (theirs + 1e-10)


@pytest.mark.parametrize("name", ["privleak", "rel_diff"])
def test_without_a_retrained_model_its_auc_is_one_half(name: str) -> None:
    auc = METRICS["membership_min_k"].value(RETRAINED, None).value
    assert auc is not None
    sign = -1 if name == "privleak" else 1
    assert METRICS[name].value(RETRAINED, None).value == pytest.approx(sign * 200 * (auc - 0.5))


def test_a_prompt_without_an_answer_has_no_rouge() -> None:
    bare = replace(FORGET[0], prompt=replace(FORGET[0].prompt, answer=None))
    with pytest.raises(InputError, match="'forget/0': this prompt has no answer"):
        METRICS["forget_rouge_l_recall"].value({"forget": [bare]}, None)
