"""`METRICS`: every metric of an evaluated model, by name.

A name opens with the part it is about, where a metric could be about several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from residua.metrics import likelihood, membership
from residua.metrics.choices import choice_accuracy, choice_probability
from residua.metrics.diversity import distinct_share, self_bleu
from residua.metrics.measuring import (
    NOTHING,
    against_retrained,
    answer,
    attack,
    combined,
    known,
    measure_part,
    of_answer,
    per_item,
    readings,
    told_apart,
)
from residua.metrics.memorisation import exact_memorisation, extraction_strength
from residua.metrics.needs import Item, Items, Kind, Metric, Need, Values
from residua.metrics.utility import (
    RECALL_TERMS,
    UTILITY_TERMS,
    forget_quality,
    model_utility,
    r_avg,
)
from residua.text.rouge import RougeL, rouge_l
from residua.types import Reading

FACTS = ("real_authors", "world_facts")
PARTS = ("forget", "retain", *FACTS)
SIDES = ("forget", "holdout")  # of an attack
FORGET = Need(part="forget")
LETTERS = Need(part="forget", kinds=frozenset({"letter"}))


def _truth_kinds(part: str) -> tuple[Kind, Kind]:
    """The right and the wrong texts of a truth ratio; facts have no paraphrased answers."""
    return "answer" if part in FACTS else "paraphrased", "perturbed"


def _truth_ratio(part: str, item: Item) -> float:
    right, wrong = _truth_kinds(part)
    return likelihood.truth_ratio(readings(item, right)[0], readings(item, wrong))


def _normalised(item: Item) -> float:
    wrong = [likelihood.probability(each) for each in readings(item, "perturbed")]
    right = likelihood.probability(readings(item, "answer")[0])
    return likelihood.normalised_probability(right, wrong)


def _choice(measure: Callable[[Sequence[Reading], list[int]], float], item: Item) -> float:
    choices, right = item.prompt.choices, answer(item)
    return measure(readings(item, "letter"), [i for i, text in enumerate(choices) if text == right])


def _rouge(item: Item) -> RougeL:
    return rouge_l([known(item.greedy, "the greedy answer")], answer(item))


def _diversity(measure: Callable[[list[str], list[int]], float], item: Item) -> float:
    draws = known(item.draws, "what was drawn")
    return measure([*draws], [*draws.values()])


def _about(part: str) -> dict[str, Metric]:
    """The metrics of one part, without its name."""
    answers, greedy = Need(part=part), Need(part=part, kinds=NOTHING, greedy=True)
    drawn = Need(part=part, kinds=NOTHING, draws=True)
    truth = Need(part=part, kinds=frozenset(_truth_kinds(part)))
    return {
        "probability": per_item(of_answer(likelihood.probability), answers),
        "rouge_l_recall": per_item(lambda item: float(_rouge(item).recall[0]), greedy),
        "rouge_l_f1": per_item(lambda item: float(_rouge(item).f1[0]), greedy),
        "truth_ratio": per_item(
            partial(_truth_ratio, part),
            truth,
            likelihood.forget_truth_ratio if part == "forget" else likelihood.utility_truth_ratio,
        ),
        "entropy": per_item(of_answer(likelihood.mean_entropy), answers),
        "confidence": per_item(of_answer(likelihood.mean_confidence), answers),
        "self_bleu": per_item(partial(_diversity, self_bleu), drawn),
        "distinct_share": per_item(partial(_diversity, distinct_share), drawn),
    }


def _zlib(item: Item) -> float:
    return membership.zlib_score(readings(item, "answer")[0], answer(item))


def _gradient_norm(item: Item) -> float:
    return known(item.gradient_norm, "the gradient norm")


def _forget_quality(items: Items, reference: Items) -> Values:
    measure = partial(_truth_ratio, "forget")
    ours, theirs = (measure_part(measure, each, "forget") for each in (items, reference))
    return Values(forget_quality([*ours.values()], [*theirs.values()]))


def _privleak(items: Items, reference: Items) -> Values:
    return Values(membership.privleak(_min_k_auc(items), _min_k_auc(reference)))


def _min_k_auc(items: Items) -> float:
    forget, holdout = (measure_part(_MIN_K, items, part) for part in SIDES)
    return membership.auc([*forget.values()], [*holdout.values()])


def _reference_attack(items: Items, reference: Items) -> Values:
    forget, holdout = (_reference_scores(items, reference, part) for part in SIDES)
    return told_apart(forget, holdout)


def _reference_scores(items: Items, reference: Items, part: str) -> dict[str, float]:
    ours, theirs = (measure_part(_LOSS, each, part) for each in (items, reference))
    return {id: membership.reference_score(ours[id], theirs[id]) for id in ours}


_LOSS = of_answer(likelihood.loss)
_MIN_K = of_answer(membership.min_k)
_BOTH_SIDES = tuple(Need(part=part) for part in SIDES)
_OF_PARTS = {
    f"{part}_{name}": metric for part in PARTS for name, metric in _about(part).items()
} | {
    f"{part}_normalised_probability": per_item(
        _normalised, Need(part=part, kinds=frozenset({"answer", "perturbed"}))
    )
    for part in FACTS
}

METRICS: dict[str, Metric] = {
    **_OF_PARTS,
    "model_utility": combined(model_utility, {name: _OF_PARTS[name] for name in UTILITY_TERMS}),
    "r_avg": combined(r_avg, {name: _OF_PARTS[name] for name in RECALL_TERMS}),
    "forget_quality": against_retrained(_forget_quality, _OF_PARTS["forget_truth_ratio"].needs),
    "choice_accuracy": per_item(partial(_choice, choice_accuracy), LETTERS),
    "choice_probability": per_item(partial(_choice, choice_probability), LETTERS),
    "exact_memorisation": per_item(of_answer(exact_memorisation), FORGET),
    "extraction_strength": per_item(of_answer(extraction_strength), FORGET),
    "membership_loss": attack(_LOSS),
    "membership_zlib": attack(_zlib),
    "membership_reference": against_retrained(_reference_attack, _BOTH_SIDES),
    "membership_min_k": attack(_MIN_K),
    "membership_min_k_plus_plus": attack(of_answer(membership.min_k_plus_plus)),
    "membership_gradient_norm": attack(_gradient_norm, gradient_norm=True),
    "privleak": against_retrained(_privleak, _BOTH_SIDES),
}
