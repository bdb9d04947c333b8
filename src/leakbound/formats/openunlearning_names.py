"""What OpenUnlearning calls the metrics of `leakbound.metrics.METRICS`, benchmark by benchmark.

An entry of its log is an aggregate and, row by row, one value or more: every metric of ours is one
of these values, and of those of one entry one is averaged to the aggregate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PREFIXES = {"forget": "forget", "retain": "retain", "real_authors": "ra", "world_facts": "wf"}
_FACTS = ("real_authors", "world_facts")
_ATTACKS = {
    "loss": "loss",
    "zlib": "zlib",
    "reference": "reference",
    "min_k": "min_k",
    "min_k_plus_plus": "min_k_plus_plus",
    "gradient_norm": "gradnorm",
}


class Column(NamedTuple):
    """An entry of a log, the key of its value of one row, and whether that is what is averaged."""

    entry: str
    key: str
    averaged: bool = True


Names = Mapping[str, Column]


def _rouge(ours: str, entry: str, averaged: str) -> dict[str, Column]:
    """The three ROUGE of the greedy answers, of which `averaged` makes the aggregate."""
    keys = {
        "rouge_l_recall": "rougeL_recall",
        "rouge_l_f1": "rougeL_f1",
        "rouge_1_recall": "rouge1_recall",
    }
    return {f"{ours}_{name}": Column(entry, key, key == averaged) for name, key in keys.items()}


def _of_part(ours: str, its: str) -> dict[str, Column]:
    """The metrics of one part of TOFU."""
    truth = "forget_truth_ratio" if its == "forget" else f"{its}_Truth_Ratio"
    found = {
        f"{ours}_probability": Column(f"{its}_Q_A_Prob", "prob"),
        f"{ours}_paraphrased_probability": Column(f"{its}_Q_A_PARA_Prob", "prob"),
        f"{ours}_perturbed_probability": Column(f"{its}_Q_A_PERT_Prob", "prob"),
        **_rouge(ours, f"{its}_Q_A_ROUGE", "rougeL_recall"),
        f"{ours}_paraphrased_rouge_l_recall": Column(f"{its}_Q_A_PARA_ROUGE", "rougeL_recall"),
        f"{ours}_perturbed_rouge_l_recall": Column(f"{its}_Q_A_PERT_ROUGE", "rougeL_recall"),
        f"{ours}_normalised_probability": Column(f"{its}_Q_A_Prob_normalised", "prob"),
        f"{ours}_truth_ratio": Column(truth, "score"),
    }
    lacking = "paraphrased" if ours in _FACTS else "normalised"
    return {name: column for name, column in found.items() if lacking not in name}


_MEMORISED: Names = {
    "exact_memorisation": Column("exact_memorization", "score"),
    "extraction_strength": Column("extraction_strength", "score"),
}
_ATTACKED: Names = {
    **{f"membership_{ours}": Column(f"mia_{its}", "score") for ours, its in _ATTACKS.items()},
    **{name: Column(name, "") for name in ("privleak", "rel_diff")},
}
TOFU: Names = {
    **{name: c for ours, its in PREFIXES.items() for name, c in _of_part(ours, its).items()},
    **_MEMORISED,
    **_ATTACKED,
    "forget_fluency": Column("forget_Q_A_gibberish", "score"),
    **{name: Column(name, "") for name in ("model_utility", "forget_quality")},
}
MUSE: Mapping[str, Names] = {
    "knowmem": {
        **_rouge("forget", "forget_knowmem_ROUGE", "rougeL_f1"),
        **_rouge("retain", "retain_knowmem_ROUGE", "rougeL_f1"),
    },
    "verbmem": {
        **_rouge("forget", "forget_verbmem_ROUGE", "rougeL_f1"),
        **_MEMORISED,
        "forget_fluency": Column("forget_gibberish", "score"),
    },
    "privleak": _ATTACKED,
}
"""By the part of MUSE that a metric is taken of: memorisation of verbmem, attacks of privleak."""

ANSWERS: Mapping[str, str] = {
    **{part: f"{prefix}_Q_A_ROUGE" for part, prefix in PREFIXES.items()},
    "knowmem": "forget_knowmem_ROUGE",
    "retain_knowmem": "retain_knowmem_ROUGE",
    "verbmem": "forget_verbmem_ROUGE",
}
"""The entries that hold greedy answers, by what was asked."""


def names_of(benchmark: str) -> Names:
    """The names that apply to the metrics of a benchmark: TOFU's, unless it is of MUSE."""
    family, _, argument = benchmark.partition(":")
    return MUSE.get(argument.partition("-")[2], {}) if family == "muse" else TOFU


def asked_by(benchmark: str) -> str:
    """Which of `ANSWERS` are to the questions of a benchmark; "forget" where it is another's."""
    family, _, argument = benchmark.partition(":")
    asked = (argument.partition("-")[2] or "knowmem") if family == "muse" else argument
    return asked if asked in ANSWERS else "retain" if asked.startswith("retain") else "forget"
