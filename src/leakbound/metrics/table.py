"""`METRICS`: every metric of an evaluated model, by name.

If a metric exists for several parts of a benchmark, its name begins with the part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from leakbound.metrics import likelihood, membership
from leakbound.metrics.diversity import distinct_share, self_bleu
from leakbound.metrics.likelihood import choice_accuracy, choice_probability
from leakbound.metrics.measuring import (
    NOTHING,
    SIDES,
    Item,
    Items,
    Kind,
    Measure,
    Metric,
    Need,
    Values,
    against_retrained,
    attack,
    combined,
    mean,
    measure_part,
    of_answer,
    per_item,
    readings,
    required,
    separated,
    texts,
)
from leakbound.metrics.membership import exact_memorisation, extraction_strength
from leakbound.metrics.utility import (
    RECALL_TERMS,
    UTILITY_TERMS,
    forget_quality,
    model_utility,
    r_avg,
)
from leakbound.text.rouge import Rouge, rouge_1, rouge_l
from leakbound.types import Compat, Reading

FACTS = ("real_authors", "world_facts")
PARTS = ("forget", "retain", *FACTS)
FORGET = Need(part="forget")
LETTERS = Need(part="forget", kinds=frozenset({"letter"}))


def _truth_kinds(part: str) -> tuple[Kind, Kind]:
    """Return the kinds of right and wrong texts of a part's truth ratio.

    Real authors and world facts have no paraphrases, so their right text is the answer.
    """
    return "answer" if part in FACTS else "paraphrased", "perturbed"


def _truth(part: str, compare: Callable[[Reading, Sequence[Reading]], float]) -> Measure:
    """Return the measure that compares a prompt's right text with its wrong texts."""
    right, wrong = _truth_kinds(part)
    return lambda item: compare(readings(item, right)[0], readings(item, wrong))


def _normalised(item: Item) -> float:
    wrong = [likelihood.probability(reading) for reading in readings(item, "perturbed")]
    right = likelihood.probability(readings(item, "answer")[0])
    return likelihood.normalised_probability(right, wrong)


def _choice(measure: Callable[[Sequence[Reading], list[int]], float], item: Item) -> float:
    choices, (right,) = item.prompt.choices, texts(item, "answer")
    return measure(readings(item, "letter"), [i for i, text in enumerate(choices) if text == right])


def _rouge(kind: Kind, of: Callable[[list[str], str], Rouge], value: str) -> Measure:
    """Return the measure that is the mean ROUGE of the greedy answer against texts of a kind."""

    def measure(item: Item) -> float:
        greedy = [required(item.greedy, "greedy answer")]
        return mean([float(getattr(of(greedy, text), value)[0]) for text in texts(item, kind)])

    return measure


def _diversity(measure: Callable[[Mapping[str, int]], float], item: Item) -> float:
    return measure(required(item.draws, "draws"))


def _compared(part: str, kind: Kind) -> Need:
    """Return the need for greedy answers and for texts to compare them with."""
    return Need(part=part, kinds=NOTHING, greedy=True, compared=frozenset({kind}))


def _about(part: str) -> dict[str, Metric]:
    """Return the metrics of one part, by name without the part."""
    answers, greedy = Need(part=part), _compared(part, "answer")
    drawn = Need(part=part, kinds=NOTHING, draws=True)
    truth = Need(part=part, kinds=frozenset(_truth_kinds(part)))
    return {
        "probability": per_item(of_answer(likelihood.probability), answers),
        "rouge_1_recall": per_item(_rouge("answer", rouge_1, "recall"), greedy),
        "rouge_l_recall": per_item(_rouge("answer", rouge_l, "recall"), greedy),
        "rouge_l_f1": per_item(_rouge("answer", rouge_l, "f1"), greedy),
        "truth_ratio": per_item(
            _truth(part, likelihood.truth_ratio),
            truth,
            likelihood.forget_truth_ratio if part == "forget" else likelihood.utility_truth_ratio,
        ),
        "truth_ratio_prob_mean": per_item(_truth(part, likelihood.truth_probability), truth),
        "entropy": per_item(of_answer(likelihood.mean_entropy), answers),
        "confidence": per_item(of_answer(likelihood.mean_confidence), answers),
        "self_bleu": per_item(partial(_diversity, self_bleu), drawn),
        "distinct_share": per_item(partial(_diversity, distinct_share), drawn),
        **_about_others(part, "perturbed"),
        **({} if part in FACTS else _about_others(part, "paraphrased")),
    }


def _about_others(part: str, kind: Kind) -> dict[str, Metric]:
    """Return two metrics of a kind of answers: their probability, and ROUGE recall against them."""
    read = Need(part=part, kinds=frozenset({kind}))
    recall = _rouge(kind, rouge_l, "recall")

    def probability(item: Item) -> float:
        return mean([likelihood.probability(reading) for reading in readings(item, kind)])

    return {
        f"{kind}_probability": per_item(probability, read),
        f"{kind}_rouge_l_recall": per_item(recall, _compared(part, kind)),
    }


def _forget_quality(items: Items, reference: Items) -> Values:
    measure = _truth("forget", likelihood.truth_ratio)
    ours, theirs = (measure_part(measure, side, "forget") for side in (items, reference))
    return Values(forget_quality([*ours.values()], [*theirs.values()]))


def _min_k_auc(items: Items) -> float:
    forget, holdout = (measure_part(_MIN_K, items, part) for part in SIDES)
    return membership.auc([*forget.values()], [*holdout.values()])


def _min_k_change(of: Callable[..., float]) -> Metric:
    """Return the metric that is the change of the min-k AUC from the retrained model's.

    Without a retrained model, it is the change from 1/2.
    """
    return against_retrained(
        lambda items, reference: Values(of(_min_k_auc(items), _min_k_auc(reference))),
        _BOTH_SIDES,
        lambda items: Values(of(_min_k_auc(items))),
    )


def _reference_attack(items: Items, reference: Items) -> Values:
    """Return the AUC of the loss minus the loss of a model that never saw the text."""

    def beyond(part: str) -> dict[str, float]:
        ours, theirs = (measure_part(_LOSS, side, part) for side in (items, reference))
        return {id: ours[id] - theirs[id] for id in ours}

    return separated(*map(beyond, SIDES))


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
    "forget_fluency": per_item(
        lambda item: required(item.fluency, "fluency of the greedy answer"),
        Need(part="forget", kinds=NOTHING, fluency=True),
    ),
    "choice_accuracy": per_item(partial(_choice, choice_accuracy), LETTERS),
    "choice_probability": per_item(partial(_choice, choice_probability), LETTERS),
    "exact_memorisation": per_item(of_answer(exact_memorisation), FORGET),
    "extraction_strength": per_item(of_answer(extraction_strength), FORGET),
    "membership_loss": attack(_LOSS),
    "membership_zlib": attack(of_answer(membership.zlib_score)),
    "membership_reference": against_retrained(_reference_attack, _BOTH_SIDES),
    "membership_min_k": attack(_MIN_K),
    "membership_min_k_plus_plus": attack(of_answer(membership.min_k_plus_plus)),
    "membership_gradient_norm": attack(
        lambda item: required(item.gradient_norm, "gradient norm"), gradient_norm=True
    ),
    "privleak": _min_k_change(membership.privleak),
    "rel_diff": _min_k_change(membership.rel_diff),
}

_AS_OPENUNLEARNING = {
    "extraction_strength": per_item(
        of_answer(partial(extraction_strength, compat="openunlearning")), FORGET
    )
}


def metrics_as(compat: Compat | None) -> dict[str, Metric]:
    """Return `METRICS`, with the definitions of the framework `compat` where they differ."""
    return METRICS if compat is None else {**METRICS, **_AS_OPENUNLEARNING}
